"""Matrices that keep bins instead of features, in memory or in external memory."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from hornbeam.binning.bin_table import Binned, BinnedTable, bin_with_cuts
from hornbeam.binning.external_build import build_external_with_cuts
from hornbeam.data.align import align
from hornbeam.data.categories import Categories
from hornbeam.data.dmatrix import DMatrix, categorical, column_order
from hornbeam.data.opening import Folders, named_cache
from hornbeam.data.schema import check_types
from hornbeam.data.table import Table
from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.params import Parameters

__all__ = ["ExtMemQuantileDMatrix", "QuantileDMatrix", "check_quantile_arguments"]


class QuantileDMatrix(DMatrix):
    """Features kept only as codes of their bins: less memory than a `DMatrix`.

    Rows read back from it hold one value for each bin, the lower edge, so that a tree
    grown on the same cuts sends them the same way.

    Parameters
    ----------
    max_bin
        Bins of a column, 256 by default; training must ask for the same number.
    ref
        The matrix whose cuts to use: for validation, that of the training.
    unseen
        With `ref`, what to do with categories that it does not have: ``"error"``, or
        ``"missing"`` to take them for missing values.
    max_quantile_batches
        Taken for XGBoost's sake: no more than one batch is held at a time.
    data, label, weight, base_margin, missing, silent, feature_names, feature_types, \
nthread, group, qid, label_lower_bound, label_upper_bound, feature_weights, \
enable_categorical, data_split_mode, sketch
        As for `DMatrix`.
    """

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
        max_bin: int | None = None,
        ref: DMatrix | None = None,
        group: Any = None,
        qid: Any = None,
        label_lower_bound: Any = None,
        label_upper_bound: Any = None,
        feature_weights: Any = None,
        enable_categorical: bool = True,
        max_quantile_batches: int | None = None,
        data_split_mode: int = 0,
        sketch: str = "exact",
        unseen: str = "error",
    ) -> None:
        check_quantile_arguments(max_quantile_batches, ref)
        if (cache := named_cache(data)) is not None:
            raise DataError(
                f"the data names the cache {cache!r}, but a QuantileDMatrix has its "
                "codes in memory; make an ExtMemQuantileDMatrix, or leave the cache "
                "out",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )
        super().__init__(
            data,
            label,
            weight=weight,
            base_margin=base_margin,
            missing=missing,
            silent=silent,
            feature_names=feature_names,
            feature_types=feature_types,
            nthread=nthread,
            group=group,
            qid=qid,
            label_lower_bound=label_lower_bound,
            label_upper_bound=label_upper_bound,
            feature_weights=feature_weights,
            enable_categorical=enable_categorical,
            data_split_mode=data_split_mode,
            sketch=sketch,
        )
        self._keep_codes(max_bin, ref, unseen)

    def _keep_codes(
        self, max_bin: int | None, ref: DMatrix | None, unseen: str
    ) -> None:
        """Put the codes in the place of the features."""
        self._ref = None if ref is None else weakref.ref(ref)
        if ref is None:
            self.max_bin = Parameters.resolve({"max_bin": max_bin}).max_bin
            codes = self._bin(self.max_bin, self.nthread)
        else:
            self.max_bin, codes = self._bin_like(ref, max_bin, unseen)
        self._hold(codes)

    def _hold(self, codes: Binned) -> None:
        self._codes = codes
        self._binned[self.max_bin] = self.row_weights, codes
        self.table = BinnedTable(codes, self.schema)
        self.dtype = self.table.dtype

    @staticmethod
    def of_rows(
        data: DMatrix, rows: npt.NDArray[np.intp], max_bin: int, nthread: int = 0
    ) -> QuantileDMatrix:
        """Return some rows of a matrix with the codes that they have in it.

        It has all that goes with these rows, and nothing is binned anew.
        """
        part = QuantileDMatrix.__new__(QuantileDMatrix)
        part._fill(data.table, data.nthread, data.sketch)
        part._order, part._ref, part.max_bin = data._order, None, max_bin
        part._hold(data.binned(max_bin, nthread).take(rows))
        part.n_rows, part.info = len(rows), data.info.take(rows)
        return part

    @property
    def ref(self) -> DMatrix | None:
        """The matrix whose cuts were used, as long as it lives."""
        return None if self._ref is None else self._ref()

    def _bin_like(
        self, ref: DMatrix, max_bin: int | None, unseen: str
    ) -> tuple[int, Binned]:
        table = align(self.table, ref.schema, unseen)
        self._order = column_order(self.table, table)
        self.table = table
        if max_bin is None and isinstance(ref, QuantileDMatrix):
            max_bin = ref.max_bin
        max_bin = Parameters.resolve({"max_bin": max_bin}).max_bin
        cuts = ref.binned(max_bin, self.nthread).cuts
        if self._caching is not None:
            codes = build_external_with_cuts(
                self.table, cuts, self._caching, self.nthread
            )
            return max_bin, codes
        return max_bin, bin_with_cuts(self.table, cuts, n_threads=self.nthread)

    def binned(self, max_bin: int, nthread: int = 0) -> Binned:
        """Return the codes; `max_bin` must be that of the construction."""
        if max_bin != self.max_bin:
            raise DataError(
                f"this {type(self).__name__} was made with max_bin={self.max_bin} and "
                f"cannot serve max_bin={max_bin}; use the same number for both, and "
                "make validation sets with ref=",
                code=ErrorCode.MAX_BIN_MISMATCH,
            )
        return self._codes

    def sorted_columns(self, nthread: int = 0) -> NoReturn:
        """Raise an error: the values are not there any more."""
        raise DataError(
            "tree_method 'exact' and 'approx' need the values themselves, and a "
            f"{type(self).__name__} has only the bins they are in; make a DMatrix, or "
            "use tree_method='hist'",
            code=ErrorCode.RAW_VALUES_NEEDED,
        )

    @property
    def feature_types(self) -> list[str] | None:
        """Types of the columns; None if they are not known."""
        return self.table.types

    @feature_types.setter
    def feature_types(self, types: Sequence[str] | None) -> None:
        types = check_types(types, self.n_features)
        if categorical(types) != categorical(self.table.types):
            raise DataError(
                "which columns of a QuantileDMatrix are categorical is settled by its "
                "codes; make it anew with feature_types=",
                code=ErrorCode.META_INFO_SETTLED,
            )
        self.table.retype(types)

    def slice(self, rindex: Any, allow_groups: bool = False) -> NoReturn:
        """Raise an error: the features are not there any more."""
        raise DataError(
            "a QuantileDMatrix no longer has the rows to slice; slice a DMatrix, "
            "or the data before",
            code=ErrorCode.RAW_VALUES_DROPPED,
        )

    def save_binary(self, fname: str | os.PathLike[str], silent: bool = True) -> None:
        """Raise an error: the features are not there any more."""
        raise DataError(
            "a QuantileDMatrix no longer has the features to save; save a DMatrix of "
            "the same data",
            code=ErrorCode.RAW_VALUES_DROPPED,
        )

    def _over(self, table: Table, kind: type[DMatrix]) -> DMatrix:
        return super()._over(table, _AlignedCodes)


class _AlignedCodes(DMatrix):
    """A QuantileDMatrix with other columns or codes of categories: read, not learnt."""

    def binned(self, max_bin: int, nthread: int = 0) -> NoReturn:
        raise DataError(
            "this QuantileDMatrix was binned with other columns or categories than the "
            "model's; make it with ref= the matrix that the model was trained on",
            code=ErrorCode.INVALID_REF,
        )


def check_quantile_arguments(count: int | None, ref: DMatrix | None) -> None:
    """Raise a `DataError` if max_quantile_batches or ref cannot be what they are."""
    if ref is not None and not isinstance(ref, DMatrix):
        raise DataError(
            f"ref must be a DMatrix or QuantileDMatrix, not {type(ref).__name__}",
            code=ErrorCode.INVALID_REF,
        )
    whole = isinstance(count, (int, np.integer)) and not isinstance(count, bool)
    if count is not None and not (whole and count > 0):
        raise DataError(
            f"max_quantile_batches must be a whole number above 0, not {count!r}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )


class ExtMemQuantileDMatrix(QuantileDMatrix):
    """Features kept only as codes of their bins, in blocks on disk.

    Neither the features nor the codes are ever held whole, so both may be larger than
    memory; the model is the same as from any other matrix. The next matrix of the same
    data and cache uses the blocks that are there. As long as the matrix lives, the data
    is held, too: a damaged block is made again from it.

    Parameters
    ----------
    cache
        A folder for the blocks, or several on different disks. By default the
        `cache_prefix` of a `DataIter`.
    memory_limit
        The most memory that the process may take while cuts are found, blocks are
        written and trees are grown, such as ``"2GB"``; in bytes if it is a number.
    codec
        How codes are laid down: ``"raw"``, ``"nibble"`` (columns of few bins, two
        codes a byte), ``"lz4"``, or ``"auto"``, what pays for each column.
    cache_host_ratio
        Taken for XGBoost's sake: how it parts pages between a device's memory and the
        host's.
    data, label, weight, base_margin, missing, silent, feature_names, feature_types, \
nthread, max_bin, ref, group, qid, label_lower_bound, label_upper_bound, \
feature_weights, enable_categorical, max_quantile_batches, data_split_mode, sketch, \
unseen
        As for `QuantileDMatrix`.
    """

    def __init__(
        self,
        data: Any,
        label: Any = None,
        *,
        cache: Folders | None = None,
        memory_limit: int | str | None = None,
        codec: str = "auto",
        weight: Any = None,
        base_margin: Any = None,
        missing: float | None = None,
        silent: bool = False,
        feature_names: Sequence[str] | None = None,
        feature_types: Sequence[str] | Categories | None = None,
        nthread: int | None = None,
        max_bin: int | None = None,
        ref: DMatrix | None = None,
        group: Any = None,
        qid: Any = None,
        label_lower_bound: Any = None,
        label_upper_bound: Any = None,
        feature_weights: Any = None,
        enable_categorical: bool = True,
        max_quantile_batches: int | None = None,
        cache_host_ratio: float | None = None,
        data_split_mode: int = 0,
        sketch: str = "exact",
        unseen: str = "error",
    ) -> None:
        check_quantile_arguments(max_quantile_batches, ref)
        _check_ratio(cache_host_ratio)
        if cache is None and named_cache(data) is None:
            raise ParameterError(
                "an ExtMemQuantileDMatrix has its codes on disk; name a folder for "
                "them: cache=, or the cache_prefix of the DataIter",
                code=ErrorCode.MISSING_PARAMETER,
            )
        # As QuantileDMatrix does, which has no cache.
        DMatrix.__init__(
            self,
            data,
            label,
            weight=weight,
            base_margin=base_margin,
            missing=missing,
            silent=silent,
            feature_names=feature_names,
            feature_types=feature_types,
            nthread=nthread,
            group=group,
            qid=qid,
            label_lower_bound=label_lower_bound,
            label_upper_bound=label_upper_bound,
            feature_weights=feature_weights,
            enable_categorical=enable_categorical,
            data_split_mode=data_split_mode,
            sketch=sketch,
            cache=cache,
            memory_limit=memory_limit,
            codec=codec,
        )
        self._keep_codes(max_bin, ref, unseen)


def _check_ratio(ratio: Any) -> None:
    is_number = isinstance(ratio, (int, float)) and not isinstance(ratio, bool)
    if ratio is not None and not (is_number and 0 <= ratio <= 1):
        raise ParameterError(
            f"cache_host_ratio must be from 0 to 1, not {ratio!r}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )
