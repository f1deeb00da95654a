"""The names of the module `xgboost.data`, and the iterators over batches of data."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

from hornbeam.data.sources.batches import Batch
from hornbeam.data.sources.data_iter import DataIter as _DataIter
from hornbeam.data.sources.data_iter import IterSource
from hornbeam.xgboost.compat import lazy_isinstance

__all__ = [
    "DataIter",
    "KeptBatches",
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
    "pandas_nullable_mapper",
    "pandas_pyarrow_mapper",
]


class DataIter(_DataIter):
    """Base class of custom iterators over batches: override `next` and `reset`.

    The arguments are those of `hornbeam.DataIter`.
    """

    def reraise(self) -> None:
        """Do nothing: errors of an iterator are raised where they occur."""


class SingleBatchInternalIter(DataIter):
    """An iterator over one batch: the arguments of a `DMatrix`."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        self.kwargs = kwargs
        self.it = 0

    def next(self, input_data: Callable[..., None]) -> bool:
        if self.it == 1:
            return False
        self.it += 1
        input_data(**self.kwargs)
        return True

    def reset(self) -> None:
        self.it = 0


class KeptBatches(IterSource):
    """An iterator that is read once: copies of its batches serve further passes."""

    def __init__(self, iterator: Any) -> None:
        super().__init__(iterator)
        self._kept: list[Batch] | None = None

    def batches(
        self, columns: Sequence[str] | None = None
    ) -> Generator[Batch, None, None]:
        if self._kept is not None:
            yield from self._kept
            return
        kept = []
        for batch in super().batches(columns):
            yield batch
            # The iterator may write to the memory of a batch that it gave. The matrix
            # has the labels and other fields of all rows after the first pass.
            kept.append(replace(batch, data=deepcopy(batch.data), info={}))
        self._kept = kept


_WIDTHS = ["8", "16", "32", "64"]
_INTEGERS = [f"{kind}{width}" for kind in ("int", "uint") for width in _WIDTHS]
#: The feature type of each nullable dtype of pandas, by its name.
pandas_nullable_mapper = {
    **{f"Int{width}": "int" for width in _WIDTHS},
    **{f"UInt{width}": "int" for width in _WIDTHS},
    **dict.fromkeys(("Float32", "Float64"), "float"),
    "boolean": "i",
}
#: The feature type of each Arrow dtype of pandas, by its name.
pandas_pyarrow_mapper = {
    **{f"{name}[pyarrow]": "int" for name in _INTEGERS},
    **{f"{name}[pyarrow]": "float" for name in ("float", "double")},
    **{f"{name}[pyarrow]": "float" for name in ("float32", "float64")},
    "bool[pyarrow]": "i",
}


def is_scipy_csr(data: Any) -> bool:
    """Return whether this is a CSR matrix or array of SciPy."""
    return _is_scipy_sparse(data, "csr")


def is_scipy_csc(data: Any) -> bool:
    """Return whether this is a CSC matrix or array of SciPy."""
    return _is_scipy_sparse(data, "csc")


def is_scipy_coo(data: Any) -> bool:
    """Return whether this is a COO matrix or array of SciPy."""
    return _is_scipy_sparse(data, "coo")


def _is_scipy_sparse(data: Any, format: str) -> bool:
    of_scipy = type(data).__module__.startswith("scipy.sparse")
    return of_scipy and data.format == format


def is_pd_cat_dtype(dtype: Any) -> bool:
    """Return whether this is pandas' categorical dtype."""
    return type(dtype).__name__ == "CategoricalDtype"


def is_pd_sparse_dtype(dtype: Any) -> bool:
    """Return whether this is pandas' sparse dtype."""
    return type(dtype).__name__ == "SparseDtype"


def is_pa_ext_dtype(dtype: Any) -> bool:
    """Return whether this is pandas' dtype of Arrow columns."""
    return hasattr(dtype, "pyarrow_dtype")


def is_pa_ext_categorical_dtype(dtype: Any) -> bool:
    """Return whether this is pandas' dtype of Arrow dictionary columns."""
    return is_pa_ext_dtype(dtype) and lazy_isinstance(
        dtype.pyarrow_dtype, "pyarrow.lib", "DictionaryType"
    )


def is_nullable_dtype(dtype: Any) -> bool:
    """Return whether this is a nullable dtype of pandas, or a categorical one."""
    name = str(getattr(dtype, "name", ""))
    return name in pandas_nullable_mapper or is_pd_cat_dtype(dtype)


def is_on_cuda(data: Any) -> bool:
    """Return whether the data is in GPU memory."""
    return hasattr(data, "__cuda_array_interface__")


def _lazy_load_cudf_is_cat() -> Callable[[Any], bool]:
    """Return a check for the categorical dtype of cuDF, which is not supported."""
    return lambda dtype: False
