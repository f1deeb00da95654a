"""Adds trees, or a linear model, to the margins of rows, in blocks of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.factory import create_margin_sums, device_of_sums
from hornbeam.data.containers.from_scipy import SparseTable
from hornbeam.data.dmatrix import DMatrix, categorical
from hornbeam.data.quantile_dmatrix import QuantileDMatrix
from hornbeam.errors import DataError, ErrorCode
from hornbeam.forest.layout import MIN_SELECTED_FEATURES, BinnedLayout, Layout
from hornbeam.forest.tree import Tree, with_equal_leaves
from hornbeam.kernels.binned_trees import (
    COLUMNS_TOGETHER,
    MOST_SLOTS,
    SLOT_BITS,
    BinnedScratch,
    Entries,
    add_binned_trees,
    add_binned_trees_to_entries,
)
from hornbeam.kernels.linear import add_products
from hornbeam.kernels.linear_leaves import (
    NodeTerms,
    add_binned_linear_trees,
    add_linear_trees,
)
from hornbeam.kernels.margins import TypedMargins
from hornbeam.kernels.multi_output import add_multi_output_trees
from hornbeam.kernels.predict import (
    PREDICT_ROWS,
    ROWS_OF_LARGE,
    ROWS_OF_ONE,
    TREES_AT_ONCE,
    DescentScratch,
    add_trees,
    add_trees_to_few,
    find_leaves,
)
from hornbeam.kernels.row_sets import SET_ROWS, SET_WORDS
from hornbeam.kernels.team import Team

__all__ = [
    "MANY_ROWS",
    "PlainRows",
    "Rows",
    "add_layout",
    "add_linear",
    "add_one_by_one",
    "add_to_few",
    "adds_on_device",
    "binned_scratch",
    "block_of",
    "blocks",
    "check_linear_features",
    "check_values",
    "leaf_indices",
    "squeeze_outputs",
    "start_margins",
]

#: The rows of one block, and the bytes of a block of converted features: the allocator
#: returns larger blocks to the system, so each would have to be mapped again.
_BLOCK_ROWS = 1 << 16
_BLOCK_BYTES = 1 << 22
#: With at most this many rows, each row descends several trees at once.
_FEW_ROWS = 4
#: Trees of more nodes are descended by more rows before the next tree.
_LARGE_TREE = 1 << 12
#: So many rows may descend large trees one by one. A thread lays out so many nodes in
#: the time that this saves a row, whose tree stays in the cache.
MANY_ROWS = 1 << 14
_NODES_OF_ROW = 4
#: And so many at least before the trees are laid out again.
_ROWS_OF_PASS = 1 << 17
#: Steps of rows down trees that take as long as laying out one node by bins, and as
#: finding the bin of a value; bins save most of the steps.
_STEPS_OF_NODE = 256
_STEPS_OF_COLUMN = 4
#: Fewer rows are predicted on the processor before a device has started.
_DEVICE_ROWS = 1 << 10


class Rows(Protocol):
    """Features that can be read in blocks of rows; missing values are NaN."""

    n_rows: int
    n_features: int
    dtype: Any

    def rows(
        self, start: int, stop: int, features: NDArray[np.intp] | None = None
    ) -> NDArray[Any]:
        """Return rows `start` to `stop` of the columns `features`, None for all."""


class PlainRows:
    """An array that kernels can read directly, without a table."""

    __slots__ = ("array", "dtype", "n_features", "n_rows")

    def __init__(self, array: NDArray[Any]) -> None:
        self.array, self.dtype = array, array.dtype
        self.n_rows, self.n_features = array.shape

    def rows(
        self, start: int, stop: int, features: NDArray[np.intp] | None = None
    ) -> NDArray[Any]:
        """Return rows `start` to `stop` of the columns `features`, None for all."""
        whole = stop - start == self.n_rows
        part = self.array if whole else self.array[start:stop]
        return part if features is None else part.take(features, axis=1)


def start_margins(
    base_margin: NDArray[np.float64] | None,
    base: NDArray[np.float64],
    n_rows: int,
    dtype: Any,
) -> NDArray[Any]:
    """Return (rows, outputs) margins before the first tree.

    A base margin replaces the base score completely.
    """
    if base_margin is None:
        margins = np.empty((n_rows, base.size), dtype)
        if base.size == 1:
            margins.fill(base.item())  # half the time of assigning an array to one row
        else:
            margins[:] = base
        return margins
    given = base_margin.reshape(n_rows, -1) if n_rows > 0 else base_margin
    if n_rows > 0 and given.shape[1] != base.size:
        raise DataError(
            f"base_margin has {given.shape[1]} columns, but the model has {base.size} "
            "outputs; give one margin for each row and output",
            code=ErrorCode.BASE_MARGIN_OUTPUTS_MISMATCH,
        )
    return np.array(given.reshape(n_rows, base.size), dtype, order="C")


def check_linear_features(data: DMatrix) -> None:
    """Raise a `DataError` unless a linear model can multiply the features of `data`."""
    if isinstance(data, QuantileDMatrix):
        raise DataError(
            "booster='gblinear' multiplies the features, and a "
            f"{type(data).__name__} stores only their bins; make a DMatrix",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )
    for feature in categorical(data.feature_types):
        raise DataError(
            f"{data.table.label(feature)} is categorical, and booster='gblinear' takes "
            "numbers; give each category a column of zeros and ones",
            code=ErrorCode.CATEGORICAL_UNSUPPORTED,
            learner="`gblinear`",
        )


def check_values(data: Rows) -> None:
    """Raise a `DataError` unless linear leaves can read the values of `data`."""
    if isinstance(data, QuantileDMatrix):
        raise DataError(
            "leaf_model='linear' multiplies the values of features, and a "
            f"{type(data).__name__} stores only their bins; make a DMatrix",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )


def add_linear(
    team: Team,
    data: Rows,
    weights: NDArray[np.float32],
    dtype: Any,
    margins: NDArray[np.float64],
) -> None:
    """Add a linear model of features of this type to `margins`, (rows, outputs)."""
    cells = data.n_features * weights.shape[1]
    for start, block, threads in blocks(team, data, np.dtype(dtype), None, cells):
        own = margins[start : start + len(block)]
        team.run(add_products, threads, block, weights, own)


def add_layout(
    team: Team,
    data: Rows,
    layout: Layout,
    margins: NDArray[Any],
    device: str = "cpu",
) -> None:
    """Add the trees of `layout` to `margins`, (rows, outputs), in their order.

    A parameter `device` adds them if it is there, to many rows for which
    `adds_on_device` holds.
    """
    if layout.roots.size == 0:
        return
    if device != "cpu" and data.n_rows >= _DEVICE_ROWS and adds_on_device(data, layout):
        there = device_of_sums(device)
        if there != "cpu":
            _add_there(there, team, data, layout, margins)
            return
    if layout.terms is not None:
        _add_linear_trees(team, data, layout, layout.terms, margins)
        return
    table = _sparse_table(data)
    entries = None if table is None else table.n_stored // max(1, data.n_rows)
    binned = _by_bins(data.n_rows, layout, entries)
    if binned is not None and table is not None:
        _add_to_entries(team, table, layout, binned, margins)
        return
    if binned is not None:
        _add_by_bins(team, data, layout, binned, margins)
        return
    for start, block, threads in _laid_out(team, data, layout):
        scratch = DescentScratch.of(
            threads, _rows_together(layout, len(block), threads)
        )
        own = margins[start : start + len(block)]
        _descend(team, threads, block, layout, scratch, own)


def _descend(
    team: Team,
    threads: int,
    block: NDArray[Any],
    layout: Layout,
    scratch: DescentScratch,
    margins: NDArray[Any],
) -> None:
    """Add the trees of `layout` to `margins` by comparing values with thresholds."""
    is_multi_output = layout.values.ndim > 1
    team.run(
        add_multi_output_trees if is_multi_output else add_trees,
        threads,
        block,
        layout.roots,
        layout.packed,
        layout.values,
        scratch,
        margins if is_multi_output else TypedMargins.of(margins),
    )


def add_one_by_one(
    team: Team,
    data: Rows,
    trees: Sequence[Tree],
    outputs: Sequence[int],
    weights: NDArray[np.float32],
    dtype: Any,
    margins: NDArray[Any],
) -> bool:
    """Add large trees to `margins`, each laid out just before, if rows are many.

    That takes little of the time then, and no memory: the layout of a whole forest
    takes about as much as its trees. A tree also stays in the caches while all rows
    descend it. Returns whether it was done. The arguments are those of `Layout.of`.
    """
    n_nodes = sum(tree.n_nodes for tree in trees)
    if (
        n_nodes <= _LARGE_TREE * len(trees)
        or data.n_rows * len(trees) * _NODES_OF_ROW < team.size * n_nodes
        or data.n_features >= MIN_SELECTED_FEATURES
        or any(tree.terms is not None for tree in trees)
    ):
        return False
    trees, kind = with_equal_leaves(trees, outputs), np.dtype(dtype)
    scratch = DescentScratch.of(team.size, ROWS_OF_ONE)
    most = max(_ROWS_OF_PASS, 2 * n_nodes // len(trees))
    passes = -(-data.n_rows // most)
    for number in range(passes):
        start, stop = (data.n_rows * end // passes for end in (number, number + 1))
        block = block_of(data, start, stop, kind, None)
        for t, tree in enumerate(trees):
            own = [tree], outputs[t : t + 1], kind, data.n_features, weights[t : t + 1]
            layout = Layout.of(*own)
            threads = team.threads_for(layout.cost(len(block), data.n_features))
            _descend(team, threads, block, layout, scratch, margins[start:stop])
    return True


def add_to_few(data: Rows, layout: Layout, margins: NDArray[Any]) -> bool:
    """Add the trees of `layout` to `margins`, if the rows are few and leaves single.

    Returns whether they are.
    """
    if not (0 < data.n_rows <= _FEW_ROWS and layout.has_single_leaves):
        return False
    kind, features = layout.thresholds.dtype, layout.features
    block = block_of(data, 0, data.n_rows, kind, features)
    places = np.empty(TREES_AT_ONCE, np.int32)
    arrays = block, *layout.arrays, places, margins
    add_trees_to_few(*arrays)
    return True


def _add_there(
    device: str, team: Team, data: Rows, layout: Layout, margins: NDArray[Any]
) -> None:
    """Add the trees of `layout` to `margins` on a device."""
    sums, selected = create_margin_sums(device, margins), layout.features
    columns = data.n_features if selected is None else selected.size
    sent = ((first, block) for first, block, _ in _laid_out(team, data, layout))
    sums.add(layout.arrays, sent, columns)
    margins[...] = sums.margins()


def adds_on_device(data: Rows, layout: Layout | None = None) -> bool:
    """Return whether devices can add the trees to the margins of these rows.

    Leaves have to be constants, and the rows of a dense table.
    """
    has_terms = layout is not None and layout.terms is not None
    return not has_terms and _sparse_table(data) is None


def _add_linear_trees(
    team: Team, data: Rows, layout: Layout, terms: NodeTerms, margins: NDArray[Any]
) -> None:
    """Add trees of linear leaves to `margins`."""
    check_values(data)
    binned = _by_bins(data.n_rows, layout)
    for start, block, threads in _laid_out(team, data, layout):
        own = TypedMargins.of(margins[start : start + len(block)])
        rows = block, layout.roots
        leaves = layout.values, terms
        if binned is not None:
            scratch = binned_scratch(binned, threads, block.dtype)
            arrays = *rows, binned, *leaves, scratch, own
            team.run(add_binned_linear_trees, threads, *arrays)
            continue
        together = _rows_together(layout, len(block), threads)
        paths = DescentScratch.of(threads, together)
        team.run(add_linear_trees, threads, *rows, layout.packed, *leaves, paths, own)


def _sparse_table(data: Rows) -> SparseTable | None:
    """Return the table of sparse rows, unless it has codes of categories to check."""
    table = data.table if isinstance(data, DMatrix) else data
    if isinstance(table, SparseTable) and "c" not in (table.types or ()):
        return table
    return None


def _by_bins(
    n_rows: int, layout: Layout, entries: int | None = None
) -> BinnedLayout | None:
    """Return the trees laid out by bins, if binning the rows pays off.

    Of sparse rows only so many `entries` in a row are binned.
    """
    is_rare = n_rows * layout.steps < _STEPS_OF_NODE * layout.nodes.size
    if is_rare or _has_large_trees(layout):
        return None
    binned = layout.binned
    if binned is None:
        return None
    values = binned.columns.size if entries is None else entries
    if layout.steps < _STEPS_OF_COLUMN * values:
        return None
    return binned


def _add_by_bins(
    team: Team,
    data: Rows,
    layout: Layout,
    binned: BinnedLayout,
    margins: NDArray[Any],
) -> None:
    """Add the trees of `layout` to `margins` through the bins of the rows."""
    for start, block, threads in _laid_out(team, data, layout):
        team.run(
            add_binned_trees,
            threads,
            block,
            layout.roots,
            binned,
            layout.values,
            binned_scratch(binned, threads, block.dtype),
            TypedMargins.of(margins[start : start + len(block)]),
        )


def _add_to_entries(
    team: Team,
    table: SparseTable,
    layout: Layout,
    binned: BinnedLayout,
    margins: NDArray[Any],
) -> None:
    """Add the trees of `layout` to `margins` through the bins of stored entries."""
    kind = layout.thresholds.dtype
    columns = layout.columns_of_features(table.n_features)
    for start in range(0, table.n_rows, _BLOCK_ROWS):
        stop = min(start + _BLOCK_ROWS, table.n_rows)
        pointers, features, values = table.row_entries(start, stop)
        threads = team.threads_for((stop - start) * 4 * layout.steps)
        team.run(
            add_binned_trees_to_entries,
            threads,
            Entries(pointers, features, values.astype(kind, copy=False), columns),
            layout.roots,
            binned,
            layout.values,
            binned_scratch(binned, threads, kind),
            TypedMargins.of(margins[start:stop]),
        )


def binned_scratch(binned: BinnedLayout, threads: int, dtype: Any) -> BinnedScratch:
    """Return scratch arrays of `add_binned_trees` for features of this type."""
    columns = binned.runs["end_column"] - binned.runs["first_column"]
    tests = np.diff(binned.test_starts)
    return BinnedScratch(
        np.empty((threads, COLUMNS_TOGETHER, SET_ROWS), dtype),
        np.empty((threads, columns.max(initial=0) * SET_ROWS), np.uint8),
        np.empty((threads, tests.max(initial=0) + 1, SET_WORDS), np.uint64),
        np.empty((threads, MOST_SLOTS, SET_WORDS), np.uint64),
        np.empty((threads, SLOT_BITS, SET_WORDS), np.uint64),
        np.empty((threads, SET_ROWS), np.uint8),
        np.empty((threads, SET_ROWS), np.uint32),
        np.empty((threads, SET_ROWS), np.uint32),
        np.empty((threads, SET_ROWS), np.uint64),
    )


def leaf_indices(team: Team, data: Rows, layout: Layout) -> NDArray[np.float32]:
    """Return the number of each row's leaf in each tree, (rows, trees)."""
    leaves = np.empty((data.n_rows, len(layout.roots)), np.float32)
    for start, block, threads in _laid_out(team, data, layout):
        team.run(
            find_leaves,
            threads,
            block,
            layout.roots,
            layout.packed,
            layout.numbers,
            DescentScratch.of(threads, _rows_together(layout, len(block), threads)),
            leaves[start : start + len(block)],
        )
    return leaves


def _rows_together(layout: Layout, rows: int, threads: int) -> int:
    """Return how many rows descend a tree before the next tree."""
    most = ROWS_OF_LARGE if _has_large_trees(layout) else PREDICT_ROWS
    return max(PREDICT_ROWS, min(most, -(-rows // threads)))


def _has_large_trees(layout: Layout) -> bool:
    return layout.nodes.size > _LARGE_TREE * len(layout.roots)


def _laid_out(team: Team, data: Rows, layout: Layout) -> Any:
    """Yield (first row, block, threads), the blocks in the type of the layout."""
    steps = 4 * layout.steps
    return blocks(team, data, layout.thresholds.dtype, layout.features, steps)


def blocks(
    team: Team,
    data: Rows,
    dtype: Any,
    features: NDArray[np.intp] | None,
    steps: int,
) -> Any:
    """Yield (first row, block, threads) for so many steps of work with each row."""
    width = data.n_features if features is None else features.size
    most = _BLOCK_BYTES // max(1, width * dtype.itemsize)
    rows = min(_BLOCK_ROWS, max(PREDICT_ROWS, most))
    for start in range(0, data.n_rows, rows):
        stop = min(start + rows, data.n_rows)
        block = block_of(data, start, stop, dtype, features)
        yield start, block, team.threads_for(len(block) * (steps + width))


def block_of(
    data: Rows, start: int, stop: int, dtype: Any, features: NDArray[np.intp] | None
) -> NDArray[Any]:
    """Return rows `start` to `stop` in a type that kernels read."""
    block = np.ascontiguousarray(data.rows(start, stop, features), dtype)
    # A view of what the caller may not write to has another type for Numba.
    return block if block.flags.writeable else block.copy()


def squeeze_outputs(found: NDArray[Any]) -> NDArray[Any]:
    """Return (rows, ...) if there is one output, else (rows, outputs, ...)."""
    return found[:, 0] if found.shape[1] == 1 else found
