"""Matrices that keep bins instead of features, in memory or in external memory."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from hornbeam.binning.bin_table import Binned, BinnedTable, bin_with_cuts
from hornbeam.binning.cuts import Cuts
from hornbeam.data.align import align
from hornbeam.data.categories import Categories
from hornbeam.data.dmatrix import DMatrix, categorical, column_order
from hornbeam.data.opening import Folders, named_cache
from hornbeam.data.schema import Schema, check_types, times_of
from hornbeam.data.table import Table
from hornbeam.errors import DataError, ErrorCode, ParameterError, short_traceback
from hornbeam.lazy import extension
from hornbeam.params import Parameters

__all__ = ["ExtMemQuantileDMatrix", "QuantileDMatrix", "check_quantile_arguments"]


class QuantileDMatrix(DMatrix):
    """A matrix that keeps only the bins of features: less memory than a `DMatrix`.

    Decoded rows hold the lower end of each bin, so that trees grown on the same cuts
    send them to the same leaves.

    Parameters
    ----------
    max_bin
        Maximum number of bins of a column, 256 by default. Training must use the same
        number.
    ref
        The matrix whose cuts are used: for validation data, the training matrix.
    unseen
        With `ref`, how to treat categories that it does not have: ``"error"``, or
        ``"missing"`` to read them as missing values.
    max_quantile_batches
        Accepted for compatibility with XGBoost; one batch is in memory at a time.
    data, label, weight, base_margin, missing, silent, feature_names, feature_types, \
nthread, group, qid, label_lower_bound, label_upper_bound, feature_weights, \
row_key, enable_categorical, data_split_mode, sketch, dates
        As for `DMatrix`. With `ref`, times have the parts that are features of `ref`.

    Examples
    --------
    >>> import hornbeam
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((1000, 5))
    >>> y = X[:, 0] + X[:, 1] ** 2
    >>> data = hornbeam.QuantileDMatrix(X[:800], y[:800], max_bin=64)
    >>> held_out = hornbeam.QuantileDMatrix(X[800:], y[800:], ref=data)
    >>> booster = hornbeam.train(
    ...     {"max_bin": 64}, data, evals=[(held_out, "held_out")], verbose_eval=False
    ... )
    >>> float(booster.eval(held_out).split(":")[1]) < 0.5
    True
    """

    @short_traceback
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
        row_key: Any = None,
        enable_categorical: bool = True,
        max_quantile_batches: int | None = None,
        data_split_mode: int = 0,
        sketch: str = "exact",
        unseen: str = "error",
        dates: str = "error",
    ) -> None:
        check_quantile_arguments(max_quantile_batches, ref)
        if (cache := named_cache(data)) is not None:
            raise DataError(
                f"the data names the cache {cache!r}, but a QuantileDMatrix keeps its "
                "bins in memory; make an ExtMemQuantileDMatrix, or leave the cache out",
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
            row_key=row_key,
            enable_categorical=enable_categorical,
            data_split_mode=data_split_mode,
            sketch=sketch,
            dates=dates,
        )
        self._replace_by_bins(max_bin, ref, unseen)

    def _replace_by_bins(
        self, max_bin: int | None, ref: DMatrix | None, unseen: str
    ) -> None:
        """Bin the features and drop their values."""
        self._ref = None if ref is None else weakref.ref(ref)
        if ref is None:
            self.max_bin = Parameters.resolve({"max_bin": max_bin}).max_bin
            if times_of(self.schema):
                self.use_derived(*extension("expand_times")(self))
            binned = self._bin(self.max_bin, self.nthread)
        else:
            self.max_bin, binned = self._bin_like(ref, max_bin, unseen)
        self._set_bins(binned)

    def _set_bins(self, binned: Binned) -> None:
        self._bins = binned
        self._binned[self.max_bin] = None, binned
        self.table = BinnedTable(binned, self.schema)
        self.dtype = self.table.dtype

    @staticmethod
    def of_rows(
        data: DMatrix, rows: npt.NDArray[np.intp], max_bin: int, nthread: int = 0
    ) -> QuantileDMatrix:
        """Return some rows of a matrix with their bins, labels and other fields.

        Nothing is binned again.
        """
        bins = data.binned(max_bin, nthread).take(rows)
        part = QuantileDMatrix.of_bins(data, data.schema, bins, max_bin)
        part.n_rows, part.info = len(rows), data.info.take(rows)
        part._order, part.derived = data._order, data.derived
        return part

    @staticmethod
    def of_bins(
        data: DMatrix, schema: Schema, bins: Binned, max_bin: int
    ) -> QuantileDMatrix:
        """Return a matrix of bins that were made from the rows of another matrix."""
        part = QuantileDMatrix.__new__(QuantileDMatrix)
        part._fill(BinnedTable(bins, schema), data.nthread, data.sketch)
        part._ref, part.max_bin = None, max_bin
        part._set_bins(bins)
        return part

    @property
    def ref(self) -> DMatrix | None:
        """The matrix whose cuts were used (a weak reference), or None."""
        return None if self._ref is None else self._ref()

    def _bin_like(
        self, ref: DMatrix, max_bin: int | None, unseen: str
    ) -> tuple[int, Binned]:
        features = None
        if times_of(self.schema) or times_of(ref.raw_schema):
            ref = extension("expanded")(ref)
            features = ref.derived
        expected = ref.schema if features is None else ref.raw_schema
        table = align(self.table, expected, unseen)
        self._order = column_order(self.table, table)
        self.table = table
        if features is not None:
            self.use_derived(*extension("expand_times")(self, features))
        if max_bin is None and isinstance(ref, QuantileDMatrix):
            max_bin = ref.max_bin
        max_bin = Parameters.resolve({"max_bin": max_bin}).max_bin
        cuts = ref.binned(max_bin, self.nthread).cuts
        return max_bin, self._bin_with_cuts(cuts)

    def _bin_with_cuts(self, cuts: Cuts) -> Binned:
        """Return the bins of the features by the cuts of another matrix."""
        if self._cache_options is not None:
            from hornbeam.binning.external_build import build_external_with_cuts

            return build_external_with_cuts(
                self.table, cuts, self._cache_options, self.nthread
            )
        return bin_with_cuts(self.table, cuts, n_threads=self.nthread)

    def binned(self, max_bin: int, nthread: int = 0) -> Binned:
        """Return the bins; `max_bin` must be that of the constructor."""
        if max_bin != self.max_bin:
            raise DataError(
                f"this {type(self).__name__} was made with max_bin={self.max_bin} and "
                f"cannot be used with max_bin={max_bin}; use the same max_bin for "
                "both, and make validation sets with ref=",
                code=ErrorCode.MAX_BIN_MISMATCH,
            )
        return self._bins

    def sorted_columns(self, nthread: int = 0) -> NoReturn:
        """Raise a `DataError`: sorted columns need the values, which are dropped."""
        raise DataError(
            "tree_method 'exact' and 'approx' need the values of features, and a "
            f"{type(self).__name__} keeps only their bins; make a DMatrix, or use "
            "tree_method='hist'",
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
                "the categorical columns of a QuantileDMatrix cannot change after it "
                "is binned; make a new one with feature_types=",
                code=ErrorCode.META_INFO_SETTLED,
            )
        self.table.retype(types)

    def slice(self, rindex: Any, allow_groups: bool = False) -> NoReturn:
        """Raise a `DataError`: the values of features are dropped."""
        raise DataError(
            "a QuantileDMatrix no longer has the rows to slice; slice a DMatrix, or "
            "the data before",
            code=ErrorCode.RAW_VALUES_DROPPED,
        )

    def hash_rows(self) -> NoReturn:
        """Raise a `DataError`: the values of features are dropped."""
        raise DataError(
            "a QuantileDMatrix no longer has the rows to hash; hash those of a DMatrix "
            "of the same data, and pass them as row_key",
            code=ErrorCode.RAW_VALUES_DROPPED,
        )

    def save_binary(self, fname: str | os.PathLike[str], silent: bool = True) -> None:
        """Raise a `DataError`: the values of features are dropped."""
        raise DataError(
            "a QuantileDMatrix no longer has the features to save; save a DMatrix of "
            "the same data",
            code=ErrorCode.RAW_VALUES_DROPPED,
        )

    def _over(self, table: Table, kind: type[DMatrix]) -> DMatrix:
        return super()._over(table, _AlignedBins)


class _AlignedBins(DMatrix):
    """A QuantileDMatrix with aligned columns or category codes, for prediction only."""

    def binned(self, max_bin: int, nthread: int = 0) -> NoReturn:
        raise DataError(
            "this QuantileDMatrix was binned with other columns or categories than the "
            "model's; make it with ref= the matrix that the model was trained on",
            code=ErrorCode.INVALID_REF,
        )


def check_quantile_arguments(count: int | None, ref: DMatrix | None) -> None:
    """Raise a `DataError` if max_quantile_batches or ref is invalid."""
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
    """A matrix that keeps only the bins of features, in external memory.

    Features and bins can be larger than memory. The model is the same as from any other
    matrix. Another matrix of the same data and cache uses the existing blocks. The
    matrix keeps a reference to the data, to rebuild damaged blocks from it.

    Parameters
    ----------
    cache
        Folder for the blocks, or several on different disks. By default the
        `cache_prefix` of a `DataIter`.
    memory_limit
        Maximum memory of the process while cuts are found, blocks are written and trees
        are grown: a string such as ``"2GB"``, or a number of bytes.
    codec
        Codec of the bins: ``"raw"``, ``"nibble"`` (two bins per byte, for columns of
        few bins), ``"lz4"``, or ``"auto"``, the fastest for each column.
    cache_host_ratio
        Accepted for compatibility with XGBoost, which splits pages between device and
        host memory by it.
    data, label, weight, base_margin, missing, silent, feature_names, feature_types, \
nthread, max_bin, ref, group, qid, label_lower_bound, label_upper_bound, \
feature_weights, row_key, enable_categorical, max_quantile_batches, data_split_mode, \
sketch, unseen, dates
        As for `QuantileDMatrix`.

    Examples
    --------
    >>> import hornbeam
    >>> import numpy as np
    >>> import pandas as pd
    >>> X = np.random.default_rng(0).standard_normal((5000, 4))
    >>> table = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    >>> table["y"] = table["a"] > 0
    >>> table.to_csv("table.csv", index=False)
    >>> source = hornbeam.read("table.csv")
    >>> data = hornbeam.ExtMemQuantileDMatrix(source, label="y", cache="blocks")
    >>> data.num_row(), data.num_col()
    (5000, 4)
    >>> params = {"objective": "binary:logistic"}
    >>> booster = hornbeam.train(params, data, 5)
    >>> in_memory = hornbeam.DMatrix(source, label="y")
    >>> hornbeam.train(params, in_memory, 5).digest() == booster.digest()
    True
    """

    @short_traceback
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
        row_key: Any = None,
        enable_categorical: bool = True,
        max_quantile_batches: int | None = None,
        cache_host_ratio: float | None = None,
        data_split_mode: int = 0,
        sketch: str = "exact",
        unseen: str = "error",
        dates: str = "error",
    ) -> None:
        check_quantile_arguments(max_quantile_batches, ref)
        _check_ratio(cache_host_ratio)
        if cache is None and named_cache(data) is None:
            raise ParameterError(
                "an ExtMemQuantileDMatrix keeps its bins on disk; pass a folder for "
                "them: cache=, or cache_prefix of the DataIter",
                code=ErrorCode.MISSING_PARAMETER,
            )
        # The constructor of QuantileDMatrix takes no cache.
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
            row_key=row_key,
            enable_categorical=enable_categorical,
            data_split_mode=data_split_mode,
            sketch=sketch,
            cache=cache,
            memory_limit=memory_limit,
            codec=codec,
            dates=dates,
        )
        self._replace_by_bins(max_bin, ref, unseen)


def _check_ratio(ratio: Any) -> None:
    is_number = isinstance(ratio, (int, float)) and not isinstance(ratio, bool)
    if ratio is not None and not (is_number and 0 <= ratio <= 1):
        raise ParameterError(
            f"cache_host_ratio must be from 0 to 1, not {ratio!r}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )
