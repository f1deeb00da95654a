"""Leaf values by line search, as in Friedman (2001).

A tree is grown on the negative gradients by least squares, so its splits do not depend
on second derivatives. Then each leaf gets the constant that minimises the loss of its
rows when it is added to their margins: the mean residual, a quantile of the residuals,
or the point where the derivative of the loss changes its sign.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.factory import create_leaf_rows
from hornbeam.kernels.gradient_writer import GradientWriter
from hornbeam.kernels.gradients import LossRows
from hornbeam.objectives.base import Objective
from hornbeam.params import Parameters

__all__ = ["LineSearch", "PseudoResiduals"]

Floats = NDArray[np.float64]

#: A slope this small relative to the one at the start counts as 0.
_FLAT = 2.0**-30
#: The relative precision of a step: leaf values are float32.
_PRECISION = 2.0**-28
#: Evaluations of the slopes of a line; doubling and halving alone take fewer.
_MAX_EVALUATIONS = 200


class PseudoResiduals:
    """The objective's gradients with the weights of rows as hessians.

    The gain of a split is then the reduction of the weighted squared distance between
    negative gradients and their means in the leaves.

    Parameters
    ----------
    objective
        The loss.
    """

    def __init__(self, objective: Objective) -> None:
        self._objective = objective

    def write_gradients(self, rows: LossRows, writer: GradientWriter) -> Floats:
        """Write the gradients, and the weight of each row as its hessian."""
        largest = self._objective.write_gradients(rows, writer)
        hessians = writer.hessians
        hessians[...] = rows.weights if rows.weights.size > 0 else 1.0
        positive_weight = self._objective.positive_weight
        if positive_weight != 1.0:
            hessians *= np.where(rows.targets == 1.0, positive_weight, 1.0)
        largest[:, 1] = hessians.max(axis=1, initial=0.0)
        return largest


class LineSearch:
    """Finds the best constant of each leaf of a tree.

    Parameters
    ----------
    objective
        A loss of single rows.
    targets, weights
        (columns, rows) and (rows,) float64; weights may be None.
    scores
        (outputs, rows) float64: the margins at the beginning of the round.
    parameters
        Of the training.
    """

    def __init__(
        self,
        objective: Objective,
        targets: Floats,
        weights: Floats | None,
        scores: Floats,
        parameters: Parameters,
    ) -> None:
        self._objective, self._scores = objective, scores
        self._targets, self._weights = targets, weights
        assert objective.reach is not None
        limit = parameters.max_delta_step
        self._reach = min(objective.reach, limit if limit > 0.0 else np.inf)
        self._rows = create_leaf_rows(
            targets, weights, scores.copy(), threads=parameters.nthread
        )

    def constants(
        self, output: int, leaf_of: NDArray[np.uint32], n_leaves: int
    ) -> Floats:
        """Return the best constant of each leaf, (leaves,).

        Parameters
        ----------
        output
            The output of the tree; the margins of other outputs stay as they are.
        leaf_of
            (rows,): the leaf of each row; `n_leaves` if the tree was grown without it.
        n_leaves
            The number of leaves of the tree.
        """
        levels = self._objective.leaf_levels
        if levels is None:
            return self._searched(output, leaf_of, n_leaves)
        residuals = self._targets[min(output, len(self._targets) - 1)]
        residuals = residuals - self._scores[output]
        found = _quantiles(residuals, self._weights, leaf_of, n_leaves, levels[output])
        return np.clip(found, -self._reach, self._reach)

    def _slopes(
        self, output: int, leaf_of: NDArray[np.uint32], steps: Floats
    ) -> NDArray[np.float64]:
        """Return the sums of gradients and hessians of leaves after these steps."""
        scores = self._scores.copy()
        scores[output] += np.append(steps, 0.0)[leaf_of]
        self._rows.set_margins(scores)
        self._rows.compute_gradients(self._objective)
        (sums,) = self._rows.sums([output], leaf_of, steps.size)
        return sums

    def _searched(
        self, output: int, leaf_of: NDArray[np.uint32], n_leaves: int
    ) -> Floats:
        slopes, curvatures = self._slopes(output, leaf_of, np.zeros(n_leaves)).T
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = np.abs(slopes) / curvatures
        newton = np.minimum(np.where(curvatures > 0.0, newton, 0.0), self._reach)
        down = -np.sign(slopes)
        if self._objective.is_quadratic:
            return down * newton

        def slopes_along(sizes: Floats) -> Floats:
            """Return the derivatives along the line, negative before the minimum."""
            return down * self._slopes(output, leaf_of, down * sizes)[:, 0]

        return down * _descend(slopes_along, -np.abs(slopes), newton, self._reach)

    def close(self) -> None:
        """Release threads."""
        self._rows.close()


def _descend(
    slopes_along: Callable[[Floats], Floats],
    start: Floats,
    sizes: Floats,
    reach: float,
) -> Floats:
    """Return the step along each line at which its slope reaches 0, up to `reach`.

    Steps are doubled until they are too long. Then the root is bracketed between a
    step that is too short and one that is too long, by secants (the Illinois method)
    and by bisection where secants converge slowly, as at a kink.

    Parameters
    ----------
    slopes_along
        Takes a step on each line and returns the slopes there.
    start
        (lines,): the slopes at 0, none positive.
    sizes
        (lines,): the first steps; a line with 0 keeps it.
    """
    short, far = np.zeros(sizes.size), np.full(sizes.size, np.inf)
    at_short, at_far = start.copy(), np.full(sizes.size, np.inf)
    is_open, width = sizes > 0.0, far
    found = sizes.copy()
    for evaluation in range(_MAX_EVALUATIONS):
        if not is_open.any():
            break
        slopes = slopes_along(found)
        passed = is_open & (slopes > 0.0)
        ahead = is_open & ~passed
        # The end that stays a second time is halved (Illinois).
        at_far = np.where(ahead & (short > 0.0), at_far / 2.0, at_far)
        at_short = np.where(passed & np.isfinite(far), at_short / 2.0, at_short)
        short, at_short = np.where(ahead, [found, slopes], [short, at_short])
        far, at_far = np.where(passed, [found, slopes], [far, at_far])
        is_open &= np.abs(slopes) > _FLAT * np.abs(start)
        is_open &= far - short > _PRECISION * short
        is_open &= passed | (found < reach)
        held = np.isfinite(far)
        with np.errstate(invalid="ignore"):
            following = short - at_short * ((far - short) / (at_far - at_short))
            middle = (short + far) / 2.0
        if evaluation % 3 == 2:
            is_slow, width = far - short > width / 4.0, far - short
            following = np.where(is_slow, middle, following)
        inside = (short < following) & (following < far)
        following = np.where(inside, following, middle)
        following = np.where(held, following, np.minimum(2.0 * found, reach))
        found = np.where(is_open, following, found)
    return found


def _quantiles(
    residuals: Floats,
    weights: Floats | None,
    leaf_of: NDArray[np.uint32],
    n_leaves: int,
    level: float,
) -> Floats:
    """Return the weighted quantile at this level of the residuals in each leaf.

    The midpoint where every value between two residuals minimises the loss; 0 in leaves
    without rows.
    """
    weights = np.ones(residuals.size) if weights is None else weights
    order = np.lexsort((weights, residuals, leaf_of))
    ends = np.searchsorted(leaf_of[order], np.arange(n_leaves + 1))
    found = np.zeros(n_leaves)
    for leaf, (begin, end) in enumerate(itertools.pairwise(ends.tolist())):
        own = order[begin:end]
        if own.size == 0:  # of a symmetric tree
            continue
        up_to = np.cumsum(weights[own])
        wanted = level * up_to[-1]
        place = int(np.searchsorted(up_to, wanted))
        following = min(place + int(up_to[place] == wanted), own.size - 1)
        found[leaf] = (residuals[own[place]] + residuals[own[following]]) / 2.0
    return found
