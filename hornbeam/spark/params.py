"""The parameters of estimators and models, as Spark ML keeps them.

Columns and workers have XGBoost's names: ``features_col`` of the constructor is the
parameter ``featuresCol`` of Spark. Parameters of training are those of a library, each
by its own name, so that grids and pipelines can set them; what is not among them, such
as an alias, is in ``arbitrary_params_dict``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import (
    HasFeaturesCol,
    HasLabelCol,
    HasPredictionCol,
    HasProbabilityCol,
    HasRawPredictionCol,
    HasValidationIndicatorCol,
    HasWeightCol,
)

from hornbeam.errors import ErrorCode, ParameterError

__all__ = ["ClassParams", "SparkParams", "declare"]

#: Spark's names of columns, by XGBoost's.
ALIASES = {
    "features_col": "featuresCol",
    "label_col": "labelCol",
    "weight_col": "weightCol",
    "raw_prediction_col": "rawPredictionCol",
    "prediction_col": "predictionCol",
    "probability_col": "probabilityCol",
    "validation_indicator_col": "validationIndicatorCol",
}
#: What takes the place of arguments of other interfaces.
_INSTEAD = {
    "n_jobs": "a task has as many threads as spark.task.cpus",
    "nthread": "a task has as many threads as spark.task.cpus",
    "enable_categorical": "name the types of categorical columns 'c' in feature_types",
    "sample_weight": "name a column: weight_col",
    "eval_set": "mark rows in a column: validation_indicator_col",
    "evals": "mark rows in a column: validation_indicator_col",
    "base_margin": "name a column: base_margin_col",
    "qid": "name a column: qid_col",
    "group": "name a column: qid_col",
    "use_gpu": "trees are grown on CPUs on Spark",
    "evals_result": "see training_summary of the model",
    "output_margin": "the margins of a classifier are in raw_prediction_col",
    "validate_features": "columns are found by their names",
    "num_boost_round": "it is n_estimators here",
    "features_cols": "pass a list as features_col",
    "arbitrary_params_dict": "pass the parameters themselves",
}


def _plain(value: Any) -> Any:
    """Return the value with Python's numbers and lists in place of NumPy's."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _param(name: str, doc: str, convert: Any) -> Any:
    return Param(Params._dummy(), name, doc, convert)


_text, _bool, _int = (
    TypeConverters.toString,
    TypeConverters.toBoolean,
    TypeConverters.toInt,
)


class SparkParams(
    HasFeaturesCol,
    HasLabelCol,
    HasWeightCol,
    HasPredictionCol,
    HasValidationIndicatorCol,
):
    """Base of estimators and models, with the parameters of columns and workers."""

    #: The module that trains and predicts.
    library: ClassVar[str] = "hornbeam"
    #: The names of the parameters of training.
    learner_params: ClassVar[tuple[str, ...]] = ()

    features_cols = _param(
        "features_cols", "feature columns", TypeConverters.toListString
    )
    base_margin_col = _param("base_margin_col", "column of initial margins", _text)
    qid_col = _param("qid_col", "column of query groups", _text)
    row_key_col = _param(
        "row_key_col",
        "column of whole numbers or text by which subsample draws rows; by default "
        "they are drawn by a hash of their values",
        _text,
    )
    pred_contrib_col = _param(
        "pred_contrib_col", "column for contributions of features", _text
    )
    num_workers = _param("num_workers", "number of tasks that train", _int)
    force_repartition = _param(
        "force_repartition", "whether rows are always shuffled to the workers", _bool
    )
    repartition_random_shuffle = _param(
        "repartition_random_shuffle", "whether a shuffle is at random", _bool
    )
    enable_sparse_data_optim = _param(
        "enable_sparse_data_optim",
        "whether vectors become a sparse matrix; zeros are then missing",
        _bool,
    )
    launch_tracker_on_driver = _param(
        "launch_tracker_on_driver",
        "whether the driver has the tracker, prints the rounds and keeps checkpoints; "
        "otherwise the first task has it, and each keeps checkpoints on its own disk",
        _bool,
    )
    coll_cfg = _param(
        "coll_cfg",
        "connections: a dict of retry, timeout, tracker_host_ip, tracker_port and "
        "tracker_timeout, or xgboost's collective.Config",
        TypeConverters.identity,
    )
    checkpoint_interval = _param(
        "checkpoint_interval",
        "rounds between two checkpoints, from which a stage that is tried again "
        "resumes; 0: none",
        _int,
    )
    arbitrary_params_dict = _param(
        "arbitrary_params_dict", "further parameters of training", _plain
    )
    n_estimators = _param("n_estimators", "number of rounds", _int)
    early_stopping_rounds = _param(
        "early_stopping_rounds",
        "rounds without improvement on the validation rows after which training stops",
        TypeConverters.identity,
    )
    verbose = _param(
        "verbose",
        "whether to print the metrics of each round, or the rounds between two lines",
        TypeConverters.identity,
    )
    missing = _param("missing", "number that stands for missing, besides NaN", _plain)
    feature_names = _param("feature_names", "names of features", _plain)
    feature_types = _param("feature_types", "types of features, such as 'c'", _plain)
    feature_weights = _param(
        "feature_weights", "probability weights of features in column sampling", _plain
    )
    iteration_range = _param("iteration_range", "rounds that predict", _plain)
    xgb_model = _param(
        "xgb_model", "booster to continue training from", TypeConverters.identity
    )
    callbacks = _param("callbacks", "callbacks of training", TypeConverters.identity)

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(
            features_cols=[],
            num_workers=1,
            force_repartition=False,
            repartition_random_shuffle=False,
            enable_sparse_data_optim=False,
            launch_tracker_on_driver=True,
            coll_cfg=None,
            checkpoint_interval=10,
            arbitrary_params_dict={},
            n_estimators=100,
            early_stopping_rounds=None,
            verbose=True,
            missing=float("nan"),
            feature_names=None,
            feature_types=None,
            feature_weights=None,
            iteration_range=None,
            xgb_model=None,
            callbacks=None,
            **dict.fromkeys(self.learner_params),
        )

    # Setting

    def setParams(self, **given: Any) -> Any:  # noqa: N802  as in Spark ML
        """Set parameters by the names of the constructor; return the estimator."""
        values: dict[str, Any] = {}
        more = dict(self.getOrDefault(self.arbitrary_params_dict))
        for name, value in given.items():
            self._check_name(name)
            if value is None and name.endswith("_col"):
                continue
            if name == "features_col":
                self.clear(self.featuresCol)
                self.clear(self.features_cols)
            if name == "features_col" and not isinstance(value, str):
                values["features_cols"] = list(value)
                if not values["features_cols"]:
                    raise ParameterError(
                        "features_col is an empty list; name at least one column",
                        code=ErrorCode.COLUMN_NOT_FOUND,
                    )
            elif name in ALIASES:
                values[ALIASES[name]] = value
            elif self.hasParam(name):
                values[name] = value
            else:
                more[name] = _plain(value)
        if more:
            values["arbitrary_params_dict"] = more
        try:
            self._set(**values)
        except TypeError as error:
            raise ParameterError(
                str(error), code=ErrorCode.INVALID_PARAMETER_TYPE
            ) from None
        self._check_learner_params()
        return self

    def _check_name(self, name: str) -> None:
        spelled = {spark: xgb for xgb, spark in ALIASES.items()}.get(name)
        if spelled is not None:
            raise ParameterError(
                f"use the name {spelled!r} instead of {name!r}",
                code=ErrorCode.UNKNOWN_PARAMETER,
            )
        advice = _INSTEAD.get(name)
        column = name.endswith("_col") and name not in ALIASES
        unknown = column and not self.hasParam(name)
        unknown = unknown or (name in ALIASES and not self.hasParam(ALIASES[name]))
        if advice is not None or unknown:
            kind = type(self).__name__
            raise ParameterError(
                f"{kind} has no parameter {name!r}: {advice or 'leave it out'}",
                code=ErrorCode.UNKNOWN_PARAMETER,
            )

    def _check_learner_params(self) -> None:
        """Raise a `ParameterError` if the library refuses a parameter."""

    # Reading

    def given(self, param: Any) -> Any:
        """Return the value of a parameter; None if it is neither set nor has one."""
        value = self.getOrDefault(param) if self.isDefined(param) else None
        return None if value == "" else value

    def learner(self) -> dict[str, Any]:
        """Return the parameters of training that are set."""
        found = {name: self.given(name) for name in self.learner_params}
        more = self.getOrDefault(self.arbitrary_params_dict)
        return {k: v for k, v in found.items() if v is not None} | more

    @property
    def features(self) -> Any:
        """The column of features, or the names of several."""
        return self.getOrDefault(self.features_cols) or self.getFeaturesCol()


class ClassParams(HasProbabilityCol, HasRawPredictionCol):
    """The parameters of columns that only classifiers have."""


class DateParams(Params):
    """The parameter of columns of times, which only estimators of `hornbeam` have."""

    dates = _param(
        "dates",
        "'expand': columns of dates and times are features by their parts; 'error': "
        "they are an error",
        _text,
    )

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(dates="expand")


def declare(names: Iterable[str], purpose: str) -> Any:
    """Return a class decorator that adds parameters of training."""

    def add(kind: type[SparkParams]) -> type[SparkParams]:
        for name in names:
            setattr(kind, name, _param(name, f"{name} of {purpose}", _plain))
        kind.learner_params = tuple(names)
        return kind

    return add
