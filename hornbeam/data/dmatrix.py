"""The matrices that training and prediction take: features, and what goes with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from hornbeam.data.adapters import as_table
from hornbeam.data.labels import as_base_margin, as_labels, as_weights
from hornbeam.data.schema import Schema, check_names, check_schema, check_types
from hornbeam.data.table import Table
from hornbeam.errors import DataError, require
from hornbeam.params import Parameters

if TYPE_CHECKING:
    from hornbeam.binning.codes import BinnedMatrix

__all__ = ["DMatrix", "QuantileDMatrix"]

Floats = npt.NDArray[np.float64]

NOT_YET = ("group", "qid", "label_lower_bound", "label_upper_bound", "feature_weights")
SETTABLE = ("label", "weight", "base_margin")
# Rows read in one step where a whole matrix is walked through.
STEP = 1 << 14


def _not_yet(what: str) -> NoReturn:
    raise DataError(f"Hornbeam does not have {what} yet; leave it out")


class DMatrix:
    """Features with their labels, weights and margins.

    The features are held by reference and never copied whole: do not change the
    container while the matrix lives. Labels, weights and margins are copied, and
    kept as float64.

    Parameters
    ----------
    data
        NumPy array, list of rows, pandas or polars DataFrame, pyarrow Table or
        RecordBatch, or SciPy sparse matrix (its absent cells are missing).
    label
        One number for each row.
    weight
        How much each row counts; not negative.
    base_margin
        Where boosting starts from, for each row, or for each row and output.
    missing
        The number that stands for missing, besides NaN and null.
    silent
        Taken for XGBoost's sake: nothing is printed either way.
    feature_names
        Names of the columns, by default those of the frame.
    feature_types
        Their types (``"float"``, ``"int"``, ``"q"``, ``"i"``), by default the frame's.
    nthread
        Threads for binning; all cores if None or not positive.
    group, qid, label_lower_bound, label_upper_bound, feature_weights
        Not there yet: an error if given.
    enable_categorical
        Whether to take categorical columns, which are not there yet either way.
    data_split_mode
        Only 0: the rows are split, not the columns.
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
        feature_types: Sequence[str] | None = None,
        nthread: int | None = None,
        group: Any = None,
        qid: Any = None,
        label_lower_bound: Any = None,
        label_upper_bound: Any = None,
        feature_weights: Any = None,
        enable_categorical: bool = False,
        data_split_mode: int = 0,
    ) -> None:
        if data_split_mode != 0:
            _not_yet(f"data_split_mode={data_split_mode!r} (a split by columns)")
        table = as_table(data, missing, feature_names)
        self._fill(
            table,
            check_types(feature_types, table.n_features) or table.types,
            nthread,
        )
        self.set_info(
            label=label,
            weight=weight,
            base_margin=base_margin,
            group=group,
            qid=qid,
            label_lower_bound=label_lower_bound,
            label_upper_bound=label_upper_bound,
            feature_weights=feature_weights,
        )

    def _fill(
        self, table: Table, feature_types: list[str] | None, nthread: int | None
    ) -> None:
        self.table: Table | None = table
        self.n_rows = table.n_rows
        self.n_features = table.n_features
        self.dtype = table.dtype
        self.nthread = Parameters.resolve({"nthread": nthread}).nthread
        self.labels: Floats | None = None
        self.weights: Floats | None = None
        self.base_margin: Floats | None = None
        self._names = table.names
        self._types = feature_types
        self._binned: dict[int, BinnedMatrix] = {}

    # For the learner

    @property
    def schema(self) -> Schema:
        """The number, names and types of the columns."""
        return Schema(self.n_features, self._names, self._types)

    def binned(self, max_bin: int, nthread: int = 0) -> BinnedMatrix:
        """Return the codes of the features, made on the first call and kept."""
        if max_bin not in self._binned:
            self._binned[max_bin] = self._bin(max_bin, nthread)
        return self._binned[max_bin]

    def _bin(self, max_bin: int, nthread: int) -> BinnedMatrix:
        # Here, because Numba comes with it: a matrix for prediction needs none of it.
        from hornbeam.binning.codes import bin_table

        assert self.table is not None
        if "c" in (self._types or ()):
            _not_yet("training on categorical features")
        if self.n_rows == 0:
            raise DataError(
                f"there are no rows to learn from (shape (0, {self.n_features})); "
                "pass at least one row"
            )
        return bin_table(
            self.table,
            max_bin,
            weights=self.weights,
            n_threads=nthread,
        )

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Return a block of rows, missing as NaN; read it, never write to it."""
        assert self.table is not None
        return self.table.rows(start, stop)

    # Labels, weights and margins

    def set_info(
        self,
        *,
        label: Any = None,
        weight: Any = None,
        base_margin: Any = None,
        group: Any = None,
        qid: Any = None,
        label_lower_bound: Any = None,
        label_upper_bound: Any = None,
        feature_names: Sequence[str] | None = None,
        feature_types: Sequence[str] | None = None,
        feature_weights: Any = None,
    ) -> None:
        """Set whatever is given; the arguments are those of the constructor."""
        absent = (group, qid, label_lower_bound, label_upper_bound, feature_weights)
        for name, value in zip(NOT_YET, absent, strict=True):
            if value is not None:
                _not_yet(name)
        if label is not None:
            self.set_label(label)
        if weight is not None:
            self.set_weight(weight)
        if base_margin is not None:
            self.set_base_margin(base_margin)
        if feature_names is not None:
            self.feature_names = list(feature_names)
        if feature_types is not None:
            self.feature_types = list(feature_types)

    def set_label(self, label: Any) -> None:
        """Set the labels, one number for each row."""
        self.labels = as_labels(label, self.n_rows)

    def set_weight(self, weight: Any) -> None:
        """Set the weights, one number for each row; not negative."""
        self.weights = as_weights(weight, self.n_rows)
        if self.table is not None:
            # Cuts follow the weights, so codes made with others are not these rows'.
            self._binned.clear()

    def set_base_margin(self, margin: Any) -> None:
        """Set the margins, one for each row, or one for each row and output."""
        self.base_margin = as_base_margin(margin, self.n_rows)

    def set_float_info(self, field: str, data: Any) -> None:
        """Set ``label``, ``weight`` or ``base_margin``."""
        self._check_field(field)
        self.set_info(**{field: data})

    def get_float_info(self, field: str) -> Floats:
        """Return a field that can be set, read-only; empty if it was not."""
        self._check_field(field)
        held = {
            "label": self.labels,
            "weight": self.weights,
            "base_margin": self.base_margin,
        }[field]
        view = np.empty(0) if held is None else held.view()
        view.flags.writeable = False
        return view

    @staticmethod
    def _check_field(field: str) -> None:
        if field in NOT_YET:
            _not_yet(field)
        if field not in SETTABLE:
            raise DataError(
                f"there is no field {field!r}; it is one of {', '.join(SETTABLE)}"
            )

    def get_label(self) -> Floats:
        """Return the labels, read-only; empty if there are none."""
        return self.get_float_info("label")

    def get_weight(self) -> Floats:
        """Return the weights, read-only; empty if there are none."""
        return self.get_float_info("weight")

    def get_base_margin(self) -> Floats:
        """Return the margins, read-only; empty if there are none."""
        return self.get_float_info("base_margin")

    # Features

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the columns; None if they have none."""
        return self._names

    @feature_names.setter
    def feature_names(self, names: Sequence[str] | None) -> None:
        self._names = check_names(names, self.n_features)
        if self.table is not None:
            self.table.names = self._names

    @property
    def feature_types(self) -> list[str] | None:
        """Types of the columns; None if they are not known."""
        return self._types

    @feature_types.setter
    def feature_types(self, types: Sequence[str] | None) -> None:
        self._types = check_types(types, self.n_features)

    def num_row(self) -> int:
        """Return the number of rows."""
        return self.n_rows

    def num_col(self) -> int:
        """Return the number of columns."""
        return self.n_features

    def num_nonmissing(self) -> int:
        """Return the number of cells that are not missing."""
        return sum(int((block == block).sum()) for block in self._blocks())

    def _blocks(self) -> Iterator[np.ndarray]:
        for start in range(0, self.n_rows, STEP):
            yield self.rows(start, min(start + STEP, self.n_rows))

    def get_data(self) -> Any:
        """Return the features as a SciPy CSR matrix without the missing cells."""
        sparse = require("scipy.sparse", "frames", "DMatrix.get_data")
        present = [block == block for block in self._blocks()]
        values = [
            block[here] for block, here in zip(self._blocks(), present, strict=True)
        ]
        counts = [here.sum(axis=1) for here in present]
        indices = [here.nonzero()[1] for here in present]
        return sparse.csr_matrix(
            (
                np.concatenate([np.empty(0, self.dtype), *values]),
                np.concatenate([np.empty(0, np.intp), *indices]),
                np.concatenate([[0], *counts]).cumsum(),
            ),
            shape=(self.n_rows, self.n_features),
        )

    def get_quantile_cut(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (pointers, values): for each column a lower bound and its cuts.

        They are those of the binning made first.
        """
        if not self._binned:
            raise DataError(
                "this DMatrix has no cuts before it is trained on; "
                "train with it, or make a QuantileDMatrix"
            )
        cuts = next(iter(self._binned.values())).cuts
        values = np.insert(cuts.values, cuts.pointers[:-1], cuts.minimums)
        pointers = cuts.pointers + np.arange(len(cuts.pointers))
        return pointers.astype(np.uint64), values.astype(self.dtype)

    def slice(self, rindex: Any, allow_groups: bool = False) -> DMatrix:
        """Return a new matrix of some rows, in the order given.

        Parameters
        ----------
        rindex
            Numbers of the rows.
        allow_groups
            Of no effect while there are no groups.
        """
        if self.table is None:
            raise DataError(
                "a QuantileDMatrix no longer has the rows to slice; slice a DMatrix, "
                "or the data before"
            )
        rows = self._row_numbers(rindex)
        part = DMatrix.__new__(DMatrix)
        part._fill(self.table.take(rows), self._types, self.nthread)
        part.set_info(
            label=None if self.labels is None else self.labels[rows],
            weight=None if self.weights is None else self.weights[rows],
            base_margin=None if self.base_margin is None else self.base_margin[rows],
        )
        return part

    def _row_numbers(self, rindex: Any) -> npt.NDArray[np.intp]:
        rows = np.asarray(rindex)
        if rows.size == 0:
            return np.empty(0, np.intp)
        if rows.dtype.kind == "b":
            raise DataError(
                "rindex must hold numbers of rows, not booleans; "
                "pass numpy.flatnonzero(mask)"
            )
        if rows.dtype.kind not in "iu" or rows.ndim != 1:
            raise DataError(
                f"rindex must be a list of row numbers, not {rows.dtype} of shape "
                f"{rows.shape}"
            )
        outside = (rows < 0) | (rows >= self.n_rows)
        if outside.any():
            raise DataError(
                f"there is no row {rows[outside][0]}; "
                f"rows are numbered 0 to {self.n_rows - 1}"
            )
        return rows.astype(np.intp)

    def __reduce__(self) -> NoReturn:
        raise ValueError(
            f"a {type(self).__name__} cannot be pickled or copied; "
            "pickle the data it was made from, and make it again"
        )


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
    max_quantile_batches
        Only for data in batches, which are not there yet.
    data, label, weight, base_margin, missing, silent, feature_names, feature_types, \
nthread, group, qid, label_lower_bound, label_upper_bound, feature_weights, \
enable_categorical, data_split_mode
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
        feature_types: Sequence[str] | None = None,
        nthread: int | None = None,
        max_bin: int | None = None,
        ref: DMatrix | None = None,
        group: Any = None,
        qid: Any = None,
        label_lower_bound: Any = None,
        label_upper_bound: Any = None,
        feature_weights: Any = None,
        enable_categorical: bool = False,
        max_quantile_batches: int | None = None,
        data_split_mode: int = 0,
    ) -> None:
        if max_quantile_batches is not None:
            _not_yet("max_quantile_batches (data in batches)")
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
        )
        if ref is None:
            self.max_bin = Parameters.resolve({"max_bin": max_bin}).max_bin
            codes = self._bin(self.max_bin, self.nthread)
        else:
            self.max_bin, codes = self._bin_like(ref, max_bin)
        self._codes = codes
        self._binned[self.max_bin] = codes
        self.dtype = np.dtype(codes.dtype)
        self.table = None

    def _bin_like(self, ref: DMatrix, max_bin: int | None) -> tuple[int, BinnedMatrix]:
        from hornbeam.binning.codes import bin_with_cuts

        if not isinstance(ref, DMatrix):
            raise DataError(
                f"ref must be a DMatrix or QuantileDMatrix, not {type(ref).__name__}"
            )
        check_schema(ref.schema, self.schema, unnamed_allowed=True)
        if max_bin is None and isinstance(ref, QuantileDMatrix):
            max_bin = ref.max_bin
        max_bin = Parameters.resolve({"max_bin": max_bin}).max_bin
        cuts = ref.binned(max_bin, self.nthread).cuts
        assert self.table is not None
        return max_bin, bin_with_cuts(self.table, cuts, n_threads=self.nthread)

    def binned(self, max_bin: int, nthread: int = 0) -> BinnedMatrix:
        """Return the codes; `max_bin` must be that of the construction."""
        if max_bin != self.max_bin:
            raise DataError(
                f"this QuantileDMatrix was made with max_bin={self.max_bin} and cannot "
                f"serve max_bin={max_bin}; use the same number for both, and make "
                "validation sets with ref="
            )
        return self._codes

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Return a block of rows, each cell as the value that stands for its bin."""
        rows: np.ndarray = self._codes.decode(start, stop)
        return rows
