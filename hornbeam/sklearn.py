"""Estimators for scikit-learn: the learner behind `fit` and `predict`."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from hornbeam.boosting.booster import Booster
from hornbeam.callbacks import EvalsLog, TrainingCallback
from hornbeam.data.beside import Beside
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.info import Info
from hornbeam.errors import DataError, ModelFileError, ParameterError, require
from hornbeam.forest.linear import Linear
from hornbeam.kernels.team import lease
from hornbeam.objectives.base import create
from hornbeam.objectives.compiled import ScalarLoss
from hornbeam.params import Parameters
from hornbeam.training import train

require("sklearn", "sklearn", "an estimator of Hornbeam")

from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import assert_all_finite, check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

__all__ = ["Estimator", "HornbeamClassifier", "HornbeamRanker", "HornbeamRegressor"]

#: Takes labels and predictions, and sample_weight by name where there are weights.
ObjectiveFunction: TypeAlias = Callable[..., tuple[Any, Any]]
MetricFunction: TypeAlias = Callable[..., float]
IterationRange: TypeAlias = tuple[int, int]

# The estimators' own parameters; all others are the learner's.
_OWN = {"n_estimators", "missing", "importance_type", "early_stopping_rounds"}
_OWN |= {"callbacks", "objective", "eval_metric", "random_state"}
_OWN |= {"enable_categorical", "feature_types", "feature_weights"}

_OF_TWO_CLASSES = ("binary:logistic", "binary:focal", "binary:logitraw", "reg:logistic")

# Objectives whose predictions are no probabilities, and those that have them instead.
_PROBABILITIES = {
    "binary:logitraw": "binary:logistic",
    "multi:softmax": "multi:softprob",
}

# The attribute by which XGBoost marks a model file as an estimator's.
_MARK = "scikit_learn"


class Estimator(BaseEstimator):
    """What all estimators share.

    Parameters left at None take the learner's default.
    """

    def __init__(
        self,
        *,
        max_depth: int | None = None,
        max_leaves: int | None = None,
        max_bin: int | None = None,
        sketch_scope: str | None = None,
        pruning: str | None = None,
        grow_policy: str | None = None,
        learning_rate: float | None = None,
        n_estimators: int = 100,
        verbosity: int | None = None,
        objective: str | ObjectiveFunction | ScalarLoss | None = None,
        booster: str | None = None,
        sample_type: str | None = None,
        normalize_type: str | None = None,
        rate_drop: float | None = None,
        one_drop: bool | None = None,
        skip_drop: float | None = None,
        feature_selector: str | None = None,
        top_k: int | None = None,
        tolerance: float | None = None,
        tree_method: str | None = None,
        process_type: str | None = None,
        updater: str | None = None,
        refresh_leaf: bool | None = None,
        max_cached_hist_node: int | None = None,
        n_jobs: int | None = None,
        gamma: float | None = None,
        min_child_weight: float | None = None,
        min_samples_leaf: int | None = None,
        path_smooth: float | None = None,
        max_delta_step: float | None = None,
        subsample: float | None = None,
        sampling_method: str | None = None,
        top_rate: float | None = None,
        other_rate: float | None = None,
        extmem_single_page: bool | None = None,
        colsample_bytree: float | None = None,
        colsample_bylevel: float | None = None,
        colsample_bynode: float | None = None,
        reg_alpha: float | None = None,
        reg_lambda: float | None = None,
        scale_pos_weight: float | None = None,
        focal_gamma: float | None = None,
        huber_slope: float | None = None,
        quantile_alpha: float | Sequence[float] | None = None,
        expectile_alpha: float | Sequence[float] | None = None,
        tweedie_variance_power: float | None = None,
        base_score: float | Sequence[float] | None = None,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
        missing: float = math.nan,
        num_parallel_tree: int | None = None,
        monotone_constraints: str | Sequence[int] | Mapping[str, int] | None = None,
        monotone_constraints_method: str | None = None,
        interaction_constraints: str | Sequence[Sequence[int | str]] | None = None,
        feature_costs: Sequence[float] | Mapping[str, float] | None = None,
        feature_costs_for: str | None = None,
        importance_type: str | None = None,
        device: str | None = None,
        validate_parameters: bool | None = None,
        enable_categorical: bool = True,
        feature_types: Sequence[str] | None = None,
        feature_weights: Any = None,
        max_cat_to_onehot: int | None = None,
        max_cat_threshold: int | None = None,
        unseen: str | None = None,
        multi_strategy: str | None = None,
        sketch_outputs: int | None = None,
        eval_metric: str | Sequence[str] | MetricFunction | None = None,
        early_stopping_rounds: int | None = None,
        callbacks: Sequence[TrainingCallback] | None = None,
    ) -> None:
        self.max_depth = max_depth
        self.max_leaves = max_leaves
        self.max_bin = max_bin
        self.sketch_scope = sketch_scope
        self.pruning = pruning
        self.grow_policy = grow_policy
        self.learning_rate = learning_rate
        self.n_estimators = n_estimators
        self.verbosity = verbosity
        self.objective = objective
        self.booster = booster
        self.sample_type = sample_type
        self.normalize_type = normalize_type
        self.rate_drop = rate_drop
        self.one_drop = one_drop
        self.skip_drop = skip_drop
        self.feature_selector = feature_selector
        self.top_k = top_k
        self.tolerance = tolerance
        self.tree_method = tree_method
        self.process_type = process_type
        self.updater = updater
        self.refresh_leaf = refresh_leaf
        self.max_cached_hist_node = max_cached_hist_node
        self.n_jobs = n_jobs
        self.gamma = gamma
        self.min_child_weight = min_child_weight
        self.min_samples_leaf = min_samples_leaf
        self.path_smooth = path_smooth
        self.max_delta_step = max_delta_step
        self.subsample = subsample
        self.sampling_method = sampling_method
        self.top_rate = top_rate
        self.other_rate = other_rate
        self.extmem_single_page = extmem_single_page
        self.colsample_bytree = colsample_bytree
        self.colsample_bylevel = colsample_bylevel
        self.colsample_bynode = colsample_bynode
        self.reg_alpha = reg_alpha
        self.reg_lambda = reg_lambda
        self.scale_pos_weight = scale_pos_weight
        self.focal_gamma = focal_gamma
        self.huber_slope = huber_slope
        self.quantile_alpha = quantile_alpha
        self.expectile_alpha = expectile_alpha
        self.tweedie_variance_power = tweedie_variance_power
        self.base_score = base_score
        self.random_state = random_state
        self.missing = missing
        self.num_parallel_tree = num_parallel_tree
        self.monotone_constraints = monotone_constraints
        self.monotone_constraints_method = monotone_constraints_method
        self.interaction_constraints = interaction_constraints
        self.feature_costs = feature_costs
        self.feature_costs_for = feature_costs_for
        self.importance_type = importance_type
        self.device = device
        self.validate_parameters = validate_parameters
        self.enable_categorical = enable_categorical
        self.feature_types = feature_types
        self.feature_weights = feature_weights
        self.max_cat_to_onehot = max_cat_to_onehot
        self.max_cat_threshold = max_cat_threshold
        self.unseen = unseen
        self.multi_strategy = multi_strategy
        self.sketch_outputs = sketch_outputs
        self.eval_metric = eval_metric
        self.early_stopping_rounds = early_stopping_rounds
        self.callbacks = callbacks

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    # What the two do differently

    def _learn_targets(self, y: Any) -> None:
        """Take note of what the targets are, before they become labels."""

    def _labels(self, y: Any) -> Any:
        """Return targets as the labels that the learner takes."""
        return np.array(y.tolist()) if y.dtype == object else y

    def _loss(self) -> dict[str, Any]:
        """Return the parameters that name the loss."""
        return {} if _is_own(self.objective) else {"objective": self.objective}

    def _mark(self) -> dict[str, Any]:
        """Return what a model file says of the estimator."""
        return {"_estimator_type": self.__sklearn_tags__().estimator_type}

    def _take_model(self, booster: Booster, mark: dict[str, Any]) -> None:
        """Take from a loaded model what `_learn_targets` takes from targets."""

    # Training

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        base_margin: Any = None,
        eval_set: Sequence[tuple[Any, Any]] | None = None,
        verbose: bool | int | None = True,
        xgb_model: Booster | str | os.PathLike[str] | Estimator | None = None,
        sample_weight_eval_set: Sequence[Any] | None = None,
        base_margin_eval_set: Sequence[Any] | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X
            Features: an array, a frame or a sparse matrix, missing as `missing`.
        y
            Targets.
        sample_weight
            How much each row counts.
        base_margin
            Where boosting starts from, for each row.
        eval_set
            Pairs of features and targets to evaluate on, called ``validation_0`` and
            so on. Early stopping watches the last.
        verbose
            Whether to print the scores of each round, or of every so many rounds.
        xgb_model
            A model to go on from: an estimator, a booster or a file.
        sample_weight_eval_set, base_margin_eval_set
            The weights and margins of `eval_set`, one for each pair.
        """
        return self._fit(
            X,
            y,
            {"weight": sample_weight, "base_margin": base_margin},
            eval_set,
            {
                "weight": ("sample_weight_eval_set", sample_weight_eval_set),
                "base_margin": ("base_margin_eval_set", base_margin_eval_set),
            },
            verbose,
            xgb_model,
        )

    def _fit(
        self,
        X: Any,
        y: Any,
        fields: Mapping[str, Any],
        eval_set: Sequence[tuple[Any, Any]] | None,
        eval_fields: Mapping[str, tuple[str, Sequence[Any] | None]],
        verbose: bool | int | None,
        xgb_model: Booster | str | os.PathLike[str] | Estimator | None,
    ) -> Self:
        """Fit the model to rows, and what goes with them by the names of a matrix.

        `eval_fields` has the same for the pairs of `eval_set`, with the name of the
        argument that each comes from.
        """
        if y is None:
            raise DataError(
                f"{type(self).__name__} requires y to be passed, but the target y is "
                "None"
            )
        X = self._checked(X, reset=True)
        y = self._targets(X, y)
        self._learn_targets(y)
        dtrain = self._matrix(X, y, fields)
        evals = self._evals(eval_set, eval_fields)
        if isinstance(xgb_model, Estimator):
            xgb_model = xgb_model.get_booster()
        self._booster, self._history = self._trained(
            self._learner_parameters(),
            dtrain,
            self.n_estimators,
            evals=evals,
            obj=self._own_objective(),
            custom_metric=self._own_metric(),
            early_stopping_rounds=self.early_stopping_rounds,
            verbose_eval=verbose,
            xgb_model=xgb_model,
            callbacks=self.callbacks,
        )
        return self

    def _trained(self, *args: Any, **options: Any) -> tuple[Booster, EvalsLog]:
        """Return the model, and the scores of its rounds."""
        history: EvalsLog = {}
        return train(*args, evals_result=history, **options), history

    def _own_objective(self) -> Callable[..., Any] | ScalarLoss | None:
        return _objective_of(self.objective)

    def _own_metric(self) -> Callable[..., tuple[str, float]] | None:
        return _metric_of(self.eval_metric)

    def _checked(self, X: Any, *, reset: bool) -> Any:
        """Return features that fit the columns of training, or set those columns.

        Frames are left as they are, with the precision of each column.
        """
        return validate_data(
            self,
            X,
            reset=reset,
            skip_check_array=hasattr(X, "columns"),
            accept_sparse="csr",
            ensure_all_finite=False,  # the matrix looks, and knows what is missing
            ensure_min_samples=1 if reset else 0,
        )

    def _targets(self, X: Any, y: Any) -> Any:
        """Return one target for each row."""
        y = _column(y)
        check_consistent_length(X, y)
        return y

    def _matrix(self, X: Any, y: Any, fields: Mapping[str, Any]) -> Any:
        return DMatrix(
            X,
            self._labels(y),
            missing=self.missing,
            nthread=self.n_jobs,
            feature_types=self.feature_types,
            feature_weights=self.feature_weights,
            enable_categorical=self.enable_categorical,
            **fields,
        )

    def _evals(
        self,
        eval_set: Sequence[tuple[Any, Any]] | None,
        fields: Mapping[str, tuple[str, Sequence[Any] | None]],
    ) -> list[tuple[Any, str]]:
        pairs = list(eval_set or ())
        if not all(_is_pair(pair) for pair in pairs):
            raise DataError("eval_set must be a list of pairs (X, y)")
        beside = {
            field: _one_a_pair(values, len(pairs), name)
            for field, (name, values) in fields.items()
        }
        evals: list[tuple[Any, str]] = []
        for number, (X, y) in enumerate(pairs):
            X = self._checked(X, reset=False)
            of_pair = {field: values[number] for field, values in beside.items()}
            matrix = self._matrix(X, self._targets(X, y), of_pair)
            evals.append((matrix, f"validation_{number}"))
        return evals

    def _learner_parameters(self) -> dict[str, Any]:
        params = {
            name: value
            for name, value in self.get_params(deep=False).items()
            if name not in _OWN
        }
        params["seed"] = _seed(self.random_state)
        if not callable(self.eval_metric):
            params["eval_metric"] = self.eval_metric
        return params | self._loss()

    # Prediction

    def get_booster(self) -> Booster:
        """Return the trained model."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"this {type(self).__name__} is not fitted yet; call fit first"
            )
        return self._booster

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_booster")

    def _predicted(
        self,
        X: Any,
        predict_type: str,
        validate_features: bool,
        base_margin: Any,
        iteration_range: IterationRange | None,
    ) -> npt.NDArray[np.float32]:
        booster = self.get_booster()
        return booster.inplace_predict(
            self._checked(X, reset=False) if validate_features else X,
            iteration_range=self._rounds(iteration_range),
            predict_type=predict_type,
            missing=self.missing,
            validate_features=False,
            base_margin=base_margin,
        )

    def _rounds(self, iteration_range: IterationRange | None) -> IterationRange:
        """Return the rounds to predict with: up to the best, if training found one."""
        if iteration_range is not None:
            return iteration_range
        booster = self.get_booster()
        best = booster.attr("best_iteration")
        # A linear model has no part of its rounds.
        if best is None or booster.model.linear is not None:
            return 0, 0
        return 0, int(best) + 1

    def apply(
        self, X: Any, iteration_range: IterationRange | None = None
    ) -> npt.NDArray[np.float32]:
        """Return the leaf of each row in each tree."""
        return self.get_booster().predict(
            self._rows(X),
            pred_leaf=True,
            validate_features=False,
            iteration_range=self._rounds(iteration_range),
        )

    def _rows(self, X: Any) -> DMatrix:
        """Return features as a matrix, to predict from."""
        return DMatrix(
            self._checked(X, reset=False),
            missing=self.missing,
            nthread=self.n_jobs,
            feature_types=self.feature_types,
            enable_categorical=self.enable_categorical,
        )

    # What training found

    def evals_result(self) -> EvalsLog:
        """Return the scores on `eval_set`, by data set and metric, one a round."""
        self.get_booster()
        if not self._history:
            raise DataError("nothing was evaluated; pass eval_set to fit")
        return self._history

    @property
    def best_iteration(self) -> int:
        """The round with the best score, if training stopped early."""
        return int(self._best("best_iteration"))

    @property
    def best_score(self) -> float:
        """The best score, if training stopped early."""
        return float(self._best("best_score"))

    def _best(self, attribute: str) -> str:
        value = self.get_booster().attr(attribute)
        if value is None:
            raise AttributeError(
                f"{attribute} is there after early stopping only; set "
                "early_stopping_rounds and pass eval_set to fit"
            )
        return value

    @property
    def feature_importances_(self) -> npt.NDArray[np.float64]:
        """Importance of each feature, `importance_type`, with sum 1."""
        booster = self.get_booster()
        usual = "gain" if booster.model.linear is None else "weight"
        scores = booster.get_score(importance_type=self.importance_type or usual)
        names = booster.feature_names or [f"f{i}" for i in range(self.n_features_in_)]
        importances = np.array([scores.get(name, 0.0) for name in names], np.float64)
        total = importances.sum()
        return importances / total if total > 0 else importances

    @property
    def coef_(self) -> npt.NDArray[np.float32]:
        """The weights of a linear model, (features,) or (outputs, features)."""
        weights = self._linear("coef_").weights[:-1].T
        return weights[0] if len(weights) == 1 else weights

    @property
    def intercept_(self) -> npt.NDArray[np.float32]:
        """What a linear model predicts where all features are 0, as margins."""
        weights = self._linear("intercept_").weights
        booster = self.get_booster()
        base = booster.objective.to_margin(booster.model.base_score)
        return (weights[-1] + base).astype(np.float32)

    def _linear(self, attribute: str) -> Linear:
        linear = self.get_booster().model.linear
        if linear is None:
            raise AttributeError(
                f"{attribute} is there with booster='gblinear' only; trees have "
                "feature_importances_"
            )
        return linear

    def get_num_boosting_rounds(self) -> int:
        """Return how many rounds `fit` asks for."""
        return self.n_estimators

    # Files

    def save_model(self, fname: str | os.PathLike[str]) -> None:
        """Save the model, marked as an estimator's, as ``.json`` or ``.ubj``."""
        marked = self.get_booster().copy()
        marked.set_attr(**{_MARK: json.dumps(self._mark())})
        marked.save_model(fname)

    def load_model(self, fname: str | os.PathLike[str] | bytes | bytearray) -> None:
        """Load a model of this kind of estimator, Hornbeam's or XGBoost's."""
        booster = Booster({"nthread": self.n_jobs}, model_file=fname)
        mark = _read_mark(booster.attr(_MARK))
        own = self.__sklearn_tags__().estimator_type
        kind = mark.get("_estimator_type", own)
        if kind != own:
            raise ModelFileError(
                f"the file holds a {kind}, not a {own}; load it with the estimator "
                "that saved it, or with hornbeam.Booster"
            )
        booster.set_attr(**{_MARK: None})
        if isinstance(self.objective, ScalarLoss):
            booster.set_objective(self.objective)
        self._take_model(booster, mark)
        self._booster = booster
        self._history = {}
        self.n_features_in_ = booster.num_features()
        if booster.feature_names is not None:
            self.feature_names_in_ = np.array(booster.feature_names, dtype=object)


class _OneNumber(Estimator):
    """An estimator that predicts a number for each row."""

    def predict(
        self,
        X: Any,
        *,
        output_margin: bool = False,
        validate_features: bool = True,
        base_margin: Any = None,
        iteration_range: IterationRange | None = None,
    ) -> npt.NDArray[np.float32]:
        """Return a prediction for each row.

        Parameters
        ----------
        X
            Features, with the columns of training.
        output_margin
            Whether to leave out the transformation of the objective.
        validate_features
            Whether to compare the columns with those of training.
        base_margin
            Where to start from, instead of the model's base score.
        iteration_range
            The rounds to use, from the first up to but not including the second.
        """
        kind = "margin" if output_margin else "value"
        return self._predicted(X, kind, validate_features, base_margin, iteration_range)


class HornbeamRegressor(RegressorMixin, _OneNumber):
    """Gradient boosted trees for regression.

    The parameters are XGBoost's; one left at None has the learner's default, see
    `hornbeam.params.parameter_table`.

    Parameters
    ----------
    n_estimators
        Rounds of boosting.
    objective
        The loss: a name, formulas (a `ScalarLoss`), or a function of labels and
        predictions that returns the gradient and the hessian.
    missing
        The number that stands for missing, besides NaN.
    eval_metric
        Metrics for `eval_set`, or a function of labels and predictions, where less is
        better.
    early_stopping_rounds
        Stop when the last metric on the last pair of `eval_set` has not improved for
        so many rounds; prediction then uses the rounds up to the best.
    importance_type
        What `feature_importances_` shows: gain (the default), weight, cover,
        total_gain or total_cover.
    """

    def predict_interval(
        self,
        X: Any,
        level: float = 0.9,
        *,
        iteration_range: IterationRange | None = None,
    ) -> npt.NDArray[Any]:
        """Return intervals that hold the targets with this probability, (rows, 2).

        Parameters
        ----------
        X
            Features, with the columns of training.
        level
            The probability, above 0 and below 1.
        iteration_range
            The rounds to use, from the first up to but not including the second.

        Raises
        ------
        ParameterError
            If `level` is no such probability, or `objective` is not one of
            ``dist:normal``, ``dist:lognormal`` and ``dist:negbinomial``.
        """
        return self.get_booster().predict_interval(
            self._rows(X),
            level,
            validate_features=False,
            iteration_range=self._rounds(iteration_range),
        )


class HornbeamRanker(_OneNumber):
    """Gradient boosted trees that put the rows of each group in order.

    The parameters are those of `HornbeamRegressor`, and:

    Parameters
    ----------
    objective
        ``"rank:ndcg"``, ``"rank:map"``, ``"rank:pairwise"`` or ``"rank:xendcg"``; or a
        function of labels and predictions that returns the gradient and the hessian,
        and takes the sizes of the groups as ``group=``.
    eval_metric
        Metrics for `eval_set`, or a function of the labels and predictions of a group,
        whose mean over the groups is reported.
    lambdarank_pair_method, lambdarank_num_pair_per_sample, lambdarank_normalization, \
lambdarank_score_normalization, lambdarank_unbiased, lambdarank_bias_norm, ndcg_exp_gain
        Which pairs of rows are compared and how they count.
    """

    def __init__(
        self,
        *,
        objective: str | ObjectiveFunction = "rank:ndcg",
        lambdarank_pair_method: str | None = None,
        lambdarank_num_pair_per_sample: int | None = None,
        lambdarank_normalization: bool | None = None,
        lambdarank_score_normalization: bool | None = None,
        lambdarank_unbiased: bool | None = None,
        lambdarank_bias_norm: float | None = None,
        ndcg_exp_gain: bool | None = None,
        **others: Any,
    ) -> None:
        super().__init__(objective=objective, **others)
        self.lambdarank_pair_method = lambdarank_pair_method
        self.lambdarank_num_pair_per_sample = lambdarank_num_pair_per_sample
        self.lambdarank_normalization = lambdarank_normalization
        self.lambdarank_score_normalization = lambdarank_score_normalization
        self.lambdarank_unbiased = lambdarank_unbiased
        self.lambdarank_bias_norm = lambdarank_bias_norm
        self.ndcg_exp_gain = ndcg_exp_gain

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted({*super()._get_param_names(), *Estimator._get_param_names()})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "ranker"
        return tags

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        group: Any = None,
        qid: Any = None,
        sample_weight: Any = None,
        base_margin: Any = None,
        eval_set: Sequence[tuple[Any, Any]] | None = None,
        eval_group: Sequence[Any] | None = None,
        eval_qid: Sequence[Any] | None = None,
        verbose: bool | int | None = False,
        xgb_model: Booster | str | os.PathLike[str] | Estimator | None = None,
        sample_weight_eval_set: Sequence[Any] | None = None,
        base_margin_eval_set: Sequence[Any] | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X
            Features. A frame may have the groups as its column ``qid``, which is no
            feature, neither here nor at prediction.
        qid
            The group of each row: whole numbers that never fall.
        group
            The sizes of the groups instead.
        sample_weight
            How much each group counts.
        eval_qid, eval_group
            The same for `eval_set`, one for each pair.
        y, base_margin, eval_set, verbose, xgb_model, sample_weight_eval_set, \
base_margin_eval_set
            As for `HornbeamRegressor`.
        """
        return self._fit_groups(
            X,
            y,
            {"weight": sample_weight, "base_margin": base_margin},
            (group, qid),
            eval_set,
            {
                "weight": ("sample_weight_eval_set", sample_weight_eval_set),
                "base_margin": ("base_margin_eval_set", base_margin_eval_set),
            },
            (eval_group, eval_qid),
            verbose,
            xgb_model,
        )

    def _fit_groups(
        self,
        X: Any,
        y: Any,
        fields: Mapping[str, Any],
        groups: tuple[Any, Any],
        eval_set: Sequence[tuple[Any, Any]] | None,
        eval_fields: Mapping[str, tuple[str, Sequence[Any] | None]],
        eval_groups: tuple[Sequence[Any] | None, Sequence[Any] | None],
        verbose: bool | int | None,
        xgb_model: Booster | str | os.PathLike[str] | Estimator | None,
    ) -> Self:
        """Fit the model to rows whose groups are given as (group, qid)."""
        group, qid = groups
        if group is None and qid is None:
            X, qid = _split_off_qid(X)
            if qid is None:
                raise DataError(
                    "ranking needs the group of each row; pass qid, one for each row "
                    "of X, or group"
                )
        eval_group, eval_qid = eval_groups
        if eval_set and eval_group is None and eval_qid is None:
            parted = [(*_split_off_qid(X), y) for X, y in eval_set]
            if any(own is None for _, own, _ in parted):
                raise DataError(
                    "eval_set needs the group of each row, too; pass eval_qid, one for "
                    "each pair"
                )
            eval_set = [(X, y) for X, _, y in parted]
            eval_qid = [own for _, own, _ in parted]
        return self._fit(
            X,
            y,
            {**fields, "qid": qid, "group": group},
            eval_set,
            {
                **eval_fields,
                "qid": ("eval_qid", eval_qid),
                "group": ("eval_group", eval_group),
            },
            verbose,
            xgb_model,
        )

    def _checked(self, X: Any, *, reset: bool) -> Any:
        return super()._checked(_split_off_qid(X)[0], reset=reset)

    def _own_objective(self) -> Callable[..., Any] | ScalarLoss | None:
        objective = self.objective
        if not callable(objective) or isinstance(objective, ScalarLoss):
            return super()._own_objective()

        def gradients(predictions: npt.NDArray[Any], rows: Beside) -> Any:
            labels, group = rows.get_label(), rows.get_group()
            return objective(labels, predictions, group=group, **_weights_of(rows))

        return gradients

    def _own_metric(self) -> Callable[..., tuple[str, float]] | None:
        metric = self.eval_metric
        if not callable(metric):
            return None

        def score(predictions: npt.NDArray[Any], rows: Beside) -> tuple[str, float]:
            ends = np.cumsum(rows.get_group())[:-1]
            parts = np.split(rows.get_label(), ends), np.split(predictions, ends)
            values = [metric(*part) for part in zip(*parts, strict=True)]
            return metric.__name__, float(np.mean(values))

        return score

    def score(self, X: Any, y: Any, *, group: Any = None, qid: Any = None) -> float:
        """Return the last metric of training, such as ndcg, of these groups.

        The arguments are those of `fit`.
        """
        if group is None and qid is None:
            X, qid = _split_off_qid(X)
            if qid is None:
                raise DataError(
                    "the score of a ranking needs the group of each row; pass qid"
                )
        predictions = self._gathered(self.predict(X))
        info = Info(len(predictions), self.n_features_in_)
        given = {"label": y, "qid": qid, "group": group}
        info.set({name: self._gathered(values) for name, values in given.items()})
        return self.get_booster().metrics[-1].of(predictions.astype(float), info)

    def _gathered(self, values: Any) -> Any:
        """Return values where they can be measured."""
        return values


class HornbeamClassifier(ClassifierMixin, Estimator):
    """Gradient boosted trees for classification, with labels of any kind.

    Two classes are learned by binary:logistic and more by multi:softprob, unless
    `objective` says otherwise. The parameters are those of `HornbeamRegressor`.

    Attributes
    ----------
    classes_
        The labels, sorted; the columns of `predict_proba` are in this order.
    """

    def _learn_targets(self, y: Any) -> None:
        check_classification_targets(y)
        self.classes_ = np.unique(y)

    @property
    def n_classes_(self) -> int:
        """How many classes there are."""
        return len(self.classes_)

    def _labels(self, y: Any) -> npt.NDArray[np.float64]:
        codes = np.minimum(np.searchsorted(self.classes_, y), self.n_classes_ - 1)
        unknown = np.flatnonzero(self.classes_[codes] != y)
        if unknown.size:
            raise DataError(
                f"eval_set holds the label {y[unknown].tolist()[0]!r} in row "
                f"{unknown[0]}, which is not among the labels to train on"
            )
        return codes.astype(np.float64)

    def _loss(self) -> dict[str, Any]:
        name = self.objective
        if not isinstance(name, str):
            name = "binary:logistic" if self.n_classes_ <= 2 else "multi:softprob"
        if name.startswith("multi:"):
            return {"objective": name, "num_class": max(2, self.n_classes_)}
        if name not in _OF_TWO_CLASSES:
            raise ParameterError(
                f"objective {name!r} does not tell classes apart; use binary:logistic "
                "or multi:softprob, or leave it out"
            )
        if self.n_classes_ > 2:
            raise ParameterError(
                f"objective {name!r} tells two classes apart, and y has "
                f"{self.n_classes_}; use multi:softprob, or leave it out"
            )
        return {"objective": name}

    def predict(
        self,
        X: Any,
        *,
        output_margin: bool = False,
        validate_features: bool = True,
        base_margin: Any = None,
        iteration_range: IterationRange | None = None,
    ) -> npt.NDArray[Any]:
        """Return the most probable class of each row.

        Parameters
        ----------
        X
            Features, with the columns of training.
        output_margin
            Whether to return the margins instead: one a row, or one a row and class.
        validate_features
            Whether to compare the columns with those of training.
        base_margin
            Where to start from, instead of the model's base score.
        iteration_range
            The rounds to use, from the first up to but not including the second.
        """
        margins = self._predicted(
            X, "margin", validate_features, base_margin, iteration_range
        )
        if output_margin:
            return margins
        codes = margins.argmax(axis=1) if margins.ndim == 2 else margins > 0
        return self.classes_[np.minimum(codes, self.n_classes_ - 1)]

    def predict_proba(
        self,
        X: Any,
        validate_features: bool = True,
        base_margin: Any = None,
        iteration_range: IterationRange | None = None,
    ) -> npt.NDArray[np.float32]:
        """Return the probability of each class for each row.

        The arguments are those of `predict`.
        """
        model = self.get_booster().model
        objective = _PROBABILITIES.get(model.objective)
        values = self._predicted(
            X,
            "value" if objective is None else "margin",
            validate_features,
            base_margin,
            iteration_range,
        )
        if objective is not None:
            params = {"objective": objective, "num_class": model.num_class}
            link = create(Parameters.resolve(params))
            with lease(self.n_jobs or 0) as team:
                values = link.transform(team, values.reshape(len(values), -1))
        if model.num_class == 0:
            values = np.column_stack([1 - values, values])
        return values if self.n_classes_ > 1 else np.ones((len(values), 1), np.float32)

    def _mark(self) -> dict[str, Any]:
        return super()._mark() | {"classes": self.classes_.tolist()}

    def _take_model(self, booster: Booster, mark: dict[str, Any]) -> None:
        n_classes = max(2, booster.model.num_class)
        classes = np.array(mark.get("classes", range(n_classes)))
        if classes.ndim != 1 or len(classes) > n_classes:
            raise ModelFileError(
                f"the file names {len(classes)} classes and predicts {n_classes}; "
                "save it again"
            )
        self.classes_ = classes


# --- What is given to fit -------------------------------------------------------------


def _column(y: Any) -> npt.NDArray[Any]:
    column: npt.NDArray[Any] = column_or_1d(y, warn=True)
    assert_all_finite(column, input_name="y")
    return column


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2


def _one_a_pair(values: Sequence[Any] | None, pairs: int, name: str) -> list[Any]:
    if values is None:
        return [None] * pairs
    if len(values) != pairs:
        raise DataError(
            f"{name} has {len(values)} entries and eval_set {pairs}; give one for each"
        )
    return list(values)


def _split_off_qid(X: Any) -> tuple[Any, Any]:
    """Return a frame without its column ``qid``, and that column, if it has one."""
    names = [name for name in getattr(X, "columns", ()) if isinstance(name, str)]
    if "qid" not in names:
        return X, None
    return X[[name for name in names if name != "qid"]], X["qid"]


def _seed(random_state: Any) -> Any:
    """Return a seed of the learner; a generator gives one by drawing it."""
    if isinstance(random_state, np.random.RandomState):
        return random_state.randint(2**31)
    if isinstance(random_state, np.random.Generator):
        return random_state.integers(2**31)
    return random_state


def _is_own(objective: Any) -> bool:
    """Whether an objective is the caller's own, and not a name."""
    return callable(objective) or isinstance(objective, ScalarLoss)


def _objective_of(objective: Any) -> Callable[..., Any] | ScalarLoss | None:
    """Return formulas, or a function of labels and predictions, for the learner."""
    if isinstance(objective, ScalarLoss):
        return objective
    if not callable(objective):
        return None

    def gradients(predictions: npt.NDArray[Any], matrix: DMatrix) -> Any:
        return objective(matrix.get_label(), predictions, **_weights_of(matrix))

    return gradients


def _metric_of(metric: Any) -> Callable[..., tuple[str, float]] | None:
    """Return a function of labels and predictions as a metric of the learner."""
    if not callable(metric):
        return None

    def score(predictions: npt.NDArray[Any], matrix: DMatrix) -> tuple[str, float]:
        value = metric(matrix.get_label(), predictions, **_weights_of(matrix))
        return metric.__name__, float(value)

    return score


def _weights_of(matrix: Beside) -> dict[str, npt.NDArray[Any]]:
    return {} if matrix.weights is None else {"sample_weight": matrix.get_weight()}


def _read_mark(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        mark = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        mark = None
    if not isinstance(mark, dict):
        raise ModelFileError(
            f"the attribute {_MARK!r} of the file is not a JSON object; save the model "
            "again"
        )
    return mark
