"""The contract between the growers and whatever holds the rows.

A backend holds codes, targets, scores and gradients, and knows which node each row is
in. A grower knows trees. Between them pass node numbers, splits and sums, never rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.kernels.layout import COLUMN_DTYPE, FEATURE_DTYPE
from hornbeam.kernels.node_constraints import NodeConstraints

__all__ = [
    "Backend",
    "BinBlock",
    "BinPages",
    "DenseBins",
    "ExternalBins",
    "GradientRows",
    "GradientSource",
    "HistogramLayout",
    "NoColumns",
    "PerTreeBins",
    "RowColumns",
    "RowSample",
    "RowSpill",
    "SortedColumns",
    "SparseBins",
    "SparseColumns",
    "SplitParams",
    "WeightRows",
]


@dataclass(frozen=True, slots=True)
class HistogramLayout:
    """Where the features are in columns of codes, and in histograms of them.

    A row has bin b of feature f where column ``column_of[f]`` has the code
    ``low[f] + b``, b below ``bins[f]``; with any other code it misses the feature.

    Attributes
    ----------
    bins
        (features,) int64: bins of each feature.
    offsets
        (columns + 1,) int64: the first cell of each column in a histogram, which has
        a cell for every code of the column.
    is_categorical
        (features,) bool: whether a bin is a category.
    column_of, low
        (features,) int64.
    """

    bins: NDArray[np.int64]
    offsets: NDArray[np.int64]
    is_categorical: NDArray[np.bool_]
    column_of: NDArray[np.int64]
    low: NDArray[np.int64]

    @classmethod
    def of_own_columns(
        cls,
        bins: NDArray[np.int64],
        offsets: NDArray[np.int64],
        is_categorical: NDArray[np.bool_] | None = None,
    ) -> HistogramLayout:
        """Return the layout where each feature has a column of its own."""
        if is_categorical is None:
            is_categorical = np.zeros(bins.size, bool)
        columns, low = np.arange(bins.size), np.zeros(bins.size, np.int64)
        return cls(bins, offsets, is_categorical, columns, low)

    @property
    def n_features(self) -> int:
        return self.bins.size

    @property
    def n_columns(self) -> int:
        return self.offsets.size - 1

    @property
    def n_cells(self) -> int:
        """Cells of a histogram."""
        return int(self.offsets[-1])

    @property
    def code_type(self) -> np.dtype[Any]:
        """The type of the codes: uint8, or uint16 where a column has more of them."""
        return np.dtype(np.uint8 if np.diff(self.offsets).max() <= 256 else np.uint16)

    @property
    def words(self) -> int:
        """Words of a set of a column's codes; 0 where no feature is categorical."""
        # A code may go left that is no category: that of the missing.
        most = int(np.diff(self.offsets).max())
        return -(-most // 64) if self.is_categorical.any() else 0

    @property
    def most_categories(self) -> int:
        """Categories of the feature that has the most."""
        return int(self.bins.max(where=self.is_categorical, initial=0))

    @property
    def feature_table(self) -> NDArray[Any]:
        """The features as kernels take them, (features,) `FEATURE_DTYPE`."""
        table = np.empty(self.bins.size, FEATURE_DTYPE)
        table["column"], table["low"] = self.column_of, self.low
        table["bins"], table["is_categorical"] = self.bins, self.is_categorical
        table["cell"] = self.offsets[self.column_of] + self.low
        return table


@dataclass(frozen=True, slots=True)
class RowColumns:
    """The columns of row-major codes, of which one may hold several of a layout.

    Attributes
    ----------
    table
        (columns,) `COLUMN_DTYPE`.
    spread
        (some,) uint32: the cells of each code of columns that hold several.
    holding
        (columns of the layout,) int64: which column holds each.
    """

    table: NDArray[Any]
    spread: NDArray[np.uint32]
    holding: NDArray[np.int64]

    @classmethod
    def of(cls, layout: HistogramLayout) -> RowColumns:
        """Return the very columns of the layout."""
        table = np.zeros(layout.n_columns, COLUMN_DTYPE)
        table["codes"], table["width"] = np.diff(layout.offsets), 1
        table["cell"] = layout.offsets[:-1]
        return cls(table, np.empty(0, np.uint32), np.arange(table.size))


@dataclass(frozen=True, slots=True)
class DenseBins:
    """Codes of all cells, in columns that may each hold several features.

    Attributes
    ----------
    by_feature, by_row
        Codes of the same cells, (columns, rows) and (rows * columns,), uint8 or uint16.
    layout
        What is in the columns.
    row_columns
        Which columns `by_row` has; None: the same.
    """

    by_feature: NDArray[Any]
    by_row: NDArray[Any]
    layout: HistogramLayout
    row_columns: RowColumns | None = None


class BinBlock(Protocol):
    """Codes of the rows `begin` to `end`, until the next block is asked for.

    Attributes
    ----------
    by_feature
        (columns, rows of the block): only the columns asked for are filled.
    by_row
        (rows of the block * columns,), or empty if it was not asked for.
    """

    number: int
    begin: int
    end: int
    by_feature: NDArray[Any]
    by_row: NDArray[Any]


class BinPages(Protocol):
    """Codes of all cells in blocks of rows on disk."""

    n_rows: int
    n_blocks: int
    block_rows: int
    dtype: np.dtype[Any]

    def rows_of(self, block: int) -> tuple[int, int]:
        """Return the first row of a block and the row after its last."""

    def sweep(
        self,
        columns: Sequence[int] | None,
        by_row: bool,
        ring_bytes: int | None = None,
        blocks: Sequence[int] | None = None,
    ) -> AbstractContextManager[Iterator[BinBlock]]:
        """Read the blocks, or all, with these columns, or all, one after the other."""

    def keep(self, n_bytes: int) -> int:
        """Keep row-major copies of blocks in memory, as many as fit; return how much.

        They are not read from disk again.
        """

    def ring_bytes(self, n_buffers: int, *, columns: bool, by_row: bool) -> int:
        """Return the memory that a sweep with so many buffers takes at most."""


class RowSpill(Protocol):
    """Arrays of one value a row on disk, block by block."""

    def save(self, name: str, block: int, array: NDArray[Any]) -> None:
        """Keep the block's part of the array of this name."""

    def load(self, name: str, block: int, out: NDArray[Any]) -> None:
        """Read what was saved."""

    def close(self) -> None:
        """Delete it all."""


@dataclass(frozen=True, slots=True)
class ExternalBins:
    """Codes of all cells on disk.

    Attributes
    ----------
    pages
        The blocks.
    layout
        What is in the columns.
    memory_limit
        The most bytes of memory that the whole process may take; None: no limit.
    open_spill
        Returns a place on disk for the state of rows that does not fit in memory.
    """

    pages: BinPages
    layout: HistogramLayout
    memory_limit: int | None
    open_spill: Callable[[], RowSpill]


@dataclass(frozen=True, slots=True)
class SparseBins:
    """Bin numbers of the filled cells, of tables of which few cells are filled.

    Attributes
    ----------
    starts
        (features + 1,) int64: the first cell of each feature.
    rows
        (cells,) uint32: by feature, and those of a feature by bin.
    codes
        (cells,) uint8 or uint16.
    bins
        (features,) int64: bins of each feature.
    by_row
        Returns the cells row after row: (rows + 1,) int64 where each begins, (cells,)
        uint32 features, (cells,) codes.
    """

    starts: NDArray[np.int64]
    rows: NDArray[np.uint32]
    codes: NDArray[Any]
    bins: NDArray[np.int64]
    by_row: Callable[[], tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[Any]]]


@dataclass(frozen=True, slots=True)
class SparseColumns:
    """Features that are neither missing nor zero, and after them a column of ones.

    Attributes
    ----------
    starts
        (features + 2,) int64: the first cell of each column, and their number.
    rows
        (cells,) uint32.
    values
        (cells,) float32 or float64.
    """

    starts: NDArray[np.int64]
    rows: NDArray[np.uint32]
    values: NDArray[Any]


@dataclass(frozen=True, slots=True)
class SortedColumns:
    """The filled cells of each column, in ascending order of values, then of rows.

    Attributes
    ----------
    starts
        (features + 1,) int64: the first cell of each column.
    cells
        (cells,) uint64: the number of the value among the column's << 32 | the row.
    last_below
        Takes splits and returns the number of the last value that is below each
        threshold, which lies between two values of the rows that were looked at.
    most_candidates
        Cuts of a node and feature that are looked at: about so many weighted quantiles
        of the node; 0: all.
    """

    starts: NDArray[np.int64]
    cells: NDArray[np.uint64]
    last_below: Callable[[NDArray[Any]], NDArray[np.int64]]
    most_candidates: int = 0


@dataclass(frozen=True, slots=True)
class PerTreeBins:
    """Codes that are made anew for each tree.

    Attributes
    ----------
    cut
        Takes the hessians of the tree, (rows,) float64, and returns the codes.
    n_features
        Of the data.
    """

    cut: Callable[[NDArray[np.float64]], DenseBins | SparseBins]
    n_features: int


@dataclass(frozen=True, slots=True)
class RowSample:
    """Which rows grow a tree, drawn by their numbers.

    Attributes
    ----------
    rate
        The share of the rows.
    seed, tree
        What the draws depend on beside the number.
    by_gradient
        Whether rows with large gradients are drawn more often; see
        `backends.gradient_sampling`. Otherwise each is with probability `rate`.
    top_rate
        The share of the rows with the largest gradients, all of which are taken; of
        the others all have the same chance. None: the chance goes by the gradient.
    hessian_weight, threshold, rest
        What decides how often; for `backends.gradient_sampling` to fill in.
    """

    rate: float
    seed: int
    tree: int
    by_gradient: bool = False
    top_rate: float | None = None
    hessian_weight: float = 0.0
    threshold: float = 0.0
    rest: float = 0.0

    @property
    def key(self) -> tuple[np.uint64, np.uint64, np.uint64]:
        """What the draws depend on beside the number, as kernels take it."""
        return np.uint64(self.tree), np.uint64(0), np.uint64(self.seed % 2**64)

    @property
    def limit(self) -> int:
        """What a uniform draw of 32 bits is below where a row is taken."""
        return int(self.rate * 2.0**32)


@dataclass(frozen=True, slots=True)
class SplitParams:
    """The numbers of the objective that the search for splits needs."""

    reg_lambda: float
    reg_alpha: float
    max_delta_step: float
    min_child_weight: float
    max_cat_to_onehot: int = 4
    max_cat_threshold: int = 64
    min_samples_leaf: int = 0
    path_smooth: float = 0.0
    rows_cost: bool = False
    default_direction: str = "learn"
    opt_dense_col: float = 1.0

    @property
    def counts_rows(self) -> bool:
        """Whether the search needs to know how many rows there are."""
        return self.min_samples_leaf > 1 or self.path_smooth > 0.0 or self.rows_cost

    @property
    def rules(self) -> NDArray[np.float64]:
        """As kernels take them, (8,) float64: all down to `path_smooth`, in order."""
        return np.array(
            [
                self.reg_lambda,
                self.reg_alpha,
                self.max_delta_step,
                self.min_child_weight,
                self.max_cat_to_onehot,
                self.max_cat_threshold,
                self.min_samples_leaf,
                self.path_smooth,
            ]
        )


class GradientSource(Protocol):
    """What fills in gradients from scores: an objective."""

    def write_gradients(
        self,
        team: Any,
        scores: NDArray[np.float64],
        targets: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        gradients: NDArray[np.floating[Any]],
        hessians: NDArray[np.floating[Any]],
    ) -> None:
        """Write one gradient and hessian for each output and row."""


class GradientRows(Protocol):
    """Rows that have margins, and take gradients."""

    @property
    def n_rows(self) -> int:
        """Rows of the data."""

    @property
    def n_outputs(self) -> int:
        """Margins of a row."""

    def scores(self) -> NDArray[np.float64]:
        """Return a copy of the margins, (outputs, rows)."""

    def compute_gradients(self, objective: GradientSource) -> None:
        """Take new gradients from the objective at the present scores."""

    def set_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        """Take these gradients, both of shape (outputs, rows)."""

    def set_columns(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        """Search the splits of this round's trees by these, both (columns, rows).

        They come after the gradients that leaves are weighed by, and are dropped with
        them.
        """


class NoColumns:
    """What is searched by the very gradients that its leaves are weighed by."""

    def set_columns(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        """Raise a `ParameterError`: there is no search by others."""
        raise ParameterError(
            "gradients to split by are for new trees of all outputs, and here are "
            "none; set multi_strategy='multi_output_tree', leave sketch_outputs out, "
            "or return (gradients, hessians) alone",
            code=ErrorCode.CONFLICTING_PARAMETERS,
        )


class WeightRows(GradientRows, Protocol):
    """Rows that the weights of a linear model descend on, the bias the last of them."""

    n_features: int

    def begin(self, output: int, rules: NDArray[np.float64]) -> None:
        """Begin with one output, with learning rate, lambda and alpha in `rules`."""

    def sizes(self, weights: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return how large a step each feature's weight would take, (features,)."""

    def descend(self, order: NDArray[np.int64], weights: NDArray[np.float32]) -> None:
        """Move the weights of these features, one after the other."""


class Backend(NoColumns, ABC):
    """Rows in bins, and the verbs by which trees are grown on them.

    In one round come `compute_gradients` or `set_gradients`; then for each tree
    `begin_tree`, any number of `find_splits` and `apply_splits`, `sum_leaves` and
    `add_leaf_values`. Node 0 is the root; the children of a split are neighbours, the
    left one first.

    A backend is made for trees of one output each, or for trees of all outputs, whose
    leaves have a value for each.
    """

    #: How many splits a grower that goes best first should ask for at once.
    lookahead: int = 1
    #: By how many columns of gradients the splits of trees of all outputs are searched;
    #: 0: trees have one output each.
    vector_columns: int = 0

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Rows of the data."""

    @property
    @abstractmethod
    def n_outputs(self) -> int:
        """Margins of a row."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Features of the data."""

    @abstractmethod
    def scores(self) -> NDArray[np.float64]:
        """Return a copy of the margins, (outputs, rows)."""

    @abstractmethod
    def set_scores(self, scores: NDArray[np.float64]) -> None:
        """Take these margins, (outputs, rows)."""

    @abstractmethod
    def compute_gradients(self, objective: GradientSource) -> None:
        """Take new gradients from the objective at the present scores."""

    @abstractmethod
    def set_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        """Take these gradients, both of shape (outputs, rows)."""

    def mix_outputs(self, mix: NDArray[np.float64]) -> None:
        """Search the splits of this round's trees by these mixes of all outputs.

        `mix` is (columns, outputs), of as many columns as the backend was made for.
        Only a backend for trees of all outputs is asked.
        """
        raise NotImplementedError

    @abstractmethod
    def begin_tree(
        self,
        output: int,
        growth: SplitParams,
        features: NDArray[np.uint64],
        sample: RowSample | None,
    ) -> None:
        """Put all rows, or a sample, into the root of a new tree for one output.

        `features` are the only ones that the tree may split on, ascending. For a tree
        of all outputs `output` is 0.
        """

    @abstractmethod
    def find_splits(
        self,
        nodes: NDArray[np.intp],
        allowed: NDArray[np.uint8] | None,
        limits: NodeConstraints | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.uint64]]:
        """Return the best split of each node as (nodes,) `SPLIT_DTYPE`, and the sets.

        The sets, (nodes, words) uint64, hold the categories that go right where a
        split is categorical; they have no words where no feature is categorical.

        `nodes` is the root alone or whole pairs of siblings. `allowed`, of shape
        (nodes, features), says which features each node may use; None: all. `limits`
        say what else holds the splits; they are needed in all of a tree or in none,
        and where rows are counted.
        """

    @abstractmethod
    def apply_splits(
        self,
        nodes: NDArray[np.intp],
        splits: NDArray[Any],
        sets: NDArray[np.uint64],
        left: NDArray[np.intp],
    ) -> None:
        """Send the rows of each node to its children ``left`` and ``left + 1``."""

    @abstractmethod
    def sum_leaves(
        self, nodes: NDArray[np.intp], leaves: NDArray[np.intp], n_leaves: int
    ) -> NDArray[np.float64]:
        """Return the sums of gradients and hessians, (leaves, 2), in fine steps.

        For a tree of all outputs these are (outputs, leaves, 2), and where columns were
        set (outputs + columns, leaves, 2). `nodes` are all those without children, and
        the rows of ``nodes[i]`` count for leaf ``leaves[i]`` of the tree: a grower that
        looked ahead may have split nodes further than it uses.
        """

    def leaf_of(self) -> NDArray[np.uint32]:
        """Return the leaf of each row by the last `sum_leaves`, (rows,).

        Rows that did not grow the tree have the number of leaves. Only a backend with
        all rows in memory is asked.
        """
        raise NotImplementedError

    @abstractmethod
    def add_leaf_values(self, values: NDArray[np.float32]) -> None:
        """Add to the score of every row, sampled or not, the value of its leaf.

        The leaves are those of the last `sum_leaves`; in a tree of all outputs the
        values are (leaves, outputs).
        """

    @abstractmethod
    def close(self) -> None:
        """Give back threads and memory."""
