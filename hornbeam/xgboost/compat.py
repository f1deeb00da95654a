"""Type checks of data frames and arrays that do not import their libraries."""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from types import ModuleType
from typing import Any, TypeVar, cast

import numpy as np

from hornbeam.data.containers.dispatch import known_frame
from hornbeam.data.sources.dispatch import as_source
from hornbeam.errors import require
from hornbeam.lazy import names_from

__all__ = [
    "SKLEARN_INSTALLED",
    "concat",
    "import_cupy",
    "import_pandas",
    "import_polars",
    "import_pyarrow",
    "is_cudf_available",
    "is_cupy_available",
    "is_dataframe",
    "is_pandas_available",
    "is_pyarrow_available",
    "lazy_isinstance",
    "numeric_labels",
    "py_str",
    "to_frame",
    "to_known",
]

T = TypeVar("T")

_CONTAINERS = (np.ndarray, list, tuple, str, os.PathLike)
_ARRAY_INTERFACES = ("__array__", "__array_interface__", "__dlpack__")
#: Whether scikit-learn is installed.
SKLEARN_INSTALLED = importlib.util.find_spec("sklearn") is not None

__getattr__, __dir__ = names_from(
    __name__,
    {
        "XGBClassifierBase": "sklearn.base:ClassifierMixin",
        "XGBModelBase": "sklearn.base:BaseEstimator",
        "XGBRegressorBase": "sklearn.base:RegressorMixin",
        "XGBStratifiedKFold": "sklearn.model_selection:StratifiedKFold",
        "scipy_csr": "scipy.sparse:csr_matrix",
    },
)


def py_str(x: bytes | None) -> str:
    """Return UTF-8 bytes decoded as a string."""
    assert x is not None
    return x.decode("utf-8")


def lazy_isinstance(instance: Any, module: str, name: str) -> bool:
    """Return whether the class of an object has this module and name."""
    kind = instance.__class__  # a proxy returns the class of its object
    return bool(kind.__module__ == module and kind.__name__ == name)


def _is_one_of(*classes: str) -> Callable[[Any], bool]:
    """Return a check for instances of these classes."""
    names = frozenset(tuple(name.rsplit(".", 1)) for name in classes)

    def is_instance(data: Any) -> bool:
        kind = data.__class__
        return (kind.__module__, kind.__name__) in names

    return is_instance


_PANDAS = "pandas.core.frame.DataFrame", "pandas.DataFrame"
_PANDAS_SERIES = "pandas.core.series.Series", "pandas.Series"
_POLARS = "polars.dataframe.frame.DataFrame", "polars.lazyframe.frame.LazyFrame"
_POLARS_SERIES = "polars.series.series.Series"
_ARROW = "pyarrow.lib.Table"
_MODIN, _MODIN_SERIES = "modin.pandas.dataframe.DataFrame", "modin.pandas.series.Series"
_CUDF, _CUDF_SERIES = "cudf.core.dataframe.DataFrame", "cudf.core.series.Series"

_is_pandas_df = _is_one_of(*_PANDAS)
_is_pandas_series = _is_one_of(*_PANDAS_SERIES)
_is_polars = _is_one_of(*_POLARS)
_is_polars_lazyframe = _is_one_of(_POLARS[1])
_is_polars_series = _is_one_of(_POLARS_SERIES)
_is_arrow = _is_one_of(_ARROW)
_is_modin_df = _is_one_of(_MODIN)
_is_modin_series = _is_one_of(_MODIN_SERIES)
_is_cudf_df = _is_one_of(_CUDF)
_is_cudf_ser = _is_one_of(_CUDF_SERIES)
_is_known_frame = _is_one_of(
    *(*_PANDAS, *_PANDAS_SERIES, *_POLARS, _POLARS_SERIES, _ARROW),
    *(_MODIN, _MODIN_SERIES, _CUDF, _CUDF_SERIES),
)


def _is_cupy_alike(data: Any) -> bool:
    """Return whether this is an array in GPU memory."""
    return hasattr(data, "__cuda_array_interface__")


def is_dataframe(data: Any) -> bool:
    """Return whether this is a data frame or a column of a known library."""
    return _is_known_frame(data)


def to_frame(data: Any) -> Any:
    """Return a frame, or a column of a data frame library, as a frame.

    Other data is returned unchanged. Warns of sparse columns of pandas, as XGBoost
    does.
    """
    if not is_dataframe(data):
        return data
    # A lazy frame has no shape.
    frame = data.to_frame() if len(getattr(data, "shape", (0, 0))) == 1 else data
    of_pandas = type(frame).__module__.startswith("pandas")
    if of_pandas and any(type(d).__name__ == "SparseDtype" for d in frame.dtypes):
        _warn("Sparse arrays from pandas are converted into dense.")
    if lazy_isinstance(frame, "polars.dataframe.frame", "DataFrame"):
        return _in_order_of_rows(frame)
    return frame


def _in_order_of_rows(frame: Any) -> Any:
    """Return a polars frame whose categories are in the order of their first rows.

    That is their order in XGBoost, and in pandas if the frame is converted.
    """
    enum = import_polars().Enum
    columns = [
        column.cast(enum(column.drop_nulls().unique(maintain_order=True).cast(str)))
        for column in frame.get_columns()
        if type(column.dtype).__name__ == "Categorical"
    ]
    return frame.with_columns(columns) if columns else frame


def to_known(data: Any) -> Any:
    """Return data whose type XGBoost does not know as a CSR matrix, with its warning.

    Other data, and data that SciPy does not convert, is returned unchanged.
    """
    if not _is_unknown(data):
        return data
    _warn(f"Unknown data type: {type(data)}, trying to convert it to csr_matrix")
    try:
        return require("scipy.sparse", "frames", "this").csr_matrix(data)
    except (TypeError, ValueError):
        return data


def _is_unknown(data: Any) -> bool:
    if type(data).__module__.startswith("scipy.sparse"):
        return data.format not in ("csr", "csc", "coo")
    if isinstance(data, _CONTAINERS) or is_dataframe(data):
        return False
    if any(hasattr(data, name) for name in _ARRAY_INTERFACES):
        return False
    return as_source(data) is None and known_frame(data) is None


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=2)


def numeric_labels(label: Any) -> Any:
    """Return labels of pandas' categorical or string dtype as numbers, if possible.

    Other labels are returned unchanged.
    """
    kind = type(getattr(label, "dtype", None)).__name__
    if kind not in ("CategoricalDtype", "StringDtype"):
        return label
    values = label.to_numpy()
    try:
        return values.astype(np.float64)
    except ValueError:
        return values


def concat(value: Sequence[T]) -> T:
    """Concatenate the rows of arrays, SciPy sparse matrices or pandas frames."""
    first: Any = value[0]
    if isinstance(first, np.ndarray):
        return cast(T, np.concatenate(cast(Any, value), axis=0))
    if hasattr(first, "tocsr"):
        sparse = require("scipy.sparse", "frames", "concat")
        kind = first.format if first.format in ("csr", "csc") else "csr"
        return cast(T, sparse.vstack(value, format=kind))
    if type(first).__module__.startswith("pandas"):
        return cast(T, import_pandas().concat(value, axis=0))
    raise TypeError(f"Unknown type: {type(first)}")


@cache
def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def is_cudf_available() -> bool:
    """Return False: GPUs are not supported."""
    return False


def is_cupy_available() -> bool:
    """Return False: GPUs are not supported."""
    return False


def is_pandas_available() -> bool:
    """Return whether pandas is installed."""
    return _is_installed("pandas")


def is_pyarrow_available() -> bool:
    """Return whether pyarrow is installed."""
    return _is_installed("pyarrow")


def import_cupy() -> ModuleType:
    """Raise an `ImportError`: GPUs are not supported."""
    raise ImportError("`cupy` is required for handling CUDA buffer.")


def import_pandas() -> ModuleType:
    """Return the module pandas."""
    return require("pandas", "frames", "this")


def import_polars() -> ModuleType:
    """Return the module polars."""
    return require("polars", "frames", "this")


def import_pyarrow() -> ModuleType:
    """Return the module pyarrow."""
    return require("pyarrow", "frames", "this")
