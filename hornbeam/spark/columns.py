"""The columns of a Spark data frame: those that tasks read, and those of predictions.

The driver selects them under names of their own (`select`), so that a task needs no
schema. Features are one vector or one array, which are read as runs of numbers, without
a Python object for each row. Columns of numbers of one type are selected as one array
as well, which takes Spark two thirds of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.ml.functions import array_to_vector
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import array, col, struct, unwrap_udt
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    FloatType,
    IntegralType,
    NumericType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from hornbeam.data.containers.dispatch import words
from hornbeam.errors import ClusterError, DataError, ErrorCode
from hornbeam.spark.rows import ARRAY, COLUMNS, PARTS, VECTOR, Features

__all__ = ["add_predictions", "check_frame", "select_features", "select_fields"]

#: Holds the result of the UDF until its fields are columns.
_RESULT = "hornbeam_predictions"
#: Times, dates and durations.
_TIMES = (DateType, TimestampType, TimestampNTZType, DayTimeIntervalType)
#: The columns that are selected as integers or booleans, and not as doubles.
_TYPES = {"qid": "long", "validation": "boolean"}


def check_frame(dataset: Any) -> None:
    """Raise an error unless this is a DataFrame whose session is in this process.

    A session of Spark Connect has neither barrier stages that report to the driver nor
    broadcast variables.
    """
    if any(
        kind.__module__.startswith("pyspark.sql.connect.")
        for kind in type(dataset).__mro__
    ):
        raise ClusterError(
            "this DataFrame is of a Spark Connect session, whose driver is on a server "
            "that Hornbeam cannot reach; run the program where the driver is, with "
            "SparkSession.builder.master(...) instead of remote(...)",
            code=ErrorCode.SPARK_CONNECT,
        )
    if not isinstance(dataset, DataFrame):
        raise DataError(
            f"the data is {words(dataset)}; pass a DataFrame of Spark, such as "
            "spark.createDataFrame(data), or use hornbeam.HornbeamClassifier and the "
            "other estimators for one machine",
            code=ErrorCode.UNSUPPORTED_COLLECTION,
        )


def select_features(
    dataset: DataFrame,
    given: str | Sequence[str],
    feature_names: Sequence[str] | None,
    *,
    single: bool,
    sparse: bool,
    dates: bool,
) -> tuple[list[Column], Features]:
    """Return the columns of the features to select, and how tasks find them there.

    Parameters
    ----------
    dataset
        That they are in.
    given
        One column with arrays or vectors, or the names of numeric columns.
    feature_names
        Names of the features, instead of those of columns.
    single
        Whether features are float32; otherwise doubles stay doubles.
    sparse
        Whether vectors become a sparse matrix.
    dates
        Whether columns of times are features.
    """
    names = None if feature_names is None else tuple(feature_names)
    if not isinstance(given, str):
        return _select_columns(dataset, list(map(str, given)), names, single, dates)
    kind = _type_of(dataset, given)
    column = col(f"`{given}`")
    if isinstance(kind, VectorUDT):
        vector = unwrap_udt(column)
        parts = [vector[part] for part in PARTS]
        if single:
            parts[-1] = parts[-1].cast("array<float>")
        features = Features(VECTOR, given, names, is_sparse=sparse)
        return _aliased(parts, features), features
    if isinstance(kind, ArrayType) and isinstance(kind.elementType, NumericType):
        number = "float" if single or _is_narrow(kind.elementType) else "double"
        features = Features(ARRAY, given, names)
        return _aliased([column.cast(f"array<{number}>")], features), features
    raise DataError(
        f"the features column {given!r} holds {kind.simpleString()}; it must hold "
        "vectors or arrays of numbers: pass a list of numeric columns as features_col, "
        "or assemble them with pyspark.ml.feature.VectorAssembler",
        code=ErrorCode.UNSUPPORTED_ELEMENT_TYPE,
        column=given,
    )


def _select_columns(
    dataset: DataFrame,
    given: list[str],
    names: tuple[str, ...] | None,
    single: bool,
    dates: bool,
) -> tuple[list[Column], Features]:
    """Return columns in types in which they are exact; with `single` as float32.

    Those of one type are an array. Times, and numbers of which some take more memory
    than others, stay columns.
    """
    if names is not None and len(names) != len(given):
        raise DataError(
            f"feature_names has {len(names)} names for {len(given)} columns; give one "
            "for each",
            code=ErrorCode.SCHEMA_LENGTH_MISMATCH,
            kind="names",
            expected=len(given),
            got=len(names),
        )
    types = [_type_of_feature(dataset, name, single, dates) for name in given]
    columns = [
        col(f"`{name}`") if kind is None else col(f"`{name}`").cast(kind)
        for name, kind in zip(given, types, strict=True)
    ]
    names = names or tuple(given)
    if None in types or len(set(types)) > 1:
        features = Features(COLUMNS, None, names)
        return _aliased(columns, features), features
    features = Features(ARRAY, None, names, types=("float",) * len(given))
    return _aliased([array(*columns)], features), features


def _aliased(columns: Sequence[Column], features: Features) -> list[Column]:
    return [
        column.alias(name)
        for column, name in zip(columns, features.selected, strict=True)
    ]


def select_fields(dataset: DataFrame, names: Mapping[str, str]) -> list[Column]:
    """Return the columns of labels, weights and so on to select, under their names.

    `names` are those of the columns of the dataset, by the names of the fields.
    """
    found = []
    for field, name in names.items():
        kind = _type_of(dataset, name)
        column = col(f"`{name}`")
        if field == "row_key":
            _check(field, name, kind, (IntegralType, StringType), "integers or text")
        elif field == "validation":
            _check(field, name, kind, (BooleanType,), "booleans")
        elif field == "base_margin" and isinstance(kind, ArrayType):
            column = column.cast("array<double>")
        else:
            _check(field, name, kind, (NumericType, BooleanType), "numbers")
            column = column.cast(_TYPES.get(field, "double"))
        found.append(column.alias(field))
    return found


def _check(
    field: str, name: str, kind: DataType, kinds: tuple[type, ...], wanted: str
) -> None:
    if not isinstance(kind, kinds):
        advice = ": encode classes with pyspark.ml.feature.StringIndexer"
        raise DataError(
            f"the {field} column {name!r} holds {kind.simpleString()}; it must hold "
            f"{wanted}{advice if field == 'label' else ''}",
            code=ErrorCode.META_INFO_NOT_NUMERIC,
            column=name,
        )


def _type_of_feature(
    dataset: DataFrame, name: str, single: bool, dates: bool
) -> str | None:
    """Return the type of numbers to select a column as; None if it holds times."""
    kind = _type_of(dataset, name)
    is_time = isinstance(kind, _TIMES)
    if dates and is_time:
        return None
    if isinstance(kind, NumericType | BooleanType):
        return "float" if single or _is_narrow(kind) else "double"
    advice = "encode text with pyspark.ml.feature.StringIndexer and name its type "
    advice += "'c' in feature_types"
    if is_time:
        advice = "convert times to them, such as by pyspark.sql.functions.hour; an "
        advice += 'estimator of hornbeam.spark with dates="expand" does so'
    raise DataError(
        f"the feature column {name!r} holds {kind.simpleString()}; features must "
        f"be numbers: {advice}",
        code=ErrorCode.UNSUPPORTED_ELEMENT_TYPE,
        column=name,
    )


def _is_narrow(kind: DataType) -> bool:
    """Return whether float32 holds all values of a type."""
    return isinstance(kind, FloatType | ByteType | ShortType | BooleanType)


def _type_of(dataset: DataFrame, name: str) -> DataType:
    if name not in dataset.columns:
        raise DataError(
            f"there is no column {name!r} in the data frame; it has "
            f"{', '.join(map(repr, dataset.columns))}",
            code=ErrorCode.COLUMN_NOT_FOUND,
            column=name,
        )
    return dataset.schema[name].dataType


def add_predictions(
    dataset: DataFrame,
    inputs: list[Column],
    udf: Callable[..., Column],
    outputs: dict[str, str],
) -> DataFrame:
    """Return the dataset with columns of predictions.

    Parameters
    ----------
    dataset
        The rows.
    inputs
        The columns of the UDF.
    udf
        Of a `Prediction`.
    outputs
        The name of each column by the field of the result; those of vectors begin with
        ``+``.
    """
    found = dataset.withColumn(_RESULT, udf(struct(*inputs)))
    for field, name in outputs.items():
        column = col(_RESULT)[field.removeprefix("+")]
        if field.startswith("+"):
            column = array_to_vector(column)
        found = found.withColumn(name, column)
    return found.drop(_RESULT)
