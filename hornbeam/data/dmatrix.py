"""DMatrix: features with labels, weights, margins and groups."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from hornbeam.binning.bin_table import Binned, bin_table
from hornbeam.binning.per_tree_bins import PerTreeCuts
from hornbeam.binning.sorted_columns import ColumnBlocks, sort_columns
from hornbeam.data.align import align
from hornbeam.data.categories import Categories
from hornbeam.data.meta_info import MetaInfo
from hornbeam.data.meta_info_accessors import MetaInfoAccessors
from hornbeam.data.opening import CacheOptions, Folders, cache_options, open_features
from hornbeam.data.row_blocks import as_csr, count_entries
from hornbeam.data.row_keys import hash_rows
from hornbeam.data.saved import save_table
from hornbeam.data.schema import Schema
from hornbeam.data.table import Table
from hornbeam.errors import DataError, ErrorCode, short_traceback
from hornbeam.lazy import extension
from hornbeam.params import Parameters

__all__ = ["DMatrix", "DataSplitMode", "categorical", "column_order"]

Floats = npt.NDArray[np.float64]

SKETCHES = ("exact", "approximate")


class DataSplitMode(IntEnum):
    """What is split among workers. Hornbeam only splits rows."""

    ROW = 0
    COL = 1


class DMatrix(MetaInfoAccessors):
    """Features with labels, weights, margins and groups.

    The features are held by reference and never copied as a whole: do not change the
    container while the matrix is in use. Labels, weights and margins are copied as
    float64.

    Parameters
    ----------
    data
        NumPy array, list of rows, pandas, polars or pyarrow data frame, SciPy sparse
        matrix (values that are not stored are missing), any source that is read in
        batches, or the path of a file written by `save_binary`.
    label
        One number per row, or one per row and target.
    weight
        Weight of each row, or of each group of rows; not negative.
    base_margin
        Initial margin of each row, or of each row and output.
    missing
        Number that stands for a missing value, in addition to NaN and null.
    silent
        Accepted for compatibility with XGBoost; nothing is printed.
    feature_names
        Names of the columns; None: those of the data frame.
    feature_types
        Types of the columns (``"float"``, ``"int"``, ``"q"``, ``"i"``, and ``"c"`` for
        categorical); None: those of the data frame. Or the `Categories` of another
        matrix, whose codes are then used.
    nthread
        Number of threads for binning; all processors if None or not positive.
    group
        Number of rows in each group, in the order of rows.
    qid
        Group of each row, instead of `group`: integers in ascending order.
    label_lower_bound, label_upper_bound
        Bounds of the label of each row; -inf and inf: unbounded. A string as label,
        weight, base_margin, qid, row_key or one of these is the name of a column of
        `data`, which is then not a feature.
    feature_weights
        Probability weight of each column in column sampling; not negative.
    row_key
        Whole number or text of each row, by which `subsample` draws it, instead of its
        place in the data: then the order of the rows does not change the model. Rows of
        equal keys are drawn together. See `hash_rows`.
    enable_categorical
        Whether to accept categorical columns; otherwise they raise an error.
    data_split_mode
        Only 0: rows are split among workers, not columns.
    sketch
        ``"exact"`` cuts columns at exact quantiles; ``"approximate"`` needs fewer
        passes over data that is slow to read.
    cache
        Folder, or several on different disks, for bins in external memory. Bins of the
        same data that are there are used again. As in XGBoost, the data can name the
        folder, too: ``"file#folder"``, or `cache_prefix` of a `DataIter`.
    memory_limit
        With a cache, maximum memory of the process: a string such as ``"2GB"``, or a
        number of bytes.
    codec
        With a cache, codec of the bins: ``"raw"``, ``"nibble"`` (two bins per byte, for
        columns of few bins), ``"lz4"``, or ``"auto"``, the fastest for each column.
    dates
        ``"error"``: columns of dates and times are an error. ``"expand"``: trees split
        on year, month, day, weekday and hour, where they vary, on days since 1970, and
        on the seconds of durations. The model computes them from the same columns.

    Examples
    --------
    >>> import hornbeam
    >>> import pandas as pd
    >>> table = pd.DataFrame(
    ...     {
    ...         "age": [31, 45, None, 52],
    ...         "city": pd.Categorical(["Bonn", "Ulm", "Ulm", "Bonn"]),
    ...     }
    ... )
    >>> data = hornbeam.DMatrix(table, label=[0, 1, 1, 0], weight=[1, 1, 2, 1])
    >>> data
    DMatrix(4 rows x 2 columns, 1 categorical, label, weight)
    >>> data.num_row(), data.num_col(), data.num_nonmissing()
    (4, 2, 7)
    >>> data.feature_types
    ['float', 'c']
    >>> data.slice([0, 2]).get_label()
    array([0., 1.])
    """

    #: The class of `info`.
    _kind_of_info: type[MetaInfo] = MetaInfo
    #: Whether sorted columns may be kept in memory if bins are in external memory.
    _sorts_with_cache = False
    #: Whether features without columns are an error.
    _needs_columns = True

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
        group: Any = None,
        qid: Any = None,
        label_lower_bound: Any = None,
        label_upper_bound: Any = None,
        feature_weights: Any = None,
        row_key: Any = None,
        enable_categorical: bool = True,
        data_split_mode: int = 0,
        sketch: str = "exact",
        cache: Folders | None = None,
        memory_limit: int | str | None = None,
        codec: str = "auto",
        dates: str = "error",
    ) -> None:
        if data_split_mode != DataSplitMode.ROW:
            raise DataError(
                f"data_split_mode={data_split_mode!r} (a split by columns) is not "
                "supported; leave it out",
                code=ErrorCode.UNSUPPORTED_PARAMETER_VALUE,
            )
        if sketch not in SKETCHES:
            raise DataError(
                f"sketch must be one of {SKETCHES}, not {sketch!r}",
                code=ErrorCode.UNKNOWN_OPTION,
            )
        given = {
            "label": label,
            "weight": weight,
            "base_margin": base_margin,
            "group": group,
            "qid": qid,
            "label_lower_bound": label_lower_bound,
            "label_upper_bound": label_upper_bound,
            "feature_weights": feature_weights,
            "row_key": row_key,
        }
        data, options = cache_options(data, cache, memory_limit, codec)
        table, fields = open_features(
            data,
            given,
            missing=missing,
            names=feature_names,
            types=feature_types,
            enable_categorical=enable_categorical,
            content=options is not None,
            needs_columns=self._needs_columns,
            dates=dates,
        )
        self._fill(table, nthread, sketch, options)
        self.info.set(fields)
        if isinstance(table.info, dict):
            # A stream keeps labels to compare later passes with: share one copy.
            for name, values in self.info.fields().items():
                if fields.get(name) is table.info.get(name, values):
                    table.info[name] = values

    def __repr__(self) -> str:
        facts = [f"{self.n_rows:,} rows x {self.n_features:,} columns"]
        categorical = (self.feature_types or []).count("c")
        if categorical:
            facts.append(f"{categorical:,} categorical")
        if self.table.is_stream:
            facts.append("read in batches")
        if self._cache_options is not None:
            facts.append("bins in external memory")
        facts += self.info.fields()
        return f"{type(self).__name__}({', '.join(facts)})"

    def _repr_html_(self) -> str:
        found: str = extension("matrix_html")(self)
        return found

    @staticmethod
    def of_table(table: Table, fields: Mapping[str, Any]) -> DMatrix:
        """Return a matrix of a table and fields of its rows."""
        matrix = DMatrix.__new__(DMatrix)
        matrix._fill(table, None, "exact")
        matrix.info.set(fields, whole=False)
        return matrix

    def _fill(
        self,
        table: Table,
        nthread: int | None,
        sketch: str,
        options: CacheOptions | None = None,
    ) -> None:
        self.table = table
        self._cache_options = options
        self.n_rows = table.n_rows
        self.n_features = table.n_features
        self.dtype = table.dtype
        self.nthread = Parameters.read("nthread", nthread)
        self.sketch = sketch
        self.info = self._kind_of_info(table.n_rows, table.n_features)
        # The index in `info` of each column; None: the same.
        self._order: npt.NDArray[np.intp] | None = None
        self._aligned: tuple[Any, DMatrix] | None = None
        # By max_bin: the weights that the cuts depend on, and the bins.
        self._binned: dict[int, tuple[Floats | None, Binned]] = {}
        self._sorted: ColumnBlocks | None = None
        #: The formulas of the last columns, as a model keeps them; None: all columns
        #: are those of the container (see `hornbeam.features`).
        self.derived: Any = None
        #: The matrix with the parts of times as derived features, once it was made.
        self.expansion: Any = None
        #: The cuts of the tree method ``approx``, if the matrix was trained with it.
        self.tree_cuts: PerTreeCuts | None = None

    def use_derived(self, table: Table, derived: Any) -> None:
        """Use the columns of a table of these rows, of which the last are derived.

        Labels and other fields stay, and so do the weights of the columns.
        """
        self.table, self.derived = table, derived
        self.n_features, self.dtype = table.n_features, table.dtype

    # For training and prediction

    @property
    def schema(self) -> Schema:
        """The number, names, types and categories of the columns."""
        return self.table.schema

    @property
    def raw_schema(self) -> Schema:
        """The schema of the columns of the container, without derived ones."""
        if self.derived is None:
            return self.schema
        schema: Schema = self.derived.raw_schema(self.schema)
        return schema

    @property
    def feature_weights(self) -> Floats | None:
        """Weight of each column in column sampling, (columns,); of derived ones 1."""
        weights = self.info["feature_weights"]
        if weights is None:
            return None
        given = weights if self._order is None else weights[self._order]
        return np.append(given, np.ones(self.n_features - given.size))

    @property
    def cache_options(self) -> CacheOptions | None:
        """Options of bins in external memory; None: they are in memory."""
        return self._cache_options

    def like(self, expected: Schema, unseen: str = "error") -> DMatrix:
        """Return this matrix with the columns and category codes that a model expects.

        Returns the matrix itself if it has them. Otherwise returns another matrix over
        the same features that shares `info` (labels, weights, ...) with this one. It is
        kept for later calls.

        Parameters
        ----------
        expected
            The columns of the model.
        unseen
            How to treat categories that the model does not have: ``"error"``, or
            ``"missing"`` to read them as missing values.
        """
        table = align(self.table, expected, unseen)
        if table is self.table:
            return self
        made_for = self.schema, expected, unseen
        if self._aligned is None or self._aligned[0] != made_for:
            self._aligned = made_for, self._over(table, DMatrix)
        return self._aligned[1]

    def _over(self, table: Table, kind: type[DMatrix]) -> DMatrix:
        """Return a matrix of the same rows and `info` over aligned columns."""
        matrix = kind.__new__(kind)
        matrix._fill(table, self.nthread, self.sketch, self._cache_options)
        matrix.info = self.info
        matrix._order = column_order(self.table, table)
        return matrix

    def binned(self, max_bin: int, nthread: int = 0) -> Binned:
        """Return the bins of the features, made on the first call and kept."""
        if not self.has_bins(max_bin):
            self._binned[max_bin] = self.row_weights, self._bin(max_bin, nthread)
        return self._binned[max_bin][1]

    def has_bins(self, max_bin: int) -> bool:
        """Return whether the bins were made already, with the weights that it has."""
        weights, binned = self._binned.get(max_bin, (None, None))
        return binned is not None and weights is self.row_weights

    def use_bins(self, max_bin: int, binned: Binned) -> None:
        """Use these bins of the features instead of making them."""
        self._binned[max_bin] = self.row_weights, binned

    @property
    def has_sorted_columns(self) -> bool:
        """Whether the sorted columns were made already."""
        return self._sorted is not None

    def sorted_columns(self, nthread: int = 0) -> ColumnBlocks:
        """Return the sorted columns, made on the first call and kept."""
        if self._cache_options is not None and not self._sorts_with_cache:
            raise DataError(
                "tree_method 'exact' and 'approx' keep the values in memory, and this "
                "matrix has a cache for bins on disk; leave the cache out, or use "
                "tree_method='hist'",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )
        self._check_not_empty()
        if self._sorted is None:
            self._sorted = sort_columns(self.table, nthread)
        return self._sorted

    def _bin(self, max_bin: int, nthread: int) -> Binned:
        self._check_not_empty()
        if self._cache_options is not None:
            return self._build_external(self._cache_options, max_bin, nthread)
        return bin_table(
            self.table,
            max_bin,
            weights=self.row_weights,
            n_threads=nthread,
            sketch=self.sketch,
        )

    def _check_not_empty(self) -> None:
        if self.n_rows == 0:
            raise DataError(
                f"there are no rows to learn from (shape (0, {self.n_features})); "
                "pass at least one row",
                code=ErrorCode.EMPTY_DATA,
            )

    def _build_external(
        self, options: CacheOptions, max_bin: int, nthread: int
    ) -> Binned:
        """Return the bins in external memory; a cache has those of one `max_bin`."""
        # A training in memory starts without these modules.
        from hornbeam.binning.external import ExternalMatrix
        from hornbeam.binning.external_build import build_external

        before, self._binned = self._binned, {}
        for other, (_, binned) in before.items():
            if other != max_bin:
                self._binned = before
                raise DataError(
                    f"the cache of this matrix holds its bins for max_bin={other}, "
                    f"and max_bin={max_bin} needs others; make another matrix, with "
                    "another folder as its cache",
                    code=ErrorCode.CACHE_MISMATCH,
                )
            if isinstance(binned, ExternalMatrix):  # with other weights
                binned.close()
        return build_external(
            self.table,
            max_bin,
            options,
            weights=self.row_weights,
            n_threads=nthread,
            sketch=self.sketch,
        )

    def rows(
        self, start: int, stop: int, features: npt.NDArray[np.intp] | None = None
    ) -> np.ndarray:
        """Return the rows `start` to `stop - 1`, with NaN for missing values.

        Do not write to the array. With `features`, returns these columns in this order.
        """
        return self.table.rows(start, stop, features)

    def hash_rows(self) -> npt.NDArray[np.uint64]:
        """Return a hash of the values of each row, (rows,), which can be its `row_key`.

        Features, label, weight and all other fields of the row are hashed. Equal rows
        have equal hashes.
        """
        return hash_rows(self.table, self.info.fields())

    # Features

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the columns, or None."""
        return self.table.names

    @feature_names.setter
    def feature_names(self, names: Sequence[str] | None) -> None:
        self.table.rename(names)

    @property
    def feature_types(self) -> list[str] | None:
        """Types of the columns, or None if unknown."""
        return self.table.types

    @feature_types.setter
    def feature_types(self, types: Sequence[str] | None) -> None:
        before = self.table.types
        self.table.retype(types)
        if categorical(before) != categorical(self.table.types):
            self._binned.clear()
            self._sorted = None

    def get_categories(self, export_to_arrow: bool = False) -> Categories:
        """Return the names of the categories of each column.

        `export_to_arrow` is accepted for compatibility with XGBoost; they can always be
        exported.
        """
        return self.table.categories

    def num_row(self) -> int:
        """Return the number of rows."""
        return self.n_rows

    def num_col(self) -> int:
        """Return the number of columns."""
        return self.n_features

    def num_nonmissing(self) -> int:
        """Return the number of values that are not missing."""
        return count_entries(self.table)

    def data_split_mode(self) -> DataSplitMode:
        """Return what is split among workers: rows."""
        return DataSplitMode.ROW

    @short_traceback
    def get_data(self) -> Any:
        """Return the features as a SciPy CSR matrix without the missing values."""
        return as_csr(self.table)

    @short_traceback
    def get_quantile_cut(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (pointers, values): for each column a lower bound and its cuts.

        For a categorical column, the values are the codes of its categories. If the
        matrix was binned several times, they are those of the first binning; with the
        tree method ``approx`` those of the last tree.
        """
        if self._binned:
            cuts = next(iter(self._binned.values()))[1].cuts
        elif self.tree_cuts is not None:
            cuts = self.tree_cuts.cuts
        else:
            raise DataError(
                "this DMatrix has no cuts before training; train with it, or make a "
                "QuantileDMatrix",
                code=ErrorCode.CUTS_MISSING,
            )
        is_categorical = np.zeros(self.n_features, np.bool_)
        is_categorical[categorical(self.table.types)] = True
        values = np.insert(cuts.values, cuts.pointers[:-1], cuts.minimums)
        counts = cuts.n_bins + 1
        # The last cut of a categorical column is the number of codes, not a code.
        ends = np.cumsum(counts)[is_categorical] - 1
        values = np.delete(values, ends)
        pointers = np.concatenate([[0], np.cumsum(counts - is_categorical)])
        return pointers.astype(np.uint64), values.astype(self.dtype)

    @short_traceback
    def slice(self, rindex: Any, allow_groups: bool = False) -> DMatrix:
        """Return a new matrix of some rows, in the order given.

        Parameters
        ----------
        rindex
            Indices of the rows.
        allow_groups
            Whether to take rows of a matrix with groups. The rows that are taken from a
            group form a group, so they must be adjacent.
        """
        if self.info.group_ptr is not None and not allow_groups:
            raise DataError(
                "this matrix has groups; pass allow_groups=True to slice it",
                code=ErrorCode.SLICE_OF_GROUPS,
            )
        rows = self.row_numbers(rindex)
        part = type(self).__new__(type(self))
        part._fill(self.table.take(rows), self.nthread, self.sketch)
        part.table.rename(self.feature_names)
        part.table.retype(self.feature_types)
        part.info, part._order = self.info.take(rows), self._order
        part.derived = self.derived
        return part

    def row_numbers(self, rindex: Any) -> npt.NDArray[np.intp]:
        """Return row indices as an integer array, or raise a `DataError`."""
        rows = np.asarray(rindex)
        if rows.size == 0:
            return np.empty(0, np.intp)
        if rows.dtype.kind == "b":
            raise DataError(
                "rindex must hold numbers of rows, not booleans; "
                "pass numpy.flatnonzero(mask)",
                code=ErrorCode.INVALID_ROW_INDEX,
            )
        if rows.dtype.kind not in "iu" or rows.ndim != 1:
            raise DataError(
                f"rindex must be a list of row numbers, not {rows.dtype} of shape "
                f"{rows.shape}",
                code=ErrorCode.INVALID_ROW_INDEX,
            )
        outside = (rows < 0) | (rows >= self.n_rows)
        if outside.any():
            raise DataError(
                f"there is no row {rows[outside][0]}; "
                f"rows are numbered 0 to {self.n_rows - 1}",
                code=ErrorCode.INVALID_ROW_INDEX,
            )
        return rows.astype(np.intp)

    @short_traceback
    def save_binary(self, fname: str | os.PathLike[str], silent: bool = True) -> None:
        """Write the matrix, with all fields, to a file that `DMatrix` can read.

        The file is replaced atomically. `silent` is accepted for compatibility with
        XGBoost; nothing is printed.
        """
        save_table(fname, self.table, self.info.fields())

    def __reduce__(self) -> NoReturn:
        raise ValueError(
            f"a {type(self).__name__} cannot be pickled or copied; "
            "pickle the data it was made from, and make it again"
        )


def categorical(types: Sequence[str] | None) -> list[int]:
    """Return which columns are categorical."""
    return [feature for feature, kind in enumerate(types or ()) if kind == "c"]


def column_order(given: Table, aligned: Table) -> npt.NDArray[np.intp] | None:
    """Return the index of each aligned column in `given`; None if all are the same."""
    if not given.names or not aligned.names or given.names == aligned.names:
        return None
    places = {name: place for place, name in enumerate(given.names)}
    return np.array([places[name] for name in aligned.names])
