"""The parameters of estimators and models, as Spark ML keeps them.

Columns and workers have XGBoost's names: ``features_col`` of the constructor is the
parameter ``featuresCol`` of Spark. Parameters of training are those of a library, each
by its own name, so that grids and pipelines can set them; what is not among them, such
as an alias, is in ``arbitrary_params_dict``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from inspect import Parameter, Signature
from textwrap import fill, indent
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

__all__ = [
    "DATES",
    "ClassParams",
    "SparkParams",
    "constructor",
    "declare",
    "described",
    "of_learner",
]

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


#: Stands for no default, of a parameter that names a column.
_NONE = object()
#: What converts the values of a parameter, by the type of its default.
_CONVERTERS = {
    object: TypeConverters.toString,
    str: TypeConverters.toString,
    bool: TypeConverters.toBoolean,
    int: TypeConverters.toInt,
    list: TypeConverters.toListString,
}
#: The parameters by name, each with its default and what it is.
_TABLE: dict[str, tuple[Any, str]] = {
    "base_margin_col": (
        _NONE,
        "column of initial margins: numbers, or arrays of a number for each output",
    ),
    "qid_col": (_NONE, "of a ranker: column of query groups, whole numbers"),
    "row_key_col": (
        _NONE,
        "column of whole numbers or text by which subsample draws rows, those of equal "
        "keys together; by default it draws them by a hash of their values. So the "
        "order of the rows, which Spark does not keep, does not change the model",
    ),
    "pred_contrib_col": (
        _NONE,
        "column that the model adds, contributions of features",
    ),
    "num_workers": (1, "number of tasks that train, of spark.task.cpus threads each"),
    "force_repartition": (
        False,
        "whether rows are shuffled to the workers even if there are as many partitions",
    ),
    "repartition_random_shuffle": (False, "whether a shuffle is at random"),
    "enable_sparse_data_optim": (
        False,
        "whether vectors become a sparse matrix, whose zeros are missing; needs "
        "missing=0.0",
    ),
    "launch_tracker_on_driver": (
        True,
        "whether the tasks find each other by the driver, which then prints the rounds "
        "and keeps checkpoints; otherwise by the first task, which prints them, and "
        "each task keeps checkpoints on the disk of its executor",
    ),
    "coll_cfg": (
        None,
        "settings of the connections of tasks: a dict of retry, timeout, "
        "tracker_host_ip, tracker_port and tracker_timeout, or XGBoost's "
        "collective.Config",
    ),
    "checkpoint_interval": (
        10,
        "rounds between two checkpoints; 0: none. If a task is lost, Spark tries the "
        "stage again, and training goes on from the last checkpoint to the same model",
    ),
    "n_estimators": (100, "number of rounds"),
    "early_stopping_rounds": (
        None,
        "rounds without improvement on the validation rows after which training stops",
    ),
    "verbose": (
        True,
        "whether to print the metrics of each round, or the rounds between two lines; "
        "without it the metrics of the training rows are not computed",
    ),
    "missing": (math.nan, "number that stands for missing, besides NaN and null"),
    "feature_names": (None, "names of features"),
    "feature_types": (None, "types of features, such as 'c'"),
    "feature_weights": (None, "probability weights of features in column sampling"),
    "iteration_range": (None, "rounds (begin, end) that predict"),
    "xgb_model": (None, "booster to continue training from"),
    "callbacks": (None, "callbacks of training, which run in each task"),
}
#: Parameters that `setParams` sets by the names of others.
_INNER: dict[str, tuple[Any, str]] = {
    "features_cols": ([], "several columns of features"),
    "arbitrary_params_dict": ({}, "further parameters of training"),
}
#: The parameter of columns of times, which only estimators of `hornbeam` have.
DATES: dict[str, tuple[Any, str]] = {
    "dates": (
        "expand",
        "'expand': of columns of dates, timestamps and intervals trees split on year, "
        "month, weekday, hour and so on, those that vary in all rows, timestamps on "
        "the clock of spark.sql.session.timeZone. 'error': such columns are an error",
    )
}
#: What Spark declares itself, by the names of the constructor.
_OF_SPARK: dict[str, tuple[Any, str]] = {
    "features_col": (
        "features",
        "column of vectors or arrays, or a list of columns of numbers and times",
    ),
    "label_col": ("label", "column of labels"),
    "weight_col": (_NONE, "column of weights"),
    "prediction_col": ("prediction", "column of predictions that the model adds"),
    "probability_col": ("probability", "of a classifier: vectors of probabilities"),
    "raw_prediction_col": ("rawPrediction", "of a classifier: vectors of margins"),
    "validation_indicator_col": (
        _NONE,
        "column of booleans that marks the rows that are not trained on, but evaluated "
        "after each round",
    ),
}


#: Spark's names of these, such as featuresCol for features_col.
ALIASES = {
    name: re.sub("_(.)", lambda found: found[1].upper(), name) for name in _OF_SPARK
}


def declare(table: Mapping[str, tuple[Any, str]]) -> Any:
    """Return a class decorator that adds parameters, with their defaults and texts."""

    def add(kind: type[SparkParams]) -> type[SparkParams]:
        for name, (default, doc) in table.items():
            convert = _CONVERTERS.get(type(default), _plain)
            setattr(kind, name, Param(Params._dummy(), name, doc, convert))
        kind.table = {**kind.table, **table}
        return kind

    return add


def of_learner(names: Iterable[str], what: str) -> dict[str, tuple[Any, str]]:
    """Return the table of parameters of training."""
    return {name: (None, f"{name} of {what}") for name in names}


def described() -> str:
    """Return the parameters of an estimator, as docstrings list them."""
    lines = []
    for name, (default, doc) in (_OF_SPARK | _TABLE | DATES).items():
        usual = "none" if default in (_NONE, None) else repr(default)
        text = f"{doc[:1].upper()}{doc[1:]}. Default: {usual}."
        lines += [f"    {name}", indent(fill(text, 78), " " * 8)]
    return "\n".join(lines)


def constructor() -> Signature:
    """Return the signature of an estimator's constructor."""
    arguments = [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)]
    for name, (default, _) in (_OF_SPARK | _TABLE).items():
        usual = None if default is _NONE else default
        arguments.append(Parameter(name, Parameter.KEYWORD_ONLY, default=usual))
    return Signature([*arguments, Parameter("params", Parameter.VAR_KEYWORD)])


@declare(_TABLE | _INNER)
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
    #: The defaults and the texts of all parameters.
    table: ClassVar[Mapping[str, tuple[Any, str]]] = {}

    def __init__(self) -> None:
        super().__init__()
        defaults = {name: default for name, (default, _) in self.table.items()}
        self._setDefault(**{k: v for k, v in defaults.items() if v is not _NONE})

    # Setting

    def setParams(self, **given: Any) -> Any:  # noqa: N802  as in Spark ML
        """Set parameters by the names of the constructor; return the estimator."""
        values: dict[str, Any] = {}
        more = dict(self.given("arbitrary_params_dict"))
        for name, value in given.items():
            self._check_name(name)
            if value is None and name.endswith("_col"):
                continue
            if name == "features_col":
                self.clear(self.featuresCol)
                self.clear(self.getParam("features_cols"))
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

    def given(self, name: str) -> Any:
        """Return the value of a parameter; None if it is neither set nor has one."""
        value = self.getOrDefault(name) if self.isDefined(name) else None
        return None if value == "" else value

    def _named(self, params: Mapping[str, str]) -> dict[str, str]:
        """Return the columns that are named, instead of their parameters."""
        found = {key: self.given(name) for key, name in params.items()}
        return {key: column for key, column in found.items() if column is not None}

    def learner(self) -> dict[str, Any]:
        """Return the parameters of training that are set."""
        found = {name: self.given(name) for name in self.learner_params}
        more = self.given("arbitrary_params_dict")
        return {k: v for k, v in found.items() if v is not None} | more

    @property
    def features(self) -> Any:
        """The column of features, or the names of several."""
        return self.given("features_cols") or self.getFeaturesCol()


class ClassParams(HasProbabilityCol, HasRawPredictionCol):
    """The parameters of columns that only classifiers have."""
