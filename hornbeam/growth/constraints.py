"""What the splits of a tree are held to, by what is above them in the tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.schema import listed
from hornbeam.errors import ParameterError

__all__ = ["Constraints", "Tracker", "feature_numbers"]

Nodes = NDArray[np.intp]


def feature_numbers(
    parameter: str,
    features: Sequence[int | str],
    n_features: int,
    names: Sequence[str],
) -> NDArray[np.intp]:
    """Return the numbers of features that a parameter names or numbers.

    Parameters
    ----------
    parameter
        Its name, for the error where there is no such feature.
    features
        Names or numbers.
    n_features, names
        Of the data; there may be no names.
    """
    known: dict[int | str, int] = {name: number for number, name in enumerate(names)}
    known |= {number: number for number in range(n_features)}
    unknown = [feature for feature in features if feature not in known]
    if unknown:
        there_are = listed(names) if names else f"0 to {n_features - 1}"
        raise ParameterError(
            f"{parameter} names {unknown[0]!r}, which is no feature of the training "
            f"data; there are: {there_are}"
        )
    return np.array([known[feature] for feature in features], np.intp)


@dataclass(frozen=True, slots=True)
class Constraints:
    """What all trees of a training are held to.

    Attributes
    ----------
    groups
        (groups, features) bool: features that may go together on a path from the root
        to a leaf; None: any may.
    """

    groups: NDArray[np.bool_] | None = None


class Tracker:
    """The nodes of one growing tree, as far as constraints have to know them.

    Nodes have the numbers that the backend gives them.

    Parameters
    ----------
    constraints
        Of the training.
    n_features
        Of the data.
    """

    def __init__(self, constraints: Constraints, n_features: int) -> None:
        self._groups = constraints.groups
        if self._groups is not None:
            #: The features on the way to each node, and the groups that hold them all.
            self._used = np.zeros((64, n_features), bool)
            self._fitting = np.ones((64, len(self._groups)), bool)

    def enter(self, nodes: Nodes, features: NDArray[np.int32], left: Nodes) -> None:
        """Take note that `nodes` were split by these features."""
        if self._groups is None:
            return
        last = int(left[-1]) + 2
        self._used = _at_least(self._used, last)
        self._fitting = _at_least(self._fitting, last)
        used, fitting = self._used[nodes], self._fitting[nodes]
        used[np.arange(nodes.size), features] = True
        fitting &= self._groups[:, features].T
        for child in (left, left + 1):
            self._used[child] = used
            self._fitting[child] = fitting

    def allowed(
        self, nodes: Nodes, drawn: NDArray[np.uint8] | None
    ) -> NDArray[np.uint8] | None:
        """Return which of the drawn features each node may use; None: all.

        Those on the way to the node, and those of the groups that hold all of them.
        The root may use any feature: one of no group is alone on its paths.
        """
        if self._groups is None or nodes[0] == 0:
            return drawn
        together = self._fitting[nodes] @ self._groups
        allowed = (self._used[nodes] | together).view(np.uint8)
        return allowed if drawn is None else allowed & drawn


def _at_least(table: NDArray[np.bool_], rows: int) -> NDArray[np.bool_]:
    """Return the table with this many rows, or more."""
    if rows <= len(table):
        return table
    more = np.zeros((max(rows, 2 * len(table)), table.shape[1]), bool)
    more[: len(table)] = table
    return more
