"""The contract between the growers and whatever holds the rows.

A backend holds codes, targets, margins and gradients, and knows which node each row is
in. A grower knows trees. Between them pass node numbers, splits and sums, never rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.kernels.layout import SplitRules
from hornbeam.kernels.linear import LinearRules
from hornbeam.kernels.node_constraints import NodeConstraints
from hornbeam.kernels.sampling import DrawKey

__all__ = [
    "Backend",
    "GradientRows",
    "GradientSource",
    "NoSplitGradients",
    "NodeSumRows",
    "RowSample",
    "SplitParams",
    "WeightRows",
]


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
    def key(self) -> DrawKey:
        """What the draws depend on beside the number, as kernels take it."""
        return DrawKey(np.uint64(self.tree), np.uint64(0), np.uint64(self.seed % 2**64))

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
    def rules(self) -> SplitRules:
        """As kernels take them."""
        return SplitRules(
            float(self.reg_lambda),
            float(self.reg_alpha),
            float(self.max_delta_step),
            float(self.min_child_weight),
            float(self.max_cat_to_onehot),
            float(self.max_cat_threshold),
            float(self.min_samples_leaf),
            float(self.path_smooth),
        )


class GradientSource(Protocol):
    """What fills in gradients from margins: an objective."""

    def write_gradients(
        self,
        team: Any,
        margins: NDArray[np.float64],
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

    def margins(self) -> NDArray[np.float64]:
        """Return a copy of the margins, (outputs, rows)."""

    def compute_gradients(self, objective: GradientSource) -> None:
        """Take new gradients from the objective at the present margins."""

    def set_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        """Take these gradients, both of shape (outputs, rows)."""

    def set_split_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        """Search the splits of this round's trees by these, both (columns, rows).

        They come after the gradients that leaves are weighed by, and are dropped with
        them.
        """


class NoSplitGradients:
    """What is searched by the very gradients that its leaves are weighed by."""

    def set_split_gradients(
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

    def begin(self, output: int, rules: LinearRules) -> None:
        """Begin with one output."""

    def sizes(self, weights: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return how large a step each feature's weight would take, (features,)."""

    def descend(self, order: NDArray[np.int64], weights: NDArray[np.float32]) -> None:
        """Move the weights of these features, one after the other."""

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
    multi_output_columns: int = 0

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
    def margins(self) -> NDArray[np.float64]:
        """Return a copy of the margins, (outputs, rows)."""

    @abstractmethod
    def set_margins(self, margins: NDArray[np.float64]) -> None:
        """Take these margins, (outputs, rows)."""

    @abstractmethod
    def compute_gradients(self, objective: GradientSource) -> None:
        """Take new gradients from the objective at the present margins."""

    @abstractmethod
    def set_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        """Take these gradients, both of shape (outputs, rows)."""

    def sketch_outputs(self, mix: NDArray[np.float64]) -> None:
        """Search the splits of this round's trees by these mixes of all outputs.

        `mix` is (columns, outputs), of as many columns as the backend was made for.
        Only a backend for trees of all outputs is asked.
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
