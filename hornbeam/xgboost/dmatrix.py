"""DMatrix and its subclasses with XGBoost's arguments, defaults and float32 results."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from hornbeam.data.containers.dispatch import check_categorical
from hornbeam.data.containers.from_numpy import ArrayTable
from hornbeam.data.dmatrix import DataSplitMode
from hornbeam.data.dmatrix import DMatrix as _DMatrix
from hornbeam.data.labels import FIELDS
from hornbeam.data.quantile_dmatrix import (
    ExtMemQuantileDMatrix as _ExtMemQuantileDMatrix,
)
from hornbeam.data.quantile_dmatrix import QuantileDMatrix as _QuantileDMatrix
from hornbeam.data.row_blocks import has_infinite
from hornbeam.data.schema import FEATURE_TYPES, listed, time_kind
from hornbeam.distributed.group import training_group
from hornbeam.distributed.group_matrix import bin_external_part, bin_matrix
from hornbeam.errors import DataError, ErrorCode
from hornbeam.xgboost.categories import Categories
from hornbeam.xgboost.compat import (
    is_dataframe,
    numeric_labels,
    to_frame,
    to_known,
)
from hornbeam.xgboost.data import DataIter, KeptBatches
from hornbeam.xgboost.deprecation import deprecate_positional_args
from hornbeam.xgboost.error_messages import with_xgboost_messages
from hornbeam.xgboost.meta_info import MetaInfo

if TYPE_CHECKING:
    from hornbeam.binning.bin_table import Binned
    from hornbeam.binning.cuts import Cuts
    from hornbeam.data.opening import CacheOptions
    from hornbeam.data.table import Table

__all__ = [
    "DMatrix",
    "DataSplitMode",
    "ExtMemQuantileDMatrix",
    "QuantileDMatrix",
    "without_times",
]

Types = TypeVar("Types")


class DMatrix(_DMatrix):
    """Features with their labels, weights and base margins.

    The arguments and defaults are those of `hornbeam.DMatrix`, except that
    `enable_categorical` is False by default. Getters return float32.
    """

    __module__ = "hornbeam.xgboost.core"  # by which packages recognise it

    # In XGBoost `approx` also trains on batches with a cache.
    _sorts_with_cache = True
    # In XGBoost training raises the error.
    _needs_columns = False
    _kind_of_info = MetaInfo

    @deprecate_positional_args
    @with_xgboost_messages
    def __init__(
        self,
        data: Any,
        label: Any = None,
        *,
        weight: Any = None,
        base_margin: Any = None,
        missing: float | None = None,
        silent: bool = False,
        feature_names: Sequence[str] | None = None,
        feature_types: Sequence[str] | Categories | None = None,
        nthread: int | None = None,
        group: Any = None,
        qid: Any = None,
        label_lower_bound: Any = None,
        label_upper_bound: Any = None,
        feature_weights: Any = None,
        enable_categorical: bool = False,
        data_split_mode: DataSplitMode = DataSplitMode.ROW,
    ) -> None:
        if getattr(data, "cache_prefix", "") is None:  # an iterator without a cache
            data = KeptBatches(data)
        super().__init__(
            to_known(to_frame(data)),
            numeric_labels(label),
            weight=weight,
            base_margin=base_margin,
            missing=missing,
            silent=silent,
            feature_names=feature_names,
            feature_types=without_times(feature_types),
            nthread=nthread,
            group=group,
            qid=qid,
            label_lower_bound=label_lower_bound,
            label_upper_bound=label_upper_bound,
            feature_weights=feature_weights,
            enable_categorical=enable_categorical
            or _has_categorical_types(data, feature_types),
            data_split_mode=data_split_mode,
        )
        self._set_arguments(missing, silent)
        _check_enabled(data, self.table, enable_categorical)
        self.table.checks_rows = False
        if not self.table.is_stream and has_infinite(self.table):
            raise DataError(
                "Input data contains `inf` or a value too large, while `missing` is "
                "not set to `inf`",
                code=ErrorCode.FEATURE_NOT_FINITE,
            )

    def _set_arguments(self, missing: float | None, silent: bool) -> None:
        self.missing = np.nan if missing is None else missing
        self.silent = silent

    set_info = deprecate_positional_args(with_xgboost_messages(_DMatrix.set_info))

    @property
    def feature_names(self) -> list[str] | None:
        """The feature names; None if there are none."""
        return super().feature_names

    @feature_names.setter
    @with_xgboost_messages
    def feature_names(self, names: Sequence[str] | None) -> None:
        cast(Any, super(DMatrix, type(self))).feature_names.fset(self, names)

    @property
    def feature_types(self) -> list[str] | None:
        """The feature types; None if they are not known."""
        return super().feature_types

    @feature_types.setter
    @with_xgboost_messages
    def feature_types(self, types: Sequence[str] | None) -> None:
        cast(Any, super(DMatrix, type(self))).feature_types.fset(
            self, without_times(types)
        )

    @with_xgboost_messages
    def set_float_info(self, field: str, data: Any) -> None:
        """Set a float field, such as ``"weight"``, by its name."""
        super().set_float_info(field, data)

    @with_xgboost_messages
    def set_uint_info(self, field: str, data: Any) -> None:
        """Set the query groups by ``"group"`` (their sizes) or ``"qid"``."""
        if field == "group_ptr":
            raise DataError(
                "the field 'group_ptr' can only be read; set 'group' or 'qid'",
                code=ErrorCode.UNKNOWN_FIELD,
                name=field,
            )
        super().set_uint_info(field, data)

    @with_xgboost_messages
    def get_float_info(self, field: str) -> npt.NDArray[Any]:
        """Return a float field as it was set, in float32; or ``"group_ptr"``."""
        if field == "group_ptr":
            return super().get_uint_info(field)
        return super().get_float_info(field).astype(np.float32)

    def get_categories(self, export_to_arrow: bool = False) -> Categories:
        """Return the categories of each feature.

        Parameters
        ----------
        export_to_arrow
            Whether `to_arrow` of the result may be called.
        """
        return Categories.exported(
            super().get_categories(),
            self.feature_names,
            self.n_features,
            export_to_arrow,
        )

    def get_data(self) -> Any:
        """Return the features as a SciPy CSR matrix without missing values."""
        return super().get_data().astype(np.float32)

    @with_xgboost_messages
    def get_uint_info(self, field: str) -> npt.NDArray[Any]:
        """Return ``"group_ptr"``: the first row of each group, and the row count.

        A float field is returned as by `get_float_info`.
        """
        if field in FIELDS:
            return self.get_float_info(field)
        return super().get_uint_info(field)

    @with_xgboost_messages
    def get_quantile_cut(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (pointers, values) of the cuts, with a lower bound for each column."""
        pointers, values = super().get_quantile_cut()
        return pointers, values.astype(np.float32)

    def _fill(
        self,
        table: Table,
        nthread: int | None,
        sketch: str,
        options: CacheOptions | None = None,
    ) -> None:
        if options is not None:
            # As in XGBoost, several matrices may have the same prefix.
            prefix = os.fspath(cast(str, options.folders))
            options = replace(options, folders=_own_folder(self, prefix))
        super()._fill(table, nthread, sketch, options)

    def _build_external(
        self, options: CacheOptions, max_bin: int, nthread: int
    ) -> Binned:
        # As in XGBoost, a matrix of batches can be binned again: in another folder.
        others = {m: kept for m, kept in self._binned.items() if m != max_bin}
        if others:
            folder = _own_folder(self, f"{options.folders}-{max_bin}")
            options = replace(options, folders=folder)
        for other in others:
            del self._binned[other]
        try:
            return super()._build_external(options, max_bin, nthread)
        finally:
            self._binned = {**others, **self._binned}

    def _bin(self, max_bin: int, nthread: int) -> Binned:
        group = training_group()
        if group is not None:
            return bin_matrix(group, self, max_bin, nthread)
        if self.n_rows == 0:
            no_rows = np.empty(0, np.intp)
            return self.missing_row().binned(max_bin, nthread).take(no_rows)
        return super()._bin(max_bin, nthread)

    def missing_row(self) -> _DMatrix:
        """Return a matrix of one row of missing values, which trains as no rows."""
        table = ArrayTable(
            np.full((1, self.n_features), np.nan, np.float32),
            names=self.table.names,
            types=self.table.types,
            categories=self.table.categories,
        )
        return _DMatrix.of_table(table, {})

    @with_xgboost_messages
    def slice(self, rindex: Any, allow_groups: bool = False) -> _DMatrix:
        """Return a new matrix of the given rows, in their order.

        Parameters
        ----------
        rindex
            Row indices.
        allow_groups
            Whether the matrix may have query groups.
        """
        part = super().slice(rindex, allow_groups)
        cast(DMatrix, part)._set_arguments(self.missing, self.silent)
        return part


class QuantileDMatrix(DMatrix, _QuantileDMatrix):  # type: ignore[misc]
    """A matrix that stores features only as bin indices, which takes less memory.

    The arguments are those of `hornbeam.QuantileDMatrix`.
    """

    __module__ = "hornbeam.xgboost.core"  # by which packages recognise it
    _needs_columns = True

    @deprecate_positional_args
    @with_xgboost_messages
    def __init__(
        self,
        data: Any,
        label: Any = None,
        *,
        weight: Any = None,
        base_margin: Any = None,
        missing: float | None = None,
        silent: bool = False,
        feature_names: Sequence[str] | None = None,
        feature_types: Sequence[str] | None = None,
        nthread: int | None = None,
        max_bin: int | None = None,
        ref: _DMatrix | None = None,
        group: Any = None,
        qid: Any = None,
        label_lower_bound: Any = None,
        label_upper_bound: Any = None,
        feature_weights: Any = None,
        enable_categorical: bool = False,
        max_quantile_batches: int | None = None,
        data_split_mode: DataSplitMode = DataSplitMode.ROW,
    ) -> None:
        _QuantileDMatrix.__init__(
            self,
            to_frame(data),
            numeric_labels(label),
            weight=weight,
            base_margin=base_margin,
            missing=missing,
            silent=silent,
            feature_names=feature_names,
            feature_types=without_times(feature_types),
            nthread=nthread,
            max_bin=max_bin,
            ref=ref,
            group=group,
            qid=qid,
            label_lower_bound=label_lower_bound,
            label_upper_bound=label_upper_bound,
            feature_weights=feature_weights,
            enable_categorical=enable_categorical
            or _has_categorical_types(data, feature_types),
            max_quantile_batches=max_quantile_batches,
            data_split_mode=data_split_mode,
        )
        self._set_arguments(missing, silent)
        _check_enabled(data, self.table, enable_categorical)

    def _bin_like(
        self, ref: _DMatrix, max_bin: int | None, unseen: str
    ) -> tuple[int, Binned]:
        if ref.n_features != self.n_features:
            raise DataError(
                "Invalid ref DMatrix, different number of features. The reference has "
                f"{ref.n_features} columns, and this data {self.n_features}",
                code=ErrorCode.FEATURE_COUNT_MISMATCH,
            )
        types = ref.feature_types or []
        if "c" in types and "c" not in (self.table.types or ()):
            # Numbers are category codes of the reference.
            self.table.retype(types)
        return super()._bin_like(ref, max_bin, unseen)


class ExtMemQuantileDMatrix(  # type: ignore[misc]
    DMatrix, _ExtMemQuantileDMatrix
):
    """A matrix in external memory: bin indices of features in blocks on disk.

    The arguments are those of `hornbeam.ExtMemQuantileDMatrix`. The cache is a folder
    whose name begins with the `cache_prefix` of the `DataIter`; without one it is a
    temporary folder. It is removed with the matrix.
    """

    __module__ = "hornbeam.xgboost.core"  # by which packages recognise it

    @deprecate_positional_args
    @with_xgboost_messages
    def __init__(
        self,
        data: DataIter,
        *,
        missing: float | None = None,
        nthread: int | None = None,
        max_bin: int | None = None,
        ref: _DMatrix | None = None,
        enable_categorical: bool = False,
        max_quantile_batches: int | None = None,
        cache_host_ratio: float | None = None,
    ) -> None:
        _ExtMemQuantileDMatrix.__init__(
            self,
            data,
            cache=None if data.cache_prefix else _default_prefix(),
            missing=missing,
            nthread=nthread,
            max_bin=max_bin,
            ref=ref,
            enable_categorical=enable_categorical,
            max_quantile_batches=max_quantile_batches,
            cache_host_ratio=cache_host_ratio,
        )
        self._set_arguments(missing, False)

    def _bin_with_cuts(self, cuts: Cuts) -> Binned:
        if training_group() is None:
            return super()._bin_with_cuts(cuts)
        return bin_external_part(self, cuts)


def _has_categorical_types(
    data: Any, feature_types: Sequence[str] | Categories | None
) -> bool:
    """Return whether `feature_types` declare categories; True if data is no frame."""
    if not is_dataframe(data):
        return True
    return isinstance(feature_types, Sequence) and "c" in feature_types


def without_times(types: Types) -> Types:
    """Return feature types, or raise a `DataError` for those of times.

    XGBoost has no types of times.
    """
    named = types if isinstance(types, list | tuple) else ()
    for feature, kind in enumerate(named):
        if time_kind(named, feature):
            raise DataError(
                f"feature_types has {kind!r} for column {feature}; a type is one of "
                f"{listed(FEATURE_TYPES)}; hornbeam.DMatrix has dates='expand'",
                code=ErrorCode.INVALID_FEATURE_TYPE,
            )
    return types


def _check_enabled(data: Any, table: Table, enable_categorical: bool) -> None:
    """Raise a `DataError` if a frame has categories that are not enabled.

    Types of numeric columns as categories need not be enabled.
    """
    if is_dataframe(data) and not table.categories.empty():
        check_categorical(table, enable_categorical)


def _default_prefix() -> str:
    return os.path.join(tempfile.gettempdir(), "hornbeam")


def _own_folder(owner: object, prefix: str) -> str:
    """Return a new folder ``prefix-...`` that is removed with its owner."""
    parent = os.path.dirname(os.path.abspath(prefix))
    os.makedirs(parent, exist_ok=True)
    folder = tempfile.mkdtemp(prefix=f"{os.path.basename(prefix)}-", dir=parent)
    weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)
    return folder
