"""Interaction and monotone constraints and feature costs of the nodes of a tree."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import Backend, Constraints, SplitParams
from hornbeam.growth.tree_builder import TreeBuilder
from hornbeam.kernels.interactions import allow_nodes, enter_paths
from hornbeam.kernels.leaves import bound_nodes
from hornbeam.kernels.node_constraints import NO_SIDES, NodeConstraints

__all__ = ["ConstrainedBackend", "ConstraintTracker", "MonotoneBounds", "bounds_in"]

Nodes = NDArray[np.intp]
Floats = NDArray[np.float64]


class ConstraintTracker:
    """The state of the constraints at the nodes of one tree.

    Nodes have the numbers of the backend.

    Parameters
    ----------
    constraints
        Of the training.
    params
        Of the tree.
    n_features
        Number of features.
    multi_output_columns
        Of multi-output trees: number of weights of a node in the split search; 0: one.
    """

    def __init__(
        self,
        constraints: Constraints,
        params: SplitParams,
        n_features: int,
        multi_output_columns: int = 0,
    ) -> None:
        self._constraints, self._is_multi_output = constraints, multi_output_columns > 0
        columns = max(1, multi_output_columns)
        self._n_features = n_features
        #: The sets of features on the path to each node.
        self._used = np.zeros((64, -(-n_features // 64)), np.uint64)
        self._monotone = MonotoneBounds.of(constraints, columns)
        self._limits = constraints.limits(params, n_features)
        #: The weight of each node in each column, if there are limits; NaN at the root.
        self._weights = np.full((64, columns), np.nan)
        #: (nodes, columns, 2): the weights of its children, or of those that it would
        #: get.
        self.sides = np.zeros((64, columns, 2))

    def add_children(self, nodes: Nodes, splits: NDArray[Any], left: Nodes) -> None:
        """Enter the children of split nodes."""
        last, features = int(left[-1]) + 2, np.ascontiguousarray(splits["feature"])
        self._used = _at_least(self._used, last)
        enter_paths(nodes, features, left, self._used)
        if self._limits is not None:
            self._weights = _at_least(self._weights, last)
            self._weights[left] = self.sides[nodes, :, 0]
            self._weights[left + 1] = self.sides[nodes, :, 1]
        if self._monotone is not None:
            self._monotone.add_children(nodes, features, left, self.sides[nodes])

    def set_best(
        self, nodes: Nodes, splits: NDArray[Any], limits: NodeConstraints | None
    ) -> None:
        """Enter the best splits of these nodes, which were found under these limits."""
        if limits is None:
            return
        sides = limits.sides
        if not self._is_multi_output:
            sides = np.stack([splits["left_weight"], splits["right_weight"]], axis=1)
        self.sides = _at_least(self.sides, int(nodes[-1]) + 1)
        self.sides[nodes] = sides.reshape(nodes.size, -1, 2)
        if self._monotone is not None:
            self._monotone.set_best(nodes, splits, self.sides[nodes])

    def allowed(
        self, nodes: Nodes, drawn: NDArray[np.uint8] | None
    ) -> NDArray[np.uint8] | None:
        """Return which of the drawn features each node may use; None: all.

        Those on the path to the node, and those of the groups that contain all of them.
        The root may use any feature: one without a group does not interact with others.
        """
        groups = self._constraints.groups
        if groups is None or nodes[0] == 0:
            return drawn
        if drawn is None:
            drawn = np.ones((nodes.size, self._n_features), np.uint8)
        allow_nodes(nodes, self._used, groups, drawn)
        return drawn

    def limits(self, nodes: Nodes) -> NodeConstraints | None:
        """Return the constraints of the splits of these nodes; None: none."""
        if self._limits is None:
            return None
        weights = self._weights[nodes]
        bounds = np.tile([-np.inf, np.inf], (*weights.shape, 1))
        if self._monotone is not None:
            bounds = self._monotone.bounds(nodes)[:, nodes].swapaxes(0, 1).copy()
        if not self._is_multi_output:
            bounds, weights = bounds[:, 0], weights[:, 0]
        return self._limits._replace(
            bounds=np.ascontiguousarray(bounds),
            weights=np.ascontiguousarray(weights),
            used=self._used[nodes],
            sides=np.full((*weights.shape, 2), np.nan)
            if self._is_multi_output
            else NO_SIDES,
        )


class MonotoneBounds:
    """Bounds of the weights of nodes under monotone constraints.

    Parameters
    ----------
    directions
        Of the features, as in `Constraints`.
    columns
        Number of weights of each node.
    follows
        Whether bounds are updated with the weights as the tree grows. If not, the bound
        between two children is the mean of their weights when they were split.
    """

    def __init__(
        self, directions: NDArray[np.int8], columns: int, follows: bool
    ) -> None:
        self._directions, self._follows = directions, follows
        self._n_nodes = 1
        self._left = np.full(64, -1, np.int32)
        #: The directions of the splits.
        self._directed = np.zeros(64, np.int8)
        #: The range of the weights of each node and of the children it would get.
        self._reach = np.zeros((64, columns, 2))

    @classmethod
    def of(cls, constraints: Constraints, columns: int) -> MonotoneBounds | None:
        """Return the bounds of these constraints; None: none is monotone."""
        if constraints.directions is None:
            return None
        return cls(constraints.directions, columns, constraints.bounds_follow)

    def add_children(
        self, nodes: Nodes, features: NDArray[np.int32], left: Nodes, sides: Floats
    ) -> None:
        """Enter the children of split nodes.

        `sides`, (nodes, columns, 2), are the weights of the left and right children.
        """
        self._n_nodes = max(self._n_nodes, int(left.max(initial=-1)) + 2)
        self._left = _at_least(self._left, self._n_nodes)
        self._directed = _at_least(self._directed, self._n_nodes)
        self._reach = _at_least(self._reach, self._n_nodes)
        self._left[left] = self._left[left + 1] = -1
        self._left[nodes] = left
        self._directed[nodes] = self._directions[features]
        self._reach[left] = sides[:, :, :1]
        self._reach[left + 1] = sides[:, :, 1:]

    def set_best(self, nodes: Nodes, splits: NDArray[Any], sides: Floats) -> None:
        """Enter the best splits of nodes, which their bounds follow."""
        if self._follows:
            chosen = splits["gain"] > 0.0
            own = np.concatenate([self._reach[nodes[chosen]], sides[chosen]], axis=2)
            self._reach[nodes[chosen], :, 0] = own.min(axis=2)
            self._reach[nodes[chosen], :, 1] = own.max(axis=2)

    def bounds(self, growing: Nodes | None = None) -> Floats:
        """Return the minimum and maximum weight of each node's subtree.

        They are (columns, nodes, 2). `growing` are the nodes whose splits are searched
        next; None: all.
        """
        grows = np.ones(self._n_nodes, np.uint8)
        if self._follows and growing is not None:
            grows[:] = 0
            grows[growing] = 1
        count = slice(self._n_nodes)
        reach = self._reach[count].swapaxes(0, 1).copy()
        bounds = np.empty_like(reach)
        for own, bounded in zip(reach, bounds, strict=True):
            bound_nodes(
                self._left[count],
                self._directed[count],
                self._follows,
                own,
                grows.copy(),
                bounded,
            )
        return bounds


def bounds_in(
    tree: TreeBuilder, constraints: Constraints, sides: Floats | None = None
) -> NDArray[np.float64] | None:
    """Return the least and the largest weight of each node, (columns, nodes, 2).

    `sides`, (nodes of the backend, columns, 2), are the weights of the children of
    splits in multi-output trees. Returns None where no constraint is monotone.
    """
    if constraints.directions is None:
        return None
    left = tree.left[: tree.n_nodes].astype(np.intp)
    inner = np.flatnonzero(left >= 0)
    splits = tree.splits[inner]
    if sides is None:
        weights = np.stack([splits["left_weight"], splits["right_weight"]], axis=1)
        own = weights[:, None]
    else:
        own = sides[tree.origin[inner]]
    bounds = MonotoneBounds(
        constraints.directions, own.shape[1], constraints.bounds_follow
    )
    bounds.add_children(inner, splits["feature"], left[inner], own)
    return bounds.bounds()


AnyArray = TypeVar("AnyArray", bound=NDArray[Any])


def _at_least(table: AnyArray, rows: int) -> AnyArray:
    """Return the table with at least this many rows."""
    if rows <= len(table):
        return table
    more = np.zeros((max(rows, 2 * len(table)), *table.shape[1:]), table.dtype)
    more[: len(table)] = table
    return more  # type: ignore[return-value]


class ConstrainedBackend:
    """A backend that finds and applies splits under constraints.

    Parameters
    ----------
    backend
        In which a tree has begun.
    params
        Of the tree.
    constraints
        Of the training; None: rows are counted, and there are no constraints.

    Attributes
    ----------
    lookahead
        Number of nodes that a leaf-wise grower should split at a time.
    """

    def __init__(
        self, backend: Backend, params: SplitParams, constraints: Constraints | None
    ) -> None:
        self._backend = backend
        # Bounds that follow the tree depend on all splits that come before.
        follows = constraints is not None and constraints.bounds_follow
        self.lookahead = 1 if follows else backend.lookahead
        self._tracker = ConstraintTracker(
            constraints or Constraints(),
            params,
            backend.n_features,
            backend.multi_output_columns,
        )

    def find_splits(
        self, nodes: NDArray[np.intp], drawn: NDArray[np.uint8] | None
    ) -> tuple[NDArray[Any], NDArray[np.uint64]]:
        """Return the best splits of these nodes among the features drawn for each.

        The arrays are those of `Backend.find_splits`.
        """
        allowed = self._tracker.allowed(nodes, drawn)
        limits = self._tracker.limits(nodes)
        splits, sets = self._backend.find_splits(nodes, allowed, limits)
        self._tracker.set_best(nodes, splits, limits)
        return splits, sets

    def apply_splits(
        self,
        nodes: NDArray[np.intp],
        splits: NDArray[Any],
        sets: NDArray[np.uint64],
        left: NDArray[np.intp],
    ) -> None:
        """Split the nodes; their children are ``left`` and ``left + 1``."""
        self._backend.apply_splits(nodes, splits, sets, left)
        self._tracker.add_children(nodes, splits, left)

    @property
    def sides(self) -> NDArray[np.float64] | None:
        """The weights of the children of splits, (nodes of the backend, columns, 2).

        None in trees of one output, whose splits have them.
        """
        return self._tracker.sides if self._backend.multi_output_columns > 0 else None
