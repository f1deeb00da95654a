"""The matrix that training and prediction take: features, and what goes with them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from hornbeam.binning.bin_table import Binned, bin_table
from hornbeam.binning.external import ExternalMatrix
from hornbeam.binning.external_build import build_external
from hornbeam.binning.sorted_columns import ColumnBlocks, sort_columns
from hornbeam.data.align import align
from hornbeam.data.categories import Categories
from hornbeam.data.meta_info import MetaInfo
from hornbeam.data.meta_info_accessors import MetaInfoAccessors
from hornbeam.data.opening import CacheOptions, Folders, cache_options, open_features
from hornbeam.data.row_blocks import as_csr, count_entries
from hornbeam.data.saved import save_table
from hornbeam.data.schema import Schema
from hornbeam.data.table import Table
from hornbeam.errors import DataError, ErrorCode
from hornbeam.params import Parameters

__all__ = ["DMatrix", "DataSplitMode", "categorical", "column_order"]

Floats = npt.NDArray[np.float64]

SKETCHES = ("exact", "approximate")


class DataSplitMode(IntEnum):
    """What a worker of several holds; Hornbeam has only rows."""

    ROW = 0
    COL = 1


class DMatrix(MetaInfoAccessors):
    """Features with their labels, weights and margins.

    The features are held by reference and never copied whole: do not change the
    container while the matrix lives. Labels, weights and margins are copied, and
    kept as float64.

    Parameters
    ----------
    data
        NumPy array, list of rows, frame of pandas, polars or pyarrow, SciPy sparse
        matrix (its absent cells are missing), anything that is read in batches, or the
        path of what `save_binary` has written.
    label
        One number for each row, or one for each row and target.
    weight
        How much each row counts, or each group of rows; not negative.
    base_margin
        Where boosting starts from, for each row, or for each row and output.
    missing
        The number that stands for missing, besides NaN and null.
    silent
        Taken for XGBoost's sake: nothing is printed either way.
    feature_names
        Names of the columns, by default those of the frame.
    feature_types
        Their types (``"float"``, ``"int"``, ``"q"``, ``"i"``, and ``"c"`` for a
        category), by default the frame's; or the `Categories` of another matrix, whose
        codes the categories shall have.
    nthread
        Threads for binning; all cores if None or not positive.
    group
        The number of rows in each group, in the order of the rows.
    qid
        The group of each row, instead of `group`: whole numbers that never fall.
    label_lower_bound, label_upper_bound
        Where the label of each row lies; -inf below and inf above are no bounds. A
        string as label, weight, base_margin, qid or one of these names a column of
        `data`, which is then no feature.
    feature_weights
        How likely each column is to be drawn where columns are sampled; not negative.
    enable_categorical
        Whether to take categorical columns; else they are an error.
    data_split_mode
        Only 0: the rows are split, not the columns.
    sketch
        ``"exact"`` cuts the columns at their exact quantiles; ``"approximate"`` is for
        data that is slow to read again.
    cache
        A folder, or several on different disks, for the codes that training works on:
        they are then on disk and not in memory. What is there of the same data is used
        again. As in XGBoost, ``"file#folder"`` and the `cache_prefix` of a `DataIter`
        name one, too.
    memory_limit
        With a cache, the most memory that the process may take, such as ``"2GB"``; in
        bytes if it is a number.
    codec
        With a cache, how codes are laid down: ``"raw"``, ``"nibble"`` (columns of few
        bins, two codes a byte), ``"lz4"``, or ``"auto"``, what pays for each column.
    """

    #: What keeps all that goes beside the features.
    _kind_of_info: type[MetaInfo] = MetaInfo
    #: Whether columns in order are held in memory even where codes are on disk.
    _holds_beside_cache = False

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
        enable_categorical: bool = True,
        data_split_mode: int = 0,
        sketch: str = "exact",
        cache: Folders | None = None,
        memory_limit: int | str | None = None,
        codec: str = "auto",
    ) -> None:
        if data_split_mode != DataSplitMode.ROW:
            raise DataError(
                f"data_split_mode={data_split_mode!r} (a split by columns) is not in "
                "Hornbeam yet; leave it out",
                code=ErrorCode.UNSUPPORTED_PARAMETER_VALUE,
            )
        if sketch not in SKETCHES:
            raise DataError(
                f"sketch must be one of {SKETCHES}, not {sketch!r}",
                code=ErrorCode.UNKNOWN_OPTION,
            )
        beside = {
            "label": label,
            "weight": weight,
            "base_margin": base_margin,
            "group": group,
            "qid": qid,
            "label_lower_bound": label_lower_bound,
            "label_upper_bound": label_upper_bound,
            "feature_weights": feature_weights,
        }
        data, caching = cache_options(data, cache, memory_limit, codec)
        table, fields = open_features(
            data,
            beside,
            missing=missing,
            names=feature_names,
            types=feature_types,
            enable_categorical=enable_categorical,
            content=caching is not None,
        )
        self._fill(table, nthread, sketch, caching)
        self.info.set(fields)
        if isinstance(table.info, dict):
            # A stream holds labels, to compare later readings with: one copy is enough.
            for name, values in self.info.fields().items():
                if fields.get(name) is table.info.get(name, values):
                    table.info[name] = values

    @staticmethod
    def of_table(table: Table, fields: Mapping[str, Any]) -> DMatrix:
        """Return a matrix over a table that is open, and fields of its rows."""
        matrix = DMatrix.__new__(DMatrix)
        matrix._fill(table, None, "exact")
        matrix.info.set(fields, whole=False)
        return matrix

    def _fill(
        self,
        table: Table,
        nthread: int | None,
        sketch: str,
        caching: CacheOptions | None = None,
    ) -> None:
        self.table = table
        self._caching = caching
        self.n_rows = table.n_rows
        self.n_features = table.n_features
        self.dtype = table.dtype
        self.nthread = Parameters.read("nthread", nthread)
        self.sketch = sketch
        self.info = self._kind_of_info(table.n_rows, table.n_features)
        # Which column of `info` each one is, None if it is the same.
        self._order: npt.NDArray[np.intp] | None = None
        self._aligned: tuple[Any, DMatrix] | None = None
        # With the weights that the cuts follow.
        self._binned: dict[int, tuple[Floats | None, Binned]] = {}
        self._ordered: ColumnBlocks | None = None

    # For the learner

    @property
    def schema(self) -> Schema:
        """The number, names, types and categories of the columns."""
        return self.table.schema

    @property
    def feature_weights(self) -> Floats | None:
        """How likely each column is to be drawn, (columns,)."""
        weights = self.info["feature_weights"]
        if weights is None or self._order is None:
            return weights
        return weights[self._order]

    def like(self, expected: Schema, unseen: str = "error") -> DMatrix:
        """Return this matrix with the columns and codes that a model expects.

        That is the matrix itself if it has them already. Else it is another one over
        the same features, with the same labels and all that goes with them, whenever
        they are set; it is kept, so that asking again costs nothing.

        Parameters
        ----------
        expected
            The columns of the model.
        unseen
            What to do with categories that the model does not know: ``"error"``, or
            ``"missing"`` to take them for missing values.
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
        matrix._fill(table, self.nthread, self.sketch, self._caching)
        matrix.info = self.info
        matrix._order = column_order(self.table, table)
        return matrix

    def binned(self, max_bin: int, nthread: int = 0) -> Binned:
        """Return the codes of the features, made on the first call and kept."""
        weights, codes = self._binned.get(max_bin, (None, None))
        if codes is None or weights is not self.row_weights:
            codes = self._bin(max_bin, nthread)
            self._binned[max_bin] = self.row_weights, codes
        return codes

    @property
    def has_sorted_columns(self) -> bool:
        """Whether the columns in order are there already."""
        return self._ordered is not None

    def sorted_columns(self, nthread: int = 0) -> ColumnBlocks:
        """Return the columns in order, made on the first call and kept."""
        if self._caching is not None and not self._holds_beside_cache:
            raise DataError(
                "tree_method 'exact' and 'approx' hold the values in memory, and this "
                "matrix has a cache for bins on disk; leave the cache out, or use "
                "tree_method='hist'",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )
        self._check_not_empty()
        if self._ordered is None:
            self._ordered = sort_columns(self.table, nthread)
        return self._ordered

    def _bin(self, max_bin: int, nthread: int) -> Binned:
        self._check_not_empty()
        if self._caching is not None:
            return self._page(self._caching, max_bin, nthread)
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

    def _page(self, caching: CacheOptions, max_bin: int, nthread: int) -> Binned:
        """Return the codes on disk; there is room for those of one `max_bin`."""
        before, self._binned = self._binned, {}
        for other, (_, codes) in before.items():
            if other != max_bin:
                self._binned = before
                raise DataError(
                    f"the cache of this matrix holds its codes for max_bin={other}, "
                    f"and max_bin={max_bin} needs others; make another matrix, with "
                    "another folder as its cache",
                    code=ErrorCode.CACHE_MISMATCH,
                )
            if isinstance(codes, ExternalMatrix):  # of other weights
                codes.close()
        return build_external(
            self.table,
            max_bin,
            caching,
            weights=self.row_weights,
            n_threads=nthread,
            sketch=self.sketch,
        )

    def rows(
        self, start: int, stop: int, features: npt.NDArray[np.intp] | None = None
    ) -> np.ndarray:
        """Return a block of rows, missing as NaN; read it, never write to it.

        Only the columns `features`, in that order, if they are given.
        """
        return self.table.rows(start, stop, features)

    # Features

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the columns; None if they have none."""
        return self.table.names

    @feature_names.setter
    def feature_names(self, names: Sequence[str] | None) -> None:
        self.table.rename(names)

    @property
    def feature_types(self) -> list[str] | None:
        """Types of the columns; None if they are not known."""
        return self.table.types

    @feature_types.setter
    def feature_types(self, types: Sequence[str] | None) -> None:
        before = self.table.types
        self.table.retype(types)
        if categorical(before) != categorical(self.table.types):
            self._binned.clear()
            self._ordered = None

    def get_categories(self, export_to_arrow: bool = False) -> Categories:
        """Return the names of the categories of each column.

        `export_to_arrow` is taken for XGBoost's sake: they always can be.
        """
        return self.table.categories

    def num_row(self) -> int:
        """Return the number of rows."""
        return self.n_rows

    def num_col(self) -> int:
        """Return the number of columns."""
        return self.n_features

    def num_nonmissing(self) -> int:
        """Return the number of cells that are not missing."""
        return count_entries(self.table)

    def data_split_mode(self) -> DataSplitMode:
        """Return what is split among workers: the rows."""
        return DataSplitMode.ROW

    def get_data(self) -> Any:
        """Return the features as a SciPy CSR matrix without the missing cells."""
        return as_csr(self.table)

    def get_quantile_cut(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (pointers, values): for each column a lower bound and its cuts.

        For a categorical column they are the codes of its categories. All are those
        of the binning made first.
        """
        if not self._binned:
            raise DataError(
                "this DMatrix has no cuts before it is trained on; "
                "train with it, or make a QuantileDMatrix",
                code=ErrorCode.CUTS_MISSING,
            )
        binned = next(iter(self._binned.values()))[1]
        cuts = binned.cuts
        values = np.insert(cuts.values, cuts.pointers[:-1], cuts.minimums)
        counts = cuts.n_bins + 1
        # The last cut of categories is where the codes end: no code itself.
        ends = np.cumsum(counts)[binned.is_categorical] - 1
        values = np.delete(values, ends)
        pointers = np.concatenate([[0], np.cumsum(counts - binned.is_categorical)])
        return pointers.astype(np.uint64), values.astype(self.dtype)

    def slice(self, rindex: Any, allow_groups: bool = False) -> DMatrix:
        """Return a new matrix of some rows, in the order given.

        Parameters
        ----------
        rindex
            Numbers of the rows.
        allow_groups
            Whether to take rows of a matrix that has groups. What is taken of a group
            is a group, so its rows must stay together.
        """
        if self.info.group_ptr is not None and not allow_groups:
            raise DataError(
                "this matrix has groups; pass allow_groups=True to take rows of groups",
                code=ErrorCode.SLICE_OF_GROUPS,
            )
        rows = self.row_numbers(rindex)
        part = type(self).__new__(type(self))
        part._fill(self.table.take(rows), self.nthread, self.sketch)
        part.table.rename(self.feature_names)
        part.table.retype(self.feature_types)
        part.info, part._order = self.info.take(rows), self._order
        return part

    def row_numbers(self, rindex: Any) -> npt.NDArray[np.intp]:
        """Return what a caller gives as numbers of rows, or say what is wrong."""
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

    def save_binary(self, fname: str | os.PathLike[str], silent: bool = True) -> None:
        """Write features and all that goes with them to a file that `DMatrix` reads.

        The file is complete or, whatever happens, left as it was. `silent` is taken
        for XGBoost's sake: nothing is printed either way.
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
    """Return the place of each aligned column among those given, None if the same."""
    if not given.names or not aligned.names or given.names == aligned.names:
        return None
    places = {name: place for place, name in enumerate(given.names)}
    return np.array([places[name] for name in aligned.names])
