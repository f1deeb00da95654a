"""The public model: trains, predicts, is inspected, saved and loaded."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self, TextIO

import numpy as np
from numpy.typing import NDArray

import hornbeam.export
import hornbeam.forest
from hornbeam.boosting.custom import (
    MetricFunction,
    ObjectiveFunction,
    set_gradients,
    set_gradients_of,
)
from hornbeam.boosting.evaluation import Evaluator
from hornbeam.boosting.learner import Learner, booster_of, parameters_of
from hornbeam.boosting.margin_cache import MarginCache
from hornbeam.boosting.parameter_checks import check_rounds
from hornbeam.boosting.predictor import Predictor
from hornbeam.boosting.trainer import Trainer
from hornbeam.data.categories import Categories
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.schema import check_names, check_types
from hornbeam.errors import (
    DataError,
    ErrorCode,
    HornbeamError,
    ParameterError,
    require,
    short_traceback,
)
from hornbeam.features.matrix import expanded
from hornbeam.files import replace_file
from hornbeam.forest.model import (
    Model,
    average_models,
    merge_models,
    models_of_average,
)
from hornbeam.forest.tree import Tree
from hornbeam.lazy import extension
from hornbeam.metrics.base import Metric
from hornbeam.objectives.base import Objective
from hornbeam.objectives.compiled import ScalarLoss
from hornbeam.params import Parameters, ParameterSource

__all__ = ["Booster", "average", "merge", "split_average"]

PathLike = str | os.PathLike[str]


class Booster:
    """A model of gradient boosted trees, or a boosted linear model, with parameters.

    It has a learner (the model with its parameters, objective and metrics), a
    predictor that reads the model, and a trainer that adds rounds to it.

    Parameters
    ----------
    params
        Parameters of training, as a mapping or as pairs of name and value.
    cache
        Accepted as in XGBoost: matrices that training will use.
    model_file
        A model to start from: a path, the bytes of a file, or another booster.

    Raises
    ------
    ParameterError
        If a parameter is unknown or has an invalid value.

    Examples
    --------
    >>> import hornbeam
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> data = hornbeam.DMatrix(X, y)
    >>> booster = hornbeam.train({"max_depth": 2}, data, 20)
    >>> booster
    Booster(objective='reg:squarederror', rounds=20, trees=20, features=10)
    >>> booster.save_model("diabetes.ubj")
    >>> again = hornbeam.Booster(model_file="diabetes.ubj")
    >>> again.digest() == booster.digest()
    True
    >>> np.array_equal(again.predict(data), booster.predict(data))
    True
    >>> sorted(booster.get_score(importance_type="gain"))[:3]
    ['age', 'bmi', 'bp']
    >>> booster[:5].num_boosted_rounds()
    5
    """

    _learner: Learner
    _predictor: Predictor
    _trainer: Trainer
    _evaluator: Evaluator
    #: The checksum of model files; see `hornbeam.forest.model_file.encode`.
    _checksum: ClassVar[str] = "digest"

    @short_traceback
    def __init__(
        self,
        params: ParameterSource | None = None,
        cache: Sequence[DMatrix] | None = None,
        model_file: Booster | PathLike | bytes | bytearray | None = None,
    ) -> None:
        for data in cache or ():
            if not isinstance(data, DMatrix):
                raise DataError(
                    f"cache must hold DMatrix objects, not {type(data).__name__}",
                    code=ErrorCode.NOT_A_DMATRIX,
                )
        self._compose(Parameters.resolve(params))
        if isinstance(model_file, Booster):
            self._replace_model(
                model_file.model.copy(), model_file.params, model_file._learner.loss
            )
            self.set_param(params or {})
        elif model_file is not None:
            self.load_model(model_file)
            self.set_param(params or {})
        else:
            self._configure(self.params, None)
            if cache:
                self._learner.set_features(expanded(cache[0]))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model.summary()})"

    def _repr_html_(self) -> str:
        found: str = extension("booster_html")(self)
        return found

    def _compose(self, parameters: Parameters) -> None:
        """Create the parts of the booster."""
        #: The scores of the training, by data and metric; empty for a loaded model.
        self.history: Mapping[str, Mapping[str, Any]] = {}
        learner = Learner(parameters)
        predictor = Predictor(learner)
        cache = MarginCache(learner, predictor)
        self._learner, self._predictor = learner, predictor
        self._trainer = Trainer(learner, predictor, cache)
        self._evaluator = Evaluator(learner, predictor, cache)

    @property
    def model(self) -> Model:
        """The trees, or the linear model, with their metadata."""
        return self._learner.model

    # Parameters

    @property
    def params(self) -> Parameters:
        """The parameters of training."""
        return self._learner.params

    @property
    def objective(self) -> Objective:
        """Computes gradients, and turns margins into predictions."""
        return self._learner.objective

    @property
    def metrics(self) -> list[Metric]:
        """The metrics that `eval` reports."""
        return list(self._learner.metrics)

    @short_traceback
    def set_param(self, params: ParameterSource | str, value: Any = None) -> None:
        """Change parameters: a mapping, pairs, or a name and its value."""
        pairs = {params: value} if isinstance(params, str) else params
        changed = self.params.updated(pairs)
        if changed.base_score != self.params.base_score:
            self._learner.check_base_score(changed)
        self._configure(changed, self._learner.loss)

    def set_objective(self, objective: ScalarLoss) -> None:
        """Use a custom objective in formulas, to train and to predict.

        `train` calls it for the objective that it is given. A model file contains no
        formulas, so a loaded model needs this call before it can predict.
        """
        if not isinstance(objective, ScalarLoss):
            raise ParameterError(
                "an objective in formulas has the functions gradient(y, m) and "
                f"hessian(y, m); {objective!r} has not",
                code=ErrorCode.INVALID_CUSTOM_OBJECTIVE,
            )
        if self._learner.loss is not objective:
            self._configure(self.params, objective)
            self.reset()  # the new objective has not checked the labels

    def _configure(self, parameters: Parameters, loss: ScalarLoss | None) -> None:
        """Use parameters and a custom objective; an error changes nothing."""
        other_booster = parameters.booster != booster_of(self.model)
        self._learner.configure(parameters, loss)
        if other_booster:
            self.reset()
        self._trainer.configure()

    def _replace_model(
        self, model: Model, parameters: Parameters, loss: ScalarLoss | None
    ) -> None:
        """Continue with another model; an error changes nothing."""
        self._learner.replace_model(model, parameters, loss)
        self._trainer.restart()
        self._trainer.configure()
        self.reset()

    def reset(self) -> Self:
        """Release the training data and everything that prediction has cached."""
        self._trainer.clear()
        return self

    # Training

    @classmethod
    def of_trees(
        cls, trees: Sequence[Tree], data: DMatrix, params: ParameterSource
    ) -> Booster:
        """Return a booster of one round of trees that were not grown by boosting.

        Parameters
        ----------
        trees
            The trees of the round, in the order of outputs.
        data
            Their training data, for the names and types of its features.
        params
            Parameters that describe such a round; `base_score` is among them.
        """
        booster = cls(params)
        booster._learner.set_features(data)
        per_output = max(1, len(trees) // booster.params.num_parallel_tree)
        outputs = np.repeat(np.arange(per_output), len(trees) // per_output).tolist()
        booster.model.append_round(trees, outputs)
        return booster

    def update(
        self,
        dtrain: DMatrix,
        iteration: int,
        fobj: ObjectiveFunction | ScalarLoss | None = None,
        rounds: int = 1,
    ) -> None:
        """Add rounds of trees.

        Parameters
        ----------
        dtrain
            Data with labels.
        iteration
            The caller's number of the round; it has no effect.
        fobj
            A custom objective, instead of the parameter's: formulas, or a function of
            (predictions, data) that returns gradients and hessians, each (rows,) or
            (rows, outputs). For multi-output trees it may return another pair with at
            most as many columns: splits are then searched by these, and leaf values
            computed from the first pair.
        rounds
            The number of rounds. Several at a time are faster than one after the other.

        Raises
        ------
        ParameterError
            If `rounds` is not an integer, or negative.
        """
        try:
            if rounds != 1:
                check_rounds(rounds, "rounds")
            function = self._use_objective(fobj)
            if function is None:
                self._trainer.steps(dtrain, rounds)
                return
            set_own = partial(set_gradients_of, objective=function, data=dtrain)
            for _ in range(rounds):
                self._trainer.step(dtrain, set_own)
        except HornbeamError as error:
            error.shorten()
            raise

    def _use_objective(
        self, custom: ObjectiveFunction | ScalarLoss | None
    ) -> ObjectiveFunction | None:
        """Use an objective in formulas; return one that is a function."""
        if custom is not None and isinstance(custom, ScalarLoss):
            self.set_objective(custom)
            return None
        return custom

    @short_traceback
    def boost(
        self,
        dtrain: DMatrix,
        iteration: int,
        *,
        grad: Any = None,
        hess: Any = None,
        fobj: ObjectiveFunction | None = None,
    ) -> None:
        """Add one round of trees from custom gradients and hessians.

        Parameters
        ----------
        dtrain
            Data; its labels are not used.
        iteration
            The caller's number of the round; it has no effect.
        grad, hess
            (rows,) or (rows, outputs).
        fobj
            A function that returns both, instead.
        """
        if fobj is None:
            self._trainer.step(
                dtrain, partial(set_gradients, gradients=grad, hessians=hess)
            )
            return
        if grad is not None or hess is not None:
            raise ParameterError(
                "give either fobj, or grad and hess, not both",
                code=ErrorCode.CONFLICTING_PARAMETERS,
            )
        self.update(dtrain, iteration, fobj)

    @short_traceback
    def refit(self, data: DMatrix, decay: float = 0.9) -> Booster:
        """Return a booster of the same trees with leaf values for other data.

        In each round a leaf value becomes `decay` times the old value plus
        ``1 - decay`` times the value that the rows of `data` give it. Leaves without
        rows keep their values. The learning rate is that of the parameters, which
        model files do not contain.

        Parameters
        ----------
        data
            With labels.
        decay
            The share of the old values, from 0 to 1.
        """
        self._learner.require_model()
        if not 0.0 <= decay <= 1.0:
            raise ParameterError(
                f"decay must be from 0 to 1, not {decay!r}",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
        if self.model.linear is not None:
            raise ParameterError(
                "a linear model has no leaves to refit; continue its training with "
                "xgb_model",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )
        from hornbeam.boosting.refresh import Revision, check_constant_leaves

        check_constant_leaves(self.model, "refit")
        if self.params.leaf_solver != "newton":
            raise ParameterError(
                "refit computes leaf values by Newton's step, and leaf_solver is "
                f"{self.params.leaf_solver!r}; set_param('leaf_solver', 'newton') "
                "first",
                code=ErrorCode.CONFLICTING_PARAMETERS,
            )
        fitted = self.copy()
        fitted.set_param({"process_type": "update", "updater": "refresh"})
        fitted._learner.model = self.model.without_rounds()
        revision = replace(Revision.by(fitted.params), decay=decay)
        fitted._trainer.refresh(self.model, revision)
        for _ in range(self.model.n_rounds):
            fitted._trainer.step(data)
        fitted.model.attributes = dict(self.model.attributes)
        fitted._configure(self.params, self._learner.loss)
        return fitted.reset()

    # Evaluation

    @short_traceback
    def eval(self, data: DMatrix, name: str = "eval", iteration: int = 0) -> str:
        """Return the line that reports the metrics on `data`."""
        return self.eval_set([(data, name)], iteration)

    def eval_set(
        self,
        evals: Sequence[tuple[DMatrix, str]],
        iteration: int = 0,
        feval: MetricFunction | None = None,
        output_margin: bool = True,
    ) -> str:
        r"""Return a line such as ``"[0]\ttrain-rmse:0.5\tvalid-rmse:0.6"``.

        Parameters
        ----------
        evals
            Data with labels, and the name of each.
        iteration
            The number in brackets.
        feval
            A custom metric, in addition to the parameter's.
        output_margin
            Whether `feval` gets margins instead of predictions.
        """
        scores = self.measure(evals, feval, output_margin)
        return "\t".join([f"[{iteration}]", *(f"{k}:{v!r}" for k, v in scores)])

    def measure(
        self,
        evals: Sequence[tuple[DMatrix, str]],
        feval: MetricFunction | None = None,
        output_margin: bool = True,
    ) -> list[tuple[str, float]]:
        """Return the metrics on `evals`, as in ``("valid-rmse", 0.6)``.

        The arguments are those of `eval_set`.
        """
        return self._evaluator.measure(evals, feval, output_margin)

    @short_traceback
    def predictions_to_measure(self, data: DMatrix) -> NDArray[np.float64]:
        """Return predictions as metrics take them: (rows,), or (rows, outputs).

        Of classes these are always the probabilities of all classes.
        """
        return self._evaluator.predictions(data)

    def check_labels(self, data: DMatrix) -> None:
        """Raise a `DataError` unless the objective can learn from these labels."""
        self._learner.targets_of(data)

    def check_out_of_bag(self) -> None:
        """Raise a `ParameterError` if `out_of_bag_improvement` has no rows or loss."""
        self._evaluator.check_out_of_bag()

    @short_traceback
    def out_of_bag_improvement(self, dtrain: DMatrix) -> float:
        """Return how far the last round lowered the mean loss of out-of-bag rows.

        These are the rows of `dtrain` that no tree of the round was grown on, as
        `subsample` drew them. The callback `OutOfBag` records it for all rounds.
        """
        self._learner.require_model()
        return self._evaluator.out_of_bag_improvement(dtrain)

    # Prediction

    def predict(
        self,
        data: DMatrix,
        *,
        output_margin: bool = False,
        pred_leaf: bool = False,
        pred_contribs: bool = False,
        approx_contribs: bool = False,
        pred_interactions: bool = False,
        validate_features: bool = True,
        training: bool = False,
        iteration_range: tuple[int, int] = (0, 0),
        strict_shape: bool = False,
    ) -> NDArray[Any]:
        """Return predictions: (rows,), or (rows, outputs) of several outputs.

        Leaf values are summed in float32 in the order of trees, as in XGBoost, and in
        float64 where float32 is too coarse to tell the labels of training apart.

        Parameters
        ----------
        data
            Features as in training.
        output_margin
            Return margins instead of transformed predictions.
        pred_leaf
            Return the index of each row's leaf, (rows, trees); (rows,) of one tree.
        pred_contribs
            Return the SHAP value of each feature for the margin, and last the bias
            (the expected margin, base margin included): (rows, features + 1), or
            (rows, outputs, features + 1) of several outputs. They sum to the margin.
        approx_contribs
            With `pred_contribs`: each split contributes the change of the expected
            value on the path of the row (Saabas), which is faster, but biased towards
            features near the root. With `pred_interactions`: the same on the diagonal.
        pred_interactions
            Return the SHAP interaction value of each pair of features, half of it in
            either place, and on the diagonal the main effects:
            (rows, features + 1, features + 1), or (rows, outputs, ...) of several.
        validate_features
            Whether names of features must be those of training.
        training
            Drop the trees of DART that the next round drops, as a custom objective
            needs it.
        iteration_range
            Rounds (begin, end); (0, 0) means all.
        strict_shape
            Always return (rows, outputs), contributions with their outputs, and
            leaves as (rows, rounds, outputs, parallel trees); a multi-output tree
            counts as one output.
        """
        try:
            return self._predictor.predict(
                data,
                output_margin=output_margin,
                pred_leaf=pred_leaf,
                pred_contribs=pred_contribs,
                approx_contribs=approx_contribs,
                pred_interactions=pred_interactions,
                validate_features=validate_features,
                training=training,
                iteration_range=iteration_range,
                strict_shape=strict_shape,
            )
        except HornbeamError as error:
            error.shorten()
            raise

    def inplace_predict(
        self,
        data: Any,
        *,
        iteration_range: tuple[int, int] = (0, 0),
        predict_type: str = "value",
        missing: float = np.nan,
        validate_features: bool = True,
        base_margin: Any = None,
        strict_shape: bool = False,
    ) -> NDArray[Any]:
        """Return predictions of an array or frame, without a DMatrix.

        Parameters
        ----------
        data
            Any container that a DMatrix accepts.
        iteration_range
            Rounds (begin, end); (0, 0) means all.
        predict_type
            ``"value"``, or ``"margin"`` for margins.
        missing
            The number that stands for missing, in addition to NaN.
        validate_features
            Whether names of features must be those of training.
        base_margin
            Initial margins, (rows,) or (rows, outputs).
        strict_shape
            Always return (rows, outputs).
        """
        try:
            return self._predictor.inplace_predict(
                data,
                iteration_range=iteration_range,
                predict_type=predict_type,
                missing=missing,
                validate_features=validate_features,
                base_margin=base_margin,
                strict_shape=strict_shape,
            )
        except HornbeamError as error:
            error.shorten()
            raise

    @short_traceback
    def shap_values(
        self,
        data: DMatrix,
        background: DMatrix | None = None,
        *,
        validate_features: bool = True,
        iteration_range: tuple[int, int] = (0, 0),
        strict_shape: bool = False,
    ) -> NDArray[Any]:
        """Return SHAP values of the margins: the contribution of each feature.

        (rows, features + 1), or (rows, outputs, features + 1) of several outputs. The
        last is the expected margin, and they all sum to the margin.

        Parameters
        ----------
        data
            Features as in training.
        background
            Background data, such as a sample of the training data, which may have
            weights: absent features take the values of its rows (interventional SHAP
            values), and the expected margin is the mean margin of its rows without
            base margins. None: absent features are averaged by the cover of the trees
            (path-dependent SHAP values), as `predict` does with `pred_contribs`.
        validate_features
            Whether names of features must be those of training.
        iteration_range
            Rounds (begin, end); (0, 0) means all.
        strict_shape
            Always return (rows, outputs, features + 1).
        """
        if background is None:
            return self.predict(
                data,
                pred_contribs=True,
                validate_features=validate_features,
                iteration_range=iteration_range,
                strict_shape=strict_shape,
            )
        return self._predictor.interventional_shap(
            data,
            background,
            validate_features=validate_features,
            iteration_range=iteration_range,
            strict_shape=strict_shape,
        )

    @short_traceback
    def predict_interval(
        self,
        data: DMatrix,
        coverage: float = 0.9,
        *,
        validate_features: bool = True,
        iteration_range: tuple[int, int] = (0, 0),
    ) -> NDArray[Any]:
        """Return prediction intervals that contain labels with this probability.

        They are central, (rows, 2): from the lower to the upper quantile of the
        predicted distribution of each row, with the same probability on either side.
        An interval of counts includes its ends, and its probability may be higher.

        Parameters
        ----------
        data
            Features as in training.
        coverage
            The probability, above 0 and below 1.
        validate_features
            Whether names of features must be those of training.
        iteration_range
            Rounds (begin, end); (0, 0) means all.

        Raises
        ------
        ParameterError
            If `coverage` is no such probability, or the objective is not one of
            ``dist:*``, which predict distributions.
        """
        if not 0.0 < coverage < 1.0:
            raise ParameterError(
                "coverage must be above 0 and below 1, the probability of the "
                f"interval, not {coverage!r}",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
        from hornbeam.objectives.distributions import Distribution

        objective = self.objective
        if not isinstance(objective, Distribution):
            raise ParameterError(
                f"objective={objective.name!r} predicts no distribution, and so no "
                "interval; train with 'dist:normal', 'dist:lognormal' or "
                "'dist:negbinomial'",
                code=ErrorCode.PREDICTION_UNSUPPORTED_BY_OBJECTIVE,
            )
        predictions = self.predict(
            data, validate_features=validate_features, iteration_range=iteration_range
        )
        tail = (1.0 - coverage) / 2.0
        found = objective.quantiles(predictions, (tail, 1.0 - tail))
        return found.astype(predictions.dtype)

    # The model

    @short_traceback
    def aligned(self, data: DMatrix, unseen: str | None = None) -> DMatrix:
        """Return a matrix of the same rows with all features of the model.

        It has the columns and category codes of training, and then the derived
        features.

        Parameters
        ----------
        data
            The columns of training, in any order if they have names.
        unseen
            How to treat new categories, instead of the parameter.
        """
        return self._learner.align(data, unseen=unseen)

    def num_boosted_rounds(self) -> int:
        """Return the number of rounds."""
        return self.model.n_rounds

    def num_features(self) -> int:
        """Return the number of features of the model."""
        return self.model.num_feature

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the features; None if they have none."""
        return list(self.model.feature_names) or None

    @feature_names.setter
    def feature_names(self, names: Sequence[str] | None) -> None:
        self.model.feature_names = check_names(names, self.model.num_feature) or []

    @property
    def feature_types(self) -> list[str] | None:
        """Types of the features; None if they are unknown."""
        return list(self.model.feature_types) or None

    @feature_types.setter
    def feature_types(self, types: Sequence[str] | None) -> None:
        self.model.feature_types = check_types(types, self.model.num_feature) or []

    def get_categories(self, export_to_arrow: bool = False) -> Categories:
        """Return the categories of the model, by feature name.

        `export_to_arrow` is accepted as in XGBoost; `Categories.to_arrow` always works.
        """
        return self.model.categories

    def attr(self, key: str) -> str | None:
        """Return an attribute, or None."""
        return self.model.attributes.get(key)

    def attributes(self) -> dict[str, str]:
        """Return all attributes."""
        return dict(self.model.attributes)

    def set_attr(self, **attributes: str | None) -> None:
        """Set attributes, which are saved with the model; None removes one."""
        for name, value in attributes.items():
            if value is None:
                self.model.attributes.pop(name, None)
            elif isinstance(value, str):
                self.model.attributes[name] = value
            else:
                raise ParameterError(
                    f"attribute {name!r} must be a string, not "
                    f"{type(value).__name__}; pass str(value)",
                    code=ErrorCode.INVALID_PARAMETER_TYPE,
                )

    @property
    def best_iteration(self) -> int:
        """The best round of training with early stopping."""
        return int(self._early_stopping("best_iteration"))

    @property
    def best_score(self) -> float:
        """The score of the best round of training with early stopping."""
        return float(self._early_stopping("best_score"))

    def _early_stopping(self, name: str) -> str:
        value = self.model.attributes.get(name)
        if value is None:
            raise AttributeError(
                f"`{name}` is only defined when early stopping is used: train with "
                "early_stopping_rounds"
            )
        return value

    def rounds_to_best(self, given: tuple[int, int] | None = None) -> tuple[int, int]:
        """Return the rounds (begin, end) up to the best round of early stopping.

        (0, 0), which means all, without early stopping, and of a linear model.

        Parameters
        ----------
        given
            Rounds that are returned instead, unless it is None.
        """
        if given is not None:
            return given
        model = self._learner.model
        best = model.attributes.get("best_iteration")
        if best is None or model.linear is not None:
            return 0, 0
        return 0, int(best) + 1

    # Inspection. `fmap` is always the path of a feature map: each line has the number
    # of a feature, from 0 on, its name without spaces, and its type, such as "q".

    @short_traceback
    def get_dump(
        self, fmap: PathLike = "", with_stats: bool = False, dump_format: str = "text"
    ) -> list[str]:
        """Return a dump of each tree, as XGBoost writes it.

        Parameters
        ----------
        fmap
            The path of a feature map; "": names and types of the model.
        with_stats
            Whether to include the gain of splits, and the cover of all nodes.
        dump_format
            ``"text"``, ``"json"``, or ``"dot"`` for Graphviz. After ``dot:`` may follow
            JSON with attributes of the graph: ``graph_attrs``,
            ``condition_node_params``, ``leaf_node_params`` and ``edge``.
        """
        self._learner.require_model()
        features = hornbeam.forest.FeatureMap.of(self.model, fmap)
        return hornbeam.forest.dump_model(self.model, features, with_stats, dump_format)

    @short_traceback
    def dump_model(
        self,
        fout: PathLike | TextIO,
        fmap: PathLike = "",
        with_stats: bool = False,
        dump_format: str = "text",
    ) -> None:
        """Write the dumps of all trees to one file, which cannot be loaded again.

        The file is written atomically: it is complete, or as it was before. `fout` is
        its path, or a file that is open for text; for the others see `get_dump`.
        """
        dumps = self.get_dump(fmap, with_stats, dump_format)
        pieces = hornbeam.forest.join_dumps(dumps, dump_format)
        if isinstance(fout, str | os.PathLike):
            replace_file(fout, (piece.encode() for piece in pieces))
        else:
            fout.writelines(pieces)

    @short_traceback
    def trees_to_dataframe(self, fmap: PathLike = "") -> Any:
        """Return a pandas frame with a row for each node of each tree.

        Its columns are Tree, Node, ID, Feature, Split, Yes, No, Missing, Gain, Cover
        and Category, with XGBoost's values. The gain of a leaf is its value. The
        categories are codes, and rows of them go to Yes, which is the right child.
        """
        self._learner.require_model()
        features = hornbeam.forest.FeatureMap.of(self.model, fmap)
        return hornbeam.forest.trees_to_dataframe(self.model, features)

    @short_traceback
    def get_split_value_histogram(
        self,
        feature: str,
        fmap: PathLike = "",
        bins: int | None = None,
        as_pandas: bool = True,
    ) -> Any:
        """Return a histogram of the thresholds at which trees split a feature.

        Parameters
        ----------
        feature
            The name of a feature.
        fmap
            The path of a feature map.
        bins
            The maximum number of bins; None: one for each distinct threshold.
        as_pandas
            Whether to return a pandas frame with the columns SplitValue, the end of a
            bin, and Count. If not, they are columns of an array.
        """
        self._learner.require_model()
        table = hornbeam.forest.split_value_histogram(
            self.model, hornbeam.forest.FeatureMap.of(self.model, fmap), feature, bins
        )
        if not as_pandas:
            return table
        pandas = require(
            "pandas", "frames", "get_split_value_histogram(as_pandas=True)"
        )
        return pandas.DataFrame(table, columns=["SplitValue", "Count"])

    @short_traceback
    def get_score(
        self, fmap: PathLike = "", importance_type: str = "weight"
    ) -> dict[str, Any]:
        """Return the importance of each feature that a tree splits on.

        Parameters
        ----------
        fmap
            The path of a feature map.
        importance_type
            ``"weight"`` counts splits; ``"gain"`` and ``"cover"`` are means over the
            splits of a feature, ``"total_gain"`` and ``"total_cover"`` sums. A linear
            model has only ``"weight"``, its coefficients.
        """
        names = hornbeam.forest.FeatureMap.of(self.model, fmap).names
        return hornbeam.forest.feature_importance(self.model, importance_type, names)

    def get_fscore(self, fmap: PathLike = "") -> dict[str, Any]:
        """Return the number of splits of each feature that a tree splits on."""
        return self.get_score(fmap, "weight")

    @short_traceback
    def report(
        self,
        data: DMatrix,
        train: DMatrix | None = None,
        *,
        path: PathLike | None = None,
        evals_result: Mapping[str, Mapping[str, Sequence[float]]] | None = None,
        class_names: Sequence[str] | None = None,
        title: str | None = None,
        rows: int | None = None,
        seed: int = 0,
    ) -> str | os.PathLike[str]:
        """Return a report of this model on data: HTML, or the path of its file.

        It describes the data, scores with their uncertainty, feature importances, the
        slices with the largest errors and suspicious findings, and has the trees to
        browse. The page is self-contained. It needs the extra ``report``.

        Parameters
        ----------
        data
            Rows with labels to evaluate the model on, preferably held out.
        train
            The training data, to compare with.
        path
            The file to write, atomically. None: the page is returned.
        evals_result
            The metrics after each round as `train` records them, to be drawn.
        class_names
            A name for each class or output.
        title
            Of the page.
        rows
            The maximum number of rows of each matrix to use, 400,000 if None.
        seed
            Of all draws. The same model, data and seed give the same page.
        """
        found: str | os.PathLike[str] = extension("report")(
            self,
            data,
            train,
            path=path,
            evals_result=evals_result,
            class_names=class_names,
            title=title,
            rows=rows,
            seed=seed,
        )
        return found

    # Files and copies

    def digest(self) -> str:
        """Return the hash of the model's bytes: equal models have equal digests."""
        return hornbeam.forest.digest(self.model)

    @short_traceback
    def save_model(self, fname: PathLike) -> None:
        """Write a model file of XGBoost's format: ``.json``, or ``.ubj`` otherwise.

        The file is written atomically: it is complete, or as it was before.
        """
        hornbeam.forest.save(self.model, fname, self._checksum)

    @short_traceback
    def save_raw(self, raw_format: str = "ubj") -> bytearray:
        """Return the bytes of a model file, ``"ubj"`` or ``"json"``."""
        return bytearray(hornbeam.forest.encode(self.model, raw_format, self._checksum))

    @short_traceback
    def load_model(self, fname: PathLike | bytes | bytearray) -> None:
        """Replace this model by that of a model file, or of its bytes."""
        model = _read(fname)
        self._replace_model(model, parameters_of(model, self.params), None)

    @short_traceback
    def export(self, fname: PathLike, **options: Any) -> None:
        """Write the model in a format for machines without Hornbeam.

        ``.onnx``, ``.c`` and ``.py`` cannot be loaded again; ``.json`` and ``.ubj`` are
        for readers of XGBoost's files only. See `hornbeam.export.save`, which takes the
        options.
        """
        self._learner.require_model()
        hornbeam.export.save(self, fname, **options)

    @short_traceback
    def resume(self, model_file: Booster | PathLike | bytes | bytearray) -> None:
        """Continue from a checkpoint of the training that this booster was made for.

        The parameters stay, as do the formulas of a custom objective, and the model
        that process_type='update' updates.

        Parameters
        ----------
        model_file
            A path, the bytes of a file, or another booster.
        """
        if isinstance(model_file, Booster):
            model = model_file.model.copy()
        else:
            model = _read(model_file)
        parameters, before = self.params, self.model
        if self.objective.many_targets:
            parameters = parameters.updated({"num_target": model.num_target})
        self._learner.replace_model(model, parameters, self._learner.loss)
        self._trainer.resume(before)
        self._trainer.configure()
        self.reset()

    def copy(self) -> Booster:
        """Return an independent booster of the same model and parameters."""
        return Booster(model_file=self)

    def __copy__(self) -> Booster:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Booster:
        return self.copy()

    def __getstate__(self) -> dict[str, Any]:
        return {
            "params": self.params.changed(),
            "model": hornbeam.forest.encode(self.model, "ubj"),
            "loss": self._learner.loss,
        }

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]
        parameters = Parameters.resolve(state["params"])
        model = hornbeam.forest.decode(state["model"])
        self._replace_model(model, parameters, state["loss"])

    def __getitem__(self, rounds: int | slice) -> Booster:
        """Return a booster of some rounds, which shares their trees."""
        n_rounds = self.model.n_rounds
        if isinstance(rounds, slice):
            if rounds.step is not None and operator.index(rounds.step) < 1:
                raise IndexError(f"the step is {rounds.step}; give 1 or more")
            begin, end, step = rounds.indices(n_rounds)
        else:
            number = operator.index(rounds)
            begin = number + n_rounds if number < 0 else number
            end, step = begin + 1, 1
        part = self.copy()
        part._learner.model = self.model.slice(begin, end, step)
        return part

    def __add__(self, other: Booster) -> Booster:
        """Return a booster of the rounds of both; see `merge`."""
        if not isinstance(other, Booster):
            return NotImplemented
        return merge([self, other])

    def __iter__(self) -> Iterator[Booster]:
        for number in range(self.model.n_rounds):
            yield self[number]


@short_traceback
def merge(boosters: Sequence[Booster]) -> Booster:
    """Return a booster of the rounds of all boosters, one after the other.

    Its margins are those of the first, plus what the others add to their base score.
    So all must have the same base score, features, objective and outputs. Parameters
    and attributes are those of the first.

    Examples
    --------
    >>> import hornbeam
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> data = hornbeam.DMatrix(*load_diabetes(return_X_y=True))
    >>> booster = hornbeam.train({"max_depth": 2}, data, 20)
    >>> merged = hornbeam.merge([booster[:5], booster[5:]])
    >>> np.array_equal(merged.predict(data), booster.predict(data))
    True
    """
    return _combined(boosters, merge_models)


@short_traceback
def average(boosters: Sequence[Booster]) -> Booster:
    """Return a booster whose margins are the mean of those of all boosters.

    All must have the same base score, features, objective, outputs and number of
    rounds. Each round has their trees, as with ``num_parallel_tree``. Parameters and
    attributes are those of the first.

    Examples
    --------
    >>> import hornbeam
    >>> from sklearn.datasets import load_diabetes
    >>> data = hornbeam.DMatrix(*load_diabetes(return_X_y=True))
    >>> params = {"max_depth": 2, "subsample": 0.5}
    >>> boosters = [
    ...     hornbeam.train(params | {"seed": seed}, data, 20) for seed in range(3)
    ... ]
    >>> mean = hornbeam.average(boosters)
    >>> mean.num_boosted_rounds(), len(mean.get_dump())
    (20, 60)
    """
    return _combined(boosters, average_models)


def split_average(averaged: Booster, parts: int) -> list[Booster]:
    """Return the boosters whose `average` this is, up to the rounding of float32."""
    boosters = []
    for model in models_of_average(averaged.model, parts):
        booster = averaged.copy()
        booster._learner.model = model
        booster.set_param("num_parallel_tree", model.num_parallel_tree)
        boosters.append(booster)
    return boosters


def _combined(
    boosters: Sequence[Booster], combine: Callable[[Sequence[Model]], Model]
) -> Booster:
    if not boosters or not all(isinstance(part, Booster) for part in boosters):
        raise ParameterError(
            f"{combine.__name__.removesuffix('_models')} takes a list of boosters, one "
            "at least",
            code=ErrorCode.INVALID_PARAMETER_TYPE,
        )
    combined = boosters[0].copy()
    model = combine([part.model for part in boosters])
    combined._learner.model = model
    combined.set_param(
        {"booster": booster_of(model), "num_parallel_tree": model.num_parallel_tree}
    )
    return combined


def _read(source: PathLike | bytes | bytearray) -> Model:
    """Return the model of a model file, or of its bytes."""
    if isinstance(source, bytes | bytearray):
        return hornbeam.forest.decode(source)
    if isinstance(source, str | os.PathLike):
        return hornbeam.forest.load(source)
    raise ParameterError(
        "a model comes from a path, the bytes of a model file, or a Booster, not from "
        f"{source!r}",
        code=ErrorCode.NOT_A_MODEL,
    )
