"""The booster with XGBoost's interface: its types, warnings and lazy configuration."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from hornbeam.boosting.booster import Booster as _Booster
from hornbeam.boosting.evaluation import Evaluator
from hornbeam.boosting.learner import parameters_of
from hornbeam.boosting.margin_cache import MarginCache
from hornbeam.boosting.parameter_checks import check_rounds
from hornbeam.boosting.trainer import Trainer
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.schema import check_names, check_types
from hornbeam.distributed.group import training_group
from hornbeam.distributed.group_training import (
    GroupEvaluator,
    GroupMarginCache,
    GroupTrainer,
)
from hornbeam.errors import DataError, ErrorCode, ModelFileError, ParameterError
from hornbeam.files import naming, replace_file
from hornbeam.forest.feature_map import FeatureMap
from hornbeam.forest.model_file import decode_as_xgboost
from hornbeam.forest.validation import UnsupportedModelError
from hornbeam.metrics.ranking import RankingMetric
from hornbeam.objectives.registry import create as create_objective
from hornbeam.params import Parameters, ParameterSource
from hornbeam.xgboost.booster_config import config_tree, iter_params, params_from_config
from hornbeam.xgboost.categories import Categories
from hornbeam.xgboost.compat import is_dataframe
from hornbeam.xgboost.deprecation import deprecate_positional_args
from hornbeam.xgboost.dmatrix import DMatrix as _XGBoostDMatrix
from hornbeam.xgboost.dmatrix import without_times
from hornbeam.xgboost.error_messages import with_xgboost_messages
from hornbeam.xgboost.learner import XGBoostLearner, XGBoostPredictor
from hornbeam.xgboost.objective import (
    float32_metric,
    gradient_function,
    reshape_gradients,
)
from hornbeam.xgboost.parameters import (
    SELECTING_PARAMS,
    as_pairs,
    hornbeam_params,
    unused_params,
)

__all__ = ["Booster"]


_FORMATS = (".json", ".ubj")
#: The second byte of a JSON file; in UBJSON it is a type marker.
_JSON_SECOND_BYTES = (b'"', b" ", b"\t", b"\r", b"\n")


class Booster(_Booster):
    """Gradient boosted trees, or a linear model, with XGBoost's interface.

    Parameters are configured together when they are first needed, so that the order of
    `set_param` does not matter; unused parameters are then reported in a warning.
    Predictions are float32.

    Parameters
    ----------
    params
        Parameters, as a mapping or as pairs of name and value.
    cache
        Matrices that training will use.
    model_file
        The initial model: a path, the bytes of a file, or another booster.
    """

    __module__ = "hornbeam.xgboost.core"  # by which packages recognise it
    # Code written for XGBoost edits names and training parameters in files.
    _checksum: ClassVar[str] = "prediction_digest"

    def __init__(
        self,
        params: ParameterSource | None = None,
        cache: Sequence[DMatrix] | None = None,
        model_file: _Booster | bytearray | os.PathLike[str] | str | None = None,
    ) -> None:
        for data in cache or ():
            if not isinstance(data, DMatrix):
                raise TypeError(f"Invalid cache item: {type(data).__name__}")
        #: The parameters that were set, by XGBoost's names.
        self._given: dict[str, Any] = {}
        #: The parameters of a loaded model without rounds.
        self._loaded_params = Parameters()
        #: The number of label columns, which sets the number of targets.
        self._n_labels = max((data.n_targets for data in cache or ()), default=0)
        #: Whether `_given` is configured, and the warnings about it.
        self._is_configured = True
        self._warnings: list[str] = []
        #: Whether rounds were added since the model was loaded.
        self._has_new_rounds = False
        super().__init__(None, cache)
        if isinstance(model_file, Booster):
            model_file._ensure_configured()
            model_file._keep_default_metric()
            self._given, self._loaded_params = (
                dict(model_file._given),
                model_file._loaded_params,
            )
            vars(self).update(model_file._user_attributes())
        if isinstance(model_file, _Booster):
            self._replace_model(
                model_file.model.copy(), model_file.params, model_file._learner.loss
            )
        elif model_file is not None:
            self.load_model(model_file)
        self.set_param(params or {})
        self.set_param("validate_parameters", True)

    # Parameters

    def set_param(
        self,
        params: Mapping[str, Any] | Iterable[tuple[str, Any]] | str,
        value: Any = None,
    ) -> None:
        """Set parameters: a mapping, pairs, or a name and its value.

        Values of `eval_metric` are added to the metrics already set.
        """
        if isinstance(params, str) and value is None:
            raise ParameterError(
                f"set_param got no value of the parameter {params!r}; pass the name "
                "and the value",
                code=ErrorCode.INVALID_PARAMETER,
            )
        for name, item in as_pairs(params, value):
            if name in ("eval_metric", "objective"):
                self._keep_default_metric()
            if name == "eval_metric":
                more = [item] if isinstance(item, str) else list(item)
                before = self._given.get(name, [])
                item = [*before, *(metric for metric in more if metric not in before)]
            self._given[name] = item
            self._is_configured = False

    def _compose(self, parameters: Parameters) -> None:
        self._learner: XGBoostLearner = XGBoostLearner(parameters)
        self._connect()

    def _connect(self) -> None:
        """Train and evaluate with the group that this process is in, if any."""
        learner, self._group = self._learner, training_group()
        predictor = self._predictor = XGBoostPredictor(learner)
        if self._group is None:
            cache = MarginCache(learner, predictor)
            self._trainer = Trainer(learner, predictor, cache)
            self._evaluator = Evaluator(learner, predictor, cache)
            return
        cache = GroupMarginCache(learner, predictor, self._group)
        self._trainer = GroupTrainer(learner, predictor, cache, self._group)
        self._evaluator = GroupEvaluator(learner, predictor, cache, self._group)

    def _follow_group(self) -> None:
        """Start over with the matrices if this process has joined a group, or left."""
        if self._group is not training_group():
            self._connect()
            self._trainer.configure()

    def _keep_default_metric(self) -> None:
        """Set `eval_metric` of a trained model to the default metric, if it is not set.

        Then further metrics are added to it, and a new objective does not change it.
        """
        if self._has_new_rounds and not self._given.get("eval_metric"):
            self._given["eval_metric"] = [metric.name for metric in self.metrics]

    @with_xgboost_messages
    def _ensure_configured(self) -> None:
        """Configure the booster if parameters were set since it was last configured."""
        if self._is_configured:
            return
        # First the parameters that select components, then those of the components.
        rounds = self.model.n_rounds
        before = self._loaded_params
        if rounds:
            # The strategy may change, and files do not contain it.
            default = {"multi_strategy": Parameters().multi_strategy}
            before = parameters_of(self.model, Parameters()).updated(default)
        self._configure(
            self._with_num_target(before.updated(self._hornbeam_params())),
            self._learner.loss,
        )
        names = dict(iter_params(self._config_tree()))
        parameters = self._with_num_target(before.updated(self._hornbeam_params(names)))
        self._configure(parameters, self._learner.loss)
        if rounds and "base_score" in self._given:
            self._set_base_score(self._given["base_score"])
        self._is_configured = True
        found = self._doubts(names) if self.params.verbosity > 0 else []
        for message in found:
            if message not in self._warnings:
                _warn(message)
        self._warnings = found

    def _doubts(self, names: Collection[str]) -> list[str]:
        """Return the warnings about the parameters that were set.

        Parameters
        ----------
        names
            The names of the parameters that the model uses.
        """
        found = []
        if "updater" in self._given and self.params.booster != "gblinear":
            found.append(
                "WARNING: You have manually specified the `updater` parameter. The "
                "`tree_method` parameter will be ignored. Incorrect sequence of "
                "updaters will produce undefined behavior. For common uses, we "
                "recommend using `tree_method` parameter instead."
            )
        lost = unused_params(self._given, names)
        if lost and self._validates():
            listed = ", ".join(f'"{name}"' for name in lost)
            found.append(f"WARNING: \nParameters: {{ {listed} }} are not used.\n")
        return found

    def resolved(self, n_labels: int) -> dict[str, Any]:
        """Return the parameters that were set and are used, by Hornbeam's names.

        Parameters
        ----------
        n_labels
            The number of label columns of the training data.
        """
        self._n_labels, self._is_configured = n_labels, False
        self._ensure_configured()
        values = self._hornbeam_params(dict(iter_params(self._config_tree())))
        return values | {"num_target": self.params.num_target}

    def _hornbeam_params(self, names: Collection[str] | None = None) -> dict[str, Any]:
        """Return the parameters that were set, by Hornbeam's names.

        `num_parallel_tree` of a model with rounds cannot change.
        """
        values = hornbeam_params(self._given, names)
        if self.model.n_rounds:
            values.pop("num_parallel_tree", None)
        return values

    def _set_base_score(self, score: Any) -> None:
        """Set the base score of a model that has rounds."""
        given = Parameters.resolve({"base_score": score}).base_score
        scores = np.full(self.model.n_outputs, given, np.float64)
        if np.array_equal(scores, self.model.base_score):
            return
        self.model.base_score, self.model.boost_from_average = scores, False
        self.reset()

    def _with_num_target(self, parameters: Parameters) -> Parameters:
        """Return parameters with `num_target` set to the number of label columns.

        They are unchanged if the model has rounds, `num_target` is set, or the
        objective supports one target only.
        """
        if self.model.n_rounds or self._n_labels < 2 or parameters.num_target > 1:
            return parameters
        if not create_objective(parameters).many_targets:
            return parameters
        return parameters.updated({"num_target": self._n_labels})

    def _validates(self) -> bool:
        text = str(self._given.get("validate_parameters", False)).lower()
        return text in ("true", "1")

    def _config_tree(self) -> dict[str, Any]:
        return config_tree(self, self._given)

    def save_config(self) -> str:
        """Return the configuration as JSON: all parameters, with XGBoost's names."""
        self._ensure_configured()
        return json.dumps(self._config_tree(), sort_keys=True, separators=(",", ":"))

    def load_config(self, config: str) -> None:
        """Set the parameters of a configuration from `save_config`."""
        self._given.update(params_from_config(config))
        self._is_configured = False

    def get_categories(self, export_to_arrow: bool = False) -> Categories:
        """Return the categories of the training data.

        Parameters
        ----------
        export_to_arrow
            Whether `to_arrow` of the result may be called.
        """
        own = super().get_categories()
        names, width = self.feature_names, self.model.num_feature
        return Categories.exported(own, names, width, export_to_arrow)

    # Training

    @with_xgboost_messages
    def update(
        self, dtrain: DMatrix, iteration: int, fobj: Any = None, rounds: int = 1
    ) -> None:
        """Add rounds of trees.

        Parameters
        ----------
        dtrain
            Data with labels.
        iteration
            The number of the first round, passed to an `Objective`.
        fobj
            A custom objective: a function of (predictions, data), an `Objective`, or
            formulas.
        rounds
            The number of rounds.
        """
        if callable(fobj) and rounds != 1:
            check_rounds(rounds, "rounds")
            for number in range(iteration, iteration + rounds):
                self.update(dtrain, number, fobj)
            return
        if not isinstance(dtrain, DMatrix):
            raise TypeError(f"Invalid training matrix: {type(dtrain).__name__}")
        self._follow_group()
        self._ensure_configured_for(dtrain)
        if dtrain.n_rows == 0 and self._group is None:
            for number in range(iteration, iteration + rounds):
                self._update_without_rows(dtrain, number)
            return
        if callable(fobj):
            vectors = self.params.multi_output_columns(self.model.n_outputs) > 0
            fobj = gradient_function(fobj, iteration, vectors)
        super().update(dtrain, iteration, fobj, rounds)
        self._has_new_rounds = True

    def _update_without_rows(self, dtrain: DMatrix, iteration: int) -> None:
        """Add a round of data without rows, which has trees of one leaf of 0."""
        is_first = self.model.n_rounds == 0
        zeros = np.zeros((1, self.model.n_outputs))
        missing_row = cast(_XGBoostDMatrix, dtrain).missing_row()
        super().boost(missing_row, iteration, grad=zeros, hess=zeros)
        if is_first and self._learner.objective.link.name == "identity":
            self._set_base_score(self._given.get("base_score", 0.0))
        self._has_new_rounds = True

    def _ensure_configured_for(self, dtrain: DMatrix) -> None:
        """Configure the booster for the labels and features of the training data."""
        if dtrain.n_features == 0:
            raise DataError(
                "0 feature is supplied.  Are you using raw Booster interface?\n"
                "the training data has no columns; pass at least one",
                code=ErrorCode.EMPTY_DATA,
            )
        n_labels = dtrain.n_targets
        if n_labels != self._n_labels:
            self._n_labels, self._is_configured = n_labels, False
        if not self._is_configured:
            self._ensure_configured()
        model, names = self._learner.model, dtrain.feature_names
        has_rounds = model.n_rounds > 0
        if has_rounds and not model.feature_names:
            types = dtrain.feature_types or []
            if names or types != model.feature_types:
                model.feature_names, model.feature_types = names or [], types
        self._learner.validate_features(names)
        expected = model.num_feature if has_rounds else dtrain.n_features
        if dtrain.n_features != expected:
            raise DataError(
                f"the training data has {dtrain.n_features} columns and the model "
                f"{expected} features; continue with the columns it was trained on",
                code=ErrorCode.FEATURE_SHAPE_MISMATCH,
                expected=expected,
                got=dtrain.n_features,
            )

    @with_xgboost_messages
    def boost(
        self,
        dtrain: DMatrix,
        iteration: int,
        *,
        grad: Any = None,
        hess: Any = None,
        fobj: Any = None,
    ) -> None:
        """Add one round of trees from given gradients and hessians.

        Parameters
        ----------
        dtrain
            Data; its labels are not used.
        iteration
            The number of the round, passed to an `Objective`.
        grad, hess
            (rows,) or (rows, outputs).
        fobj
            A function or an `Objective` that computes both, instead.
        """
        if fobj is not None:
            if grad is not None or hess is not None:
                raise ParameterError(
                    "Provide either the objective, or the gradient and hessian, not "
                    "both.",
                    code=ErrorCode.CONFLICTING_PARAMETERS,
                )
            self.update(dtrain, iteration, fobj)
            return
        if grad is None and hess is None:
            raise ParameterError(
                "Invalid input for the boost function. Either the gradient or the "
                "objective should have a valid value.",
                code=ErrorCode.MISSING_PARAMETER,
            )
        self._follow_group()
        self._ensure_configured_for(dtrain)
        if dtrain.n_rows == 0 and self._group is None:
            self._update_without_rows(dtrain, iteration)
            return
        grad, hess = reshape_gradients(grad, hess, dtrain.num_row())
        super().boost(dtrain, iteration, grad=grad, hess=hess)
        self._has_new_rounds = True

    # Evaluation

    @with_xgboost_messages
    def eval_set(
        self,
        evals: Sequence[tuple[DMatrix, str]],
        iteration: int = 0,
        feval: Any = None,
        output_margin: bool = True,
    ) -> str:
        r"""Return a line such as ``"[0]\ttrain-rmse:0.5\tvalid-rmse:0.6"``.

        Parameters
        ----------
        evals
            Pairs of data with labels and its name.
        iteration
            The number in brackets.
        feval
            A custom metric, in addition to those of `eval_metric`.
        output_margin
            Whether `feval` gets margins instead of predictions.
        """
        self._ensure_configured()
        for data, name in evals:
            if not isinstance(data, DMatrix):
                raise TypeError(f"expected DMatrix, got {type(data).__name__}")
            if not isinstance(name, str):
                raise TypeError(f"expected string, got {type(name).__name__}")
            self._learner.validate_features(data.feature_names)
        built_in, custom = [], []
        for data, name in evals:
            scores = self.measure([(data, name)], feval, output_margin)
            count = len(self.metrics)
            built_in += [f"{key}:{value:.17f}" for key, value in scores[:count]]
            custom += [f"{key}:{value:f}" for key, value in scores[count:]]
        return "\t".join([f"[{iteration}]", *built_in, *custom])

    def measure(
        self,
        evals: Sequence[tuple[DMatrix, str]],
        feval: Any = None,
        output_margin: bool = True,
    ) -> list[tuple[str, float]]:
        """Return the metrics on `evals`, such as ``("valid-rmse", 0.6)``.

        Values of a custom metric are rounded to six decimals, as in XGBoost.
        """
        self._follow_group()
        self._ensure_configured()
        scores = []
        for data, name in evals:
            if data.n_rows == 0 and self._group is None:
                for metric in self.metrics:
                    empty = 1.0 if isinstance(metric, RankingMetric) else 0.0
                    scores.append((f"{name}-{metric.name}", empty))
                continue
            found = super().measure(
                [(data, name)], float32_metric(feval), output_margin
            )
            count = len(self.metrics)
            scores += found[:count]
            scores += [(key, float(f"{value:f}")) for key, value in found[count:]]
        return scores

    # Prediction

    @deprecate_positional_args
    @with_xgboost_messages
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
    ) -> npt.NDArray[np.float32]:
        """Return predictions in float32; see `hornbeam.Booster.predict`."""
        if not isinstance(data, DMatrix):
            raise TypeError(f"Expecting data to be a DMatrix object, got: {type(data)}")
        if not self._is_configured:
            self._ensure_configured()
        if validate_features:
            self._learner.validate_features(data.feature_names)
        if self.model.linear is not None:
            if iteration_range[0] != 0:
                raise ParameterError(
                    "Linear booster doesn't support prediction range: "
                    f"iteration_range={iteration_range} does not begin at 0",
                    code=ErrorCode.UNSUPPORTED_COMBINATION,
                )
            iteration_range = 0, 0  # a linear model cannot be split into rounds
        kinds = output_margin + pred_leaf + pred_contribs + pred_interactions
        if kinds > 1:
            raise ParameterError(
                "One type of prediction at a time.",
                code=ErrorCode.CONFLICTING_PREDICTION_TYPES,
            )
        explains = pred_contribs or pred_interactions
        found = super().predict(
            data,
            output_margin=output_margin,
            pred_leaf=pred_leaf,
            pred_contribs=pred_contribs,
            approx_contribs=approx_contribs and explains,
            pred_interactions=pred_interactions,
            validate_features=validate_features,
            training=training,
            iteration_range=iteration_range,
            strict_shape=strict_shape,
        )
        return _as_returned(found)

    @deprecate_positional_args
    @with_xgboost_messages
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
    ) -> npt.NDArray[np.float32]:
        """Return predictions of an array or frame, in float32."""
        if not self._is_configured:
            self._ensure_configured()
        if isinstance(data, np.ndarray) and data.ndim == 1:
            data = data.reshape(-1, 1)
        if "c" in self.model.feature_types and not is_dataframe(data):
            found = super().predict(
                DMatrix(data, base_margin=base_margin, missing=missing),
                output_margin=predict_type == "margin",
                validate_features=False,
                iteration_range=iteration_range,
                strict_shape=strict_shape,
            )
            return _as_returned(found)
        found = super().inplace_predict(
            data,
            iteration_range=iteration_range,
            predict_type=predict_type,
            missing=missing,
            validate_features=validate_features,
            base_margin=base_margin,
            strict_shape=strict_shape,
        )
        return _as_returned(found)

    @with_xgboost_messages
    def get_dump(
        self,
        fmap: str | os.PathLike[str] = "",
        with_stats: bool = False,
        dump_format: str = "text",
    ) -> list[str]:
        """Return a text for each tree; see `hornbeam.Booster.get_dump`."""
        self._ensure_configured()
        return super().get_dump(os.path.expanduser(fmap), with_stats, dump_format)

    @with_xgboost_messages
    def get_score(
        self, fmap: str | os.PathLike[str] = "", importance_type: str = "weight"
    ) -> dict[str, Any]:
        """Return feature importances; see `hornbeam.Booster.get_score`."""
        self._ensure_configured()
        return super().get_score(os.path.expanduser(fmap), importance_type)

    @with_xgboost_messages
    def get_split_value_histogram(
        self,
        feature: str,
        fmap: str | os.PathLike[str] = "",
        bins: int | None = None,
        as_pandas: bool = True,
    ) -> Any:
        """Return a histogram of the thresholds at which a feature is split.

        It is empty for a feature that the model does not have. For the arguments see
        `hornbeam.Booster.get_split_value_histogram`.
        """
        self._ensure_configured()
        self._learner.require_model()
        names = FeatureMap.of(self.model, fmap).names
        known = feature if feature in names else names[0]
        found = super().get_split_value_histogram(known, fmap, bins, as_pandas)
        return found if feature in names else found[:0]

    # Files and copies

    @with_xgboost_messages
    def load_model(self, fname: str | os.PathLike[str] | bytes | bytearray) -> None:
        """Load a model from a file, or from the bytes of one."""
        if not isinstance(fname, str | os.PathLike | bytes | bytearray):
            raise TypeError(f"Unknown file type: {fname!r}")
        if isinstance(fname, str | os.PathLike):
            path = Path(fname).expanduser()
            fname = path
            if path.suffix.lower() in _FORMATS:
                _check_suffix(path)
            else:
                with naming(path):
                    fname = path.read_bytes()
                guess = "JSON (`json`)" if _is_json(fname) else "UBJSON (`ubj`)"
                _warn(
                    f"Unknown file format: `{path.suffix[1:]}`. Using {guess} as a "
                    "guess."
                )
        try:
            super().load_model(fname)
        except UnsupportedModelError:
            raise
        except ModelFileError as error:
            self._load_standard(fname, error)
        self._loaded_params, self._has_new_rounds = self.params, False
        lost = SELECTING_PARAMS | {"base_score"}
        self._given = {k: v for k, v in self._given.items() if k not in lost}
        self._is_configured = False

    def _load_standard(
        self, fname: Path | bytes | bytearray, error: ModelFileError
    ) -> None:
        """Load an edited file as XGBoost would read it, without Hornbeam's additions.

        Raises `error` if that is not possible either.
        """
        data = fname.read_bytes() if isinstance(fname, Path) else fname
        try:
            model = decode_as_xgboost(data)
        except ModelFileError:
            raise error from None
        self._replace_model(model, parameters_of(model, self.params), None)
        _warn(
            "the model file was edited after Hornbeam wrote it; it is read as a file "
            "of XGBoost, with float32 thresholds"
        )

    @with_xgboost_messages
    def save_model(self, fname: str | os.PathLike[str]) -> None:
        """Save the model in XGBoost's format: JSON for ``.json``, UBJSON otherwise.

        An existing file is replaced atomically: on an error it is unchanged.
        """
        if not isinstance(fname, str | os.PathLike):
            raise TypeError("fname must be a string or os PathLike")
        path = Path(fname).expanduser()
        kind = path.suffix.lower()
        if kind in _FORMATS:
            replace_file(path, [memoryview(self.save_raw(kind[1:]))])
            return
        _warn(
            "Saving model in the UBJSON format as default.  You can use a file "
            "extension: `json` or `ubj` to choose between formats."
        )
        replace_file(path, [memoryview(self.save_raw())])

    @with_xgboost_messages
    def save_raw(self, raw_format: str = "ubj") -> bytearray:
        """Return the bytes of a model file in the format ``"ubj"`` or ``"json"``."""
        self._ensure_configured()
        FeatureMap.of(self.model)  # raises an error for another number of names
        return super().save_raw(raw_format)

    def __getitem__(self, val: Any) -> Booster:
        """Return a booster of a slice of rounds; it shares their trees.

        As in XGBoost, ``[0:0]`` and ``[...]`` select all rounds, and an end beyond the
        last round is an error.
        """
        self._ensure_configured()
        if isinstance(val, tuple):
            raise ValueError("Only supports slicing through 1 dimension.")
        rounds = slice(None) if val is ... else val
        if isinstance(rounds, slice):
            start = 0 if rounds.start in (None, ...) else rounds.start
            stop = 0 if rounds.stop in (None, ...) else rounds.stop
            rounds = self._checked_slice(rounds, start, stop)
        elif isinstance(rounds, np.integer):
            rounds = int(rounds)
        elif not isinstance(rounds, int):
            raise TypeError(f"Expecting int or slice, got {type(val)}")
        try:
            part = super().__getitem__(rounds)
        except IndexError as error:
            raise IndexError(f"Layer index out of range: {error}") from None
        return cast(Booster, part)

    def _checked_slice(self, given: slice, start: int, stop: int) -> slice:
        """Return the slice from `start` to `stop`; 0 means the last round."""
        if stop < start and given.stop not in (None, ...):
            raise ValueError(f"Invalid slice: {given}")
        if start < 0:
            raise ParameterError(
                f"Invalid slice: {given}; begin with a round >= 0",
                code=ErrorCode.INVALID_ITERATION_RANGE,
            )
        if given.step is not None and given.step < 1:
            raise ParameterError(
                f"Invalid slice: {given}; a step is >= 1",
                code=ErrorCode.INVALID_ITERATION_RANGE,
            )
        if stop > self.model.n_rounds:
            raise IndexError("Layer index out of range")
        if start == stop != 0:
            raise ParameterError(
                f"Empty slice is not allowed: {given}",
                code=ErrorCode.INVALID_ITERATION_RANGE,
            )
        return slice(start, stop or None, given.step)

    def copy(self) -> Booster:
        """Return an independent copy."""
        return Booster(model_file=self)

    def _user_attributes(self) -> dict[str, Any]:
        """Return the attributes that user code has set on this object."""
        plain = vars(Booster())
        return {
            name: value
            for name, value in vars(self).items()
            if name not in plain and not hasattr(Booster, name)
        }

    def __getstate__(self) -> dict[str, Any]:
        self._ensure_configured()
        self._keep_default_metric()
        own = {"given": self._given, "attributes": self._user_attributes()}
        return {**super().__getstate__(), **own}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        super().__setstate__(state)
        self._given, self._is_configured = state["given"], False
        self._loaded_params = self.params
        vars(self).update(state.get("attributes", {}))

    # Attributes

    def attributes(self) -> dict[str, str]:
        """Return all attributes, sorted by name."""
        return dict(sorted(super().attributes().items()))

    def set_attr(self, **attributes: Any) -> None:
        """Set attributes, which are saved with the model; None deletes one."""
        super().set_attr(
            **{
                name: None if value is None else str(value)
                for name, value in attributes.items()
            }
        )

    @property
    def feature_names(self) -> list[str] | None:
        """The feature names; None if there are none."""
        return super().feature_names

    @feature_names.setter
    @with_xgboost_messages
    def feature_names(self, names: Sequence[str] | None) -> None:
        # As in XGBoost, their number is checked when they are used or saved.
        self.model.feature_names = check_names(names, len(names or ())) or []

    @property
    def feature_types(self) -> list[str] | None:
        """The feature types; None if they are unknown."""
        return super().feature_types

    @feature_types.setter
    @with_xgboost_messages
    def feature_types(self, types: Sequence[str] | None) -> None:
        types = without_times(types)
        self.model.feature_types = check_types(types, len(types or ())) or []

    @property
    def best_iteration(self) -> int:
        """The best round of training with early stopping, from 0."""
        return super().best_iteration

    @best_iteration.setter
    def best_iteration(self, iteration: int) -> None:
        self.set_attr(best_iteration=iteration)

    @property
    def best_score(self) -> float:
        """The score of the best round of training with early stopping."""
        return super().best_score

    @best_score.setter
    def best_score(self, score: float) -> None:
        self.set_attr(best_score=score)


def _as_returned(predictions: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return predictions as XGBoost does: float32, and of shape (0,) for no rows."""
    if not len(predictions):
        return np.empty(0, np.float32)
    return predictions.astype(np.float32, copy=False)


def _is_json(start: bytes) -> bool:
    return start[1:2] in _JSON_SECOND_BYTES


def _check_suffix(path: Path) -> None:
    """Raise a `ModelFileError` if a model file is of the other format."""
    if not path.is_file():
        return
    with naming(path), path.open("rb") as file:
        start = file.read(2)
    if start[:1] == b"{" and _is_json(start) != (path.suffix.lower() == ".json"):
        expected = "L" if _is_json(start) else '"'
        raise ModelFileError(
            f'{path}: Expecting: "{expected}" after "{{": the file is '
            f"{'JSON' if _is_json(start) else 'UBJSON'}; rename it",
            code=ErrorCode.MODEL_FILE_NOT_PARSABLE,
        )


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=4)
