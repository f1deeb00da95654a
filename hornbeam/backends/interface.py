"""The interface between tree growers and backends.

A backend has the bins, targets, margins and gradients of the rows, and knows the node
of each row. A grower has the tree. They exchange node numbers, splits and sums, never
rows.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.kernels.gradient_writer import GradientWriter
from hornbeam.kernels.gradients import LossRows
from hornbeam.kernels.layout import SplitRules
from hornbeam.kernels.leaves import NodeColumns
from hornbeam.kernels.linear import LinearRules
from hornbeam.kernels.linear_leaves import NodeTerms
from hornbeam.kernels.node_constraints import NodeConstraints
from hornbeam.kernels.sampling import ColumnDraws, DrawKey
from hornbeam.kernels.tree_tables import GrowthRules
from hornbeam.params import GAIN_EPSILON

__all__ = [
    "EVERY_FEATURE",
    "NO_FEATURES",
    "Backend",
    "Constraints",
    "GradientRows",
    "GradientSource",
    "GrownRounds",
    "GrownTree",
    "GrowthLimits",
    "LeafFeatures",
    "LeafSlopes",
    "NoSplitGradients",
    "NodeSumRows",
    "RowLoss",
    "RowSample",
    "SplitParams",
    "WeightRows",
]

#: The mask that kernels take where each node may use each feature of the tree.
EVERY_FEATURE = np.empty((0, 0), np.uint8)
#: No sets of features.
NO_FEATURES = np.empty((0, 0), np.uint64)


@dataclass(frozen=True, slots=True)
class RowSample:
    """The sample of rows that a tree is grown on (`subsample`), drawn by row numbers.

    Attributes
    ----------
    rate
        The share of the rows.
    seed, tree
        That the draws depend on in addition to the row number.
    by_gradient
        Whether rows with large gradients are drawn more often; see
        `backends.gradient_sampling`. Otherwise each has the probability `rate`.
    top_rate
        The share of the rows with the largest gradients, all of which are drawn (GOSS);
        all others have the same probability. None: it depends on the gradient (MVS).
    hessian_weight, threshold, rest
        Of these probabilities; set by `backends.gradient_sampling`.
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
    def key(self) -> DrawKey:
        """The key of the draws, for kernels."""
        return DrawKey(np.uint64(self.tree), np.uint64(0), np.uint64(self.seed % 2**64))

    @property
    def limit(self) -> int:
        """A row is drawn if 32 uniform random bits are below this."""
        return int(self.rate * 2.0**32)


@dataclass(frozen=True, slots=True)
class SplitParams:
    """The training parameters of the split search and of leaf weights.

    Attributes
    ----------
    rules
        Those that kernels need.
    counts_rows
        Whether the split search needs row counts.
    """

    reg_lambda: float
    reg_alpha: float
    max_delta_step: float
    min_child_weight: float
    max_cat_to_onehot: int = 4
    max_cat_threshold: int = 64
    min_samples_leaf: int = 0
    path_smooth: float = 0.0
    cat_smooth: float = 0.0
    cat_l2: float = 0.0
    min_data_per_group: int = 0
    rows_cost: bool = False
    default_direction: str = "learn"
    opt_dense_col: float = 1.0

    rules: SplitRules = field(init=False, repr=False, compare=False)
    counts_rows: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        rules = SplitRules(
            float(self.reg_lambda),
            float(self.reg_alpha),
            float(self.max_delta_step),
            float(self.min_child_weight),
            float(self.max_cat_to_onehot),
            float(self.max_cat_threshold),
            float(self.min_samples_leaf),
            float(self.path_smooth),
            float(self.cat_smooth),
            float(self.cat_l2),
        )
        counts = self.min_samples_leaf > 1 or self.path_smooth > 0.0 or self.rows_cost
        object.__setattr__(self, "rules", rules)
        object.__setattr__(self, "counts_rows", counts)

    def rules_for(self, mean_hessian: float) -> SplitRules:
        """Return the rules of a tree whose rows have hessians of this mean.

        A sum of hessians, divided by the mean and rounded, is the number of rows by
        which categories are left out of the sort and gathered in groups.
        """
        if self.cat_smooth == 0.0 and self.min_data_per_group == 0:
            return self.rules
        least = [math.ceil(self.cat_smooth), self.min_data_per_group]
        of_category, of_group = [(rows - 0.5) * mean_hessian for rows in least]
        return self.rules._replace(
            min_category_weight=of_category if self.cat_smooth > 0.0 else -math.inf,
            min_group_weight=max(of_group, 0.0),
        )


@dataclass(frozen=True, slots=True)
class GrowthLimits:
    """Limits of the size of a tree.

    Parameters
    ----------
    lossguide
        Split the leaf with the highest gain next, instead of whole levels.
    max_depth, max_leaves
        0 means no limit.
    gamma
        The minimum gain of a split; in symmetric trees of the split of a level.
    prunes
        Whether splits with a lower gain are pruned when the tree is complete: then such
        a split stays if there are better ones below it. Otherwise it is never applied.
    symmetric
        Split all nodes of a level alike.
    gain_epsilon
        A split has to gain more than this for any `gamma`.
    """

    lossguide: bool
    max_depth: int
    max_leaves: int
    gamma: float
    prunes: bool = False
    symmetric: bool = False
    gain_epsilon: float = GAIN_EPSILON

    @property
    def least_gain(self) -> float:
        """The least gain of a split that is applied while the tree grows."""
        above_epsilon = math.nextafter(self.gain_epsilon, math.inf)
        return above_epsilon if self.prunes else max(self.gamma, above_epsilon)

    def weighs_early(self, path_smooth: float) -> bool:
        """Return whether nodes may be weighed as soon as their tree is grown.

        Otherwise some weights follow from pruning, or from those of other nodes.
        """
        return not (self.prunes or self.symmetric or path_smooth > 0.0)

    def rules(
        self, split: SplitRules, scales: NDArray[np.float64], packs: bool, columns: int
    ) -> GrowthRules:
        """Return the rules for the kernels that grow whole trees; see `GrowthRules`."""
        sizes = self.max_depth, self.max_leaves
        least = self.least_gain
        return GrowthRules(split, scales, least, *sizes, self.lossguide, packs, columns)

    def deep_enough(self, depth: int) -> bool:
        """Return whether nodes at this depth stay leaves."""
        return 0 < self.max_depth <= depth

    def leaves_left(self, leaves: int) -> int:
        """Return how many more splits a tree with this number of leaves may have."""
        return self.max_leaves - leaves if self.max_leaves > 0 else sys.maxsize

    def worthwhile(self, gains: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which splits have enough gain."""
        return gains >= self.least_gain


@dataclass(frozen=True, slots=True)
class Constraints:
    """The constraints of all trees of a training.

    Attributes
    ----------
    groups
        (groups, words) uint64: sets of features that may interact, which is be on one
        path from the root to a leaf; None: any may.
    directions
        (features,) int8: 1 where predictions must not fall as the feature rises, -1
        where they must not rise, 0 without constraint; None: none has one.
    bounds_follow
        Whether the resulting bounds of weights are updated as the tree grows.
    costs
        (features,) float64: the gain that a split needs in addition if no node above
        uses its feature; None: nothing.
    """

    groups: NDArray[np.uint64] | None = None
    directions: NDArray[np.int8] | None = None
    bounds_follow: bool = False
    costs: NDArray[np.float64] | None = None

    @property
    def follow_paths(self) -> bool:
        """Whether those of a node depend on the features on the path to it."""
        return self.groups is not None or self.costs is not None

    def limits(
        self, params: SplitParams, n_features: int, row_unit: int = 1
    ) -> NodeConstraints | None:
        """Return those of the split search, as yet of no node; None: none."""
        if not params.counts_rows and self.directions is None and self.costs is None:
            return None
        directions, costs = self.directions, self.costs
        return NodeConstraints(
            np.empty((0, 2)),
            np.empty(0),
            np.zeros(n_features, np.int8) if directions is None else directions,
            np.empty(0) if costs is None else costs,
            NO_FEATURES,
            params.rows_cost,
            float(row_unit),
        )


class GrownTree(NamedTuple):
    """A tree that a backend has grown; node 0 is the root.

    Attributes
    ----------
    left, parent
        (nodes,) int32: -1 where there is none; the right child is ``left + 1``.
    splits
        (nodes,) `SPLIT_DTYPE`, zeros at leaves; valid until the next tree begins.
    sets
        (nodes, words) uint64: the categories that go right in categorical splits; valid
        as long.
    columns
        Those that follow from the weights of the nodes; None: these are not known.
    is_beyond
        Whether a leaf value is beyond float32.
    sides
        (nodes, columns, 2) float64: under constraints the weights of the children of
        splits, where these have to be weighed; valid as long.
    """

    left: NDArray[np.int32]
    parent: NDArray[np.int32]
    splits: NDArray[Any]
    sets: NDArray[np.uint64]
    columns: NodeColumns | None = None
    is_beyond: bool = False
    sides: NDArray[np.float64] | None = None


class GrownRounds(NamedTuple):
    """Trees of several rounds, one for each output, whose nodes follow each other.

    Attributes
    ----------
    nodes
        Of all trees; the numbers of children and parents are those in their tree.
    starts
        (trees + 1,) int64: the first node of each tree, round by round.
    """

    nodes: GrownTree
    starts: NDArray[np.int64]


class LeafFeatures(NamedTuple):
    """The features that the leaves of a tree are regressed on.

    Attributes
    ----------
    data
        (rows, columns) float32 or float64; NaN is missing.
    spans
        (columns, 3): the least value, the range, and 1 / the range of each column.
    columns
        (leaves, features) int64: the columns of each leaf, then -1.
    """

    data: NDArray[Any]
    spans: NDArray[np.float64]
    columns: NDArray[np.int64]


class LeafSlopes(NamedTuple):
    """What the regressions found.

    Attributes
    ----------
    steps
        (leaves, features): the change of the leaf's weight over the radius of a
        feature.
    centred
        (6, leaves, features): where the values of the features are; see
        `hornbeam.kernels.linear_leaves.centre_features`.
    """

    steps: NDArray[np.float64]
    centred: NDArray[np.float64]


class GradientSource(Protocol):
    """Computes gradients from margins: an objective."""

    def write_gradients(
        self, rows: LossRows, writer: GradientWriter
    ) -> NDArray[np.float64]:
        """Write a gradient and a hessian for each output and row, (outputs, rows).

        Leaf values that the rows lack are added to their margins first. Returns the
        largest |g| and |h| of each output, (outputs, 2); infinite or NaN where one is.
        """


class RowLoss(Protocol):
    """A loss of the rows, whose gradients a kernel computes row by row."""

    @property
    def kernel(self) -> Callable[..., None]:
        """The kernel of `hornbeam.kernels.gradients`."""

    @property
    def kernel_numbers(self) -> NDArray[np.float64]:
        """Its scalar arguments."""


class GradientRows(Protocol):
    """Rows with margins and gradients."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def n_outputs(self) -> int:
        """Number of margins of a row."""

    def margins(self) -> NDArray[np.float64]:
        """Return a copy of the margins, (outputs, rows)."""

    def compute_gradients(self, objective: GradientSource) -> None:
        """Compute gradients from the objective at the current margins."""

    def set_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        """Set these gradients, both of shape (outputs, rows)."""

    def set_split_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        """Search the splits of this round by these gradients, both (columns, rows).

        Leaf weights come from the outputs' gradients, which are set first; setting them
        again drops these.
        """


class NoSplitGradients:
    """Base class of rows whose splits are searched by the outputs' gradients."""

    def set_split_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        """Raise a `ParameterError`: other gradients are not supported."""
        raise ParameterError(
            "split gradients are for new multi-output trees, and this training has "
            "none; set multi_strategy='multi_output_tree', leave sketch_outputs out, "
            "or return (gradients, hessians) alone",
            code=ErrorCode.CONFLICTING_PARAMETERS,
        )


class WeightRows(GradientRows, Protocol):
    """Rows of a linear model, whose weights are fitted by coordinate descent."""

    n_features: int

    def begin(self, output: int, rules: LinearRules) -> None:
        """Begin with the gradients of one output."""

    def sizes(self, weights: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the size of the next update of each feature's weight, (features,)."""

    def descend(self, order: NDArray[np.int64], weights: NDArray[np.float32]) -> None:
        """Update the weights of these features in this order; the last is the bias."""

    def close(self) -> None:
        """Release threads."""


class NodeSumRows(GradientRows, Protocol):
    """Rows whose gradients are summed over the nodes of trees that exist already."""

    def sums(
        self, outputs: Sequence[int], nodes: NDArray[np.uint32], n_nodes: int
    ) -> NDArray[np.float64]:
        """Return the sums of gradients and hessians, (outputs, nodes, 2).

        `nodes`, (rows,), is the node of each row.
        """

    def close(self) -> None:
        """Release threads."""


class Backend(NoSplitGradients, ABC):
    """Rows, and the operations by which trees are grown on them.

    A round calls `compute_gradients` or `set_gradients`; then for each tree
    `begin_tree`, any number of `find_splits` or `find_level_split` and `apply_splits`,
    `sum_leaves` and `add_leaf_values`. Or `begin_tree`, `grow` and `add_leaf_values`,
    with `sum_leaves` between these if the tree has not been weighed. Node 0 is the
    root; the children of a split have consecutive numbers, the left one first.

    A backend is created for trees of one output each, or for multi-output trees, whose
    leaves have a value for each output.
    """

    #: Number of nodes that a leaf-wise grower should split at a time.
    lookahead: int = 1
    #: Number of gradient columns that the splits of multi-output trees are searched by;
    #: 0: trees have one output each.
    multi_output_columns: int = 0

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    @abstractmethod
    def n_outputs(self) -> int:
        """Number of margins of a row."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Number of features."""

    @abstractmethod
    def margins(self) -> NDArray[np.float64]:
        """Return a copy of the margins, (outputs, rows)."""

    @abstractmethod
    def set_margins(self, margins: NDArray[np.float64]) -> None:
        """Set these margins, (outputs, rows)."""

    @abstractmethod
    def compute_gradients(self, objective: GradientSource) -> None:
        """Compute gradients from the objective at the current margins."""

    @abstractmethod
    def set_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        """Set these gradients, both of shape (outputs, rows)."""

    def sketch_outputs(self, projection: NDArray[np.float64]) -> None:
        """Search the splits of this round by projections of the outputs' gradients.

        `projection` is (`multi_output_columns`, outputs). Only backends of multi-output
        trees have it.
        """
        raise NotImplementedError

    @abstractmethod
    def begin_tree(
        self,
        output: int,
        params: SplitParams,
        features: NDArray[np.uint64],
        sample: RowSample | None,
    ) -> None:
        """Put all rows, or a sample, into the root of a new tree for one output.

        `features` are the only ones that the tree may split on, ascending. `output` is
        0 in multi-output trees.
        """

    def grow(
        self,
        limits: GrowthLimits,
        draws: ColumnDraws,
        learning_rate: float | None,
        constraints: Constraints | None = None,
    ) -> GrownTree | None:
        """Grow the whole tree that has begun; None: the grower has to.

        With a `learning_rate` the nodes are weighed, as `sum_leaves` and
        `kernels.leaves` would do it without bounds of weights.
        """
        return None

    def grow_rounds(self, loss: RowLoss, wanted: int) -> GrownRounds | None:
        """Do up to `wanted` rounds like the last one in one job; None: it cannot.

        That was one of this loss and of one tree for each output, which `grow` has
        grown and weighed, of all rows and the same features. Adds the leaf values of
        all rounds to the margins.
        """
        return None

    def find_splits(
        self,
        nodes: NDArray[np.intp],
        allowed: NDArray[np.uint8] | None,
        limits: NodeConstraints | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.uint64]]:
        """Return the best split of each node as (nodes,) `SPLIT_DTYPE`, and the sets.

        The sets, (nodes, words) uint64, are bit sets of the categories that go right
        in categorical splits; they have no words if no feature is categorical.

        `nodes` is the root alone or whole pairs of siblings. `allowed`, of shape
        (nodes, features), are the features that each node may use; None: all. `limits`
        are the other constraints; they are given for all nodes of a tree or for none,
        and always if rows are counted.

        Backends that grow whole trees of all kinds lack it and `apply_splits`.
        """
        raise NotImplementedError

    def find_level_split(
        self, nodes: NDArray[np.intp], allowed: NDArray[np.uint8] | None
    ) -> tuple[NDArray[Any], NDArray[np.uint64], float]:
        """Return the split that all these nodes gain the most by together.

        The records and sets are those of `find_splits`, equal in all nodes but for
        their sums and gains. The last is the gain of the level; it is 0, and there are
        no records, if no split has any.
        `nodes` are a whole level, `allowed` the features for it, (1, features).

        Raises a `ParameterError` if the backend has no histograms of nodes.
        """
        raise ParameterError(
            "grow_policy='symmetric' adds up the histograms of the nodes of a level, "
            "and a matrix so sparse that only its stored entries have bins is searched "
            "without histograms; make a DMatrix of a dense table, or leave grow_policy "
            "out",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )

    def apply_splits(
        self,
        nodes: NDArray[np.intp],
        splits: NDArray[Any],
        sets: NDArray[np.uint64],
        left: NDArray[np.intp],
    ) -> None:
        """Move the rows of each node to its children ``left`` and ``left + 1``."""
        raise NotImplementedError

    @abstractmethod
    def sum_leaves(
        self, nodes: NDArray[np.intp], leaves: NDArray[np.intp], n_leaves: int
    ) -> NDArray[np.float64]:
        """Return the sums of gradients and hessians of the leaves, (leaves, 2).

        In multi-output trees they are (outputs, leaves, 2), after `set_split_gradients`
        (outputs + columns, leaves, 2). `nodes` are all nodes without children, and the
        rows of ``nodes[i]`` belong to leaf ``leaves[i]`` of the tree: speculative
        splits may have split a leaf further.
        """

    def leaf_of(self) -> NDArray[np.uint32]:
        """Return the leaf of each row by the last `sum_leaves`, (rows,).

        Rows that are not in the sample have the number of leaves. Only backends with
        all rows in memory have it.
        """
        raise NotImplementedError

    @abstractmethod
    def add_leaf_values(self, values: NDArray[np.float32]) -> None:
        """Add to the margins of every row, sampled or not, the value of its leaf.

        The leaves are those of the last `sum_leaves`; in multi-output trees the values
        are (leaves, outputs).
        """

    def regress_leaves(
        self, features: LeafFeatures, linear_lambda: float
    ) -> LeafSlopes:
        """Return the ridge regressions of the leaves of the last `sum_leaves`.

        Only backends with all rows in memory have it, for trees of one output.
        """
        raise NotImplementedError

    def add_linear_leaves(
        self, data: NDArray[Any], values: NDArray[np.float32], leaves: NodeTerms
    ) -> None:
        """Add to the margins of every row what its leaf predicts.

        That is the value of the leaf, of `values` (leaves,), and its terms. Only
        backends with all rows in memory have it, for trees of one output.
        """
        raise NotImplementedError

    @abstractmethod
    def close(self) -> None:
        """Release threads and memory."""
