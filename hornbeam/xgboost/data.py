"""What kind of data something is, by XGBoost's names for the questions."""

from __future__ import annotations

from typing import Any

from hornbeam.xgboost.compat import lazy_isinstance
from hornbeam.xgboost.data_iter import SingleBatchInternalIter

__all__ = [
    "SingleBatchInternalIter",
    "is_nullable_dtype",
    "is_on_cuda",
    "is_pa_ext_categorical_dtype",
    "is_pa_ext_dtype",
    "is_pd_cat_dtype",
    "is_pd_sparse_dtype",
    "is_scipy_coo",
    "is_scipy_csc",
    "is_scipy_csr",
]


_NULLABLE = frozenset(
    "Int8 Int16 Int32 Int64 UInt8 UInt16 UInt32 UInt64 Float32 Float64 Boolean".split()
)


def _is_sparse(data: Any, kind: str) -> bool:
    of_scipy = type(data).__module__.startswith("scipy.sparse")
    return of_scipy and data.format == kind


def is_scipy_csr(data: Any) -> bool:
    """Return whether this is a sparse matrix or array of SciPy in rows."""
    return _is_sparse(data, "csr")


def is_scipy_csc(data: Any) -> bool:
    """Return whether this is a sparse matrix or array of SciPy in columns."""
    return _is_sparse(data, "csc")


def is_scipy_coo(data: Any) -> bool:
    """Return whether this is a sparse matrix or array of SciPy in coordinates."""
    return _is_sparse(data, "coo")


def is_pd_cat_dtype(dtype: Any) -> bool:
    """Return whether this is pandas' type of categories."""
    return type(dtype).__name__ == "CategoricalDtype"


def is_pd_sparse_dtype(dtype: Any) -> bool:
    """Return whether this is pandas' type of sparse columns."""
    return type(dtype).__name__ == "SparseDtype"


def is_pa_ext_dtype(dtype: Any) -> bool:
    """Return whether this is pandas' type of columns that are Arrow's."""
    return hasattr(dtype, "pyarrow_dtype")


def is_pa_ext_categorical_dtype(dtype: Any) -> bool:
    """Return whether this is pandas' type of columns that are Arrow's dictionaries."""
    return is_pa_ext_dtype(dtype) and lazy_isinstance(
        dtype.pyarrow_dtype, "pyarrow.lib", "DictionaryType"
    )


def is_nullable_dtype(dtype: Any) -> bool:
    """Return whether this is a type of pandas whose columns may hold nulls."""
    name = type(dtype).__name__
    return name.removesuffix("Dtype") in _NULLABLE or is_pd_cat_dtype(dtype)


def is_on_cuda(data: Any) -> bool:
    """Return whether this lies in the memory of a GPU."""
    return hasattr(data, "__cuda_array_interface__")
