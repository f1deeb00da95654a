"""What the features contribute to margins: one number each, or one for each pair."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.boosting.margins import Rows, blocks
from hornbeam.forest.layout import Layout
from hornbeam.forest.tree_paths import TreePaths
from hornbeam.kernels.predict import PREDICT_ROWS
from hornbeam.kernels.team import Team
from hornbeam.kernels.tree_shap import ROWS_OF_WAY, explain_rows, trace_rows

__all__ = ["contributions_of", "linear_contributions_of"]

#: Bytes of what pairs add up to, in rows that go together, and the fewest such rows.
_PAIR_BYTES = 1 << 22
_FEWEST_ROWS = 8
#: Cells of work in what one edge asks of a row, for each point.
_CELLS_OF_EDGE = 4


def contributions_of(
    team: Team,
    data: Rows,
    layout: Layout,
    ways: TreePaths,
    margins: NDArray[np.float64],
    dtype: Any,
    *,
    approximate: bool = False,
    interactions: bool = False,
) -> NDArray[Any]:
    """Return contributions, (rows, outputs, features + 1), or those of pairs.

    The last is what the trees predict of rows of which nothing is known, on top of
    the margins that they start from, (rows, outputs).
    """
    names = layout.features
    if names is None:
        names = np.arange(data.n_features)
    n_rows, outputs = margins.shape
    n_found = data.n_features + 1
    pairs = interactions and not approximate
    found = np.zeros((n_rows, outputs, *[n_found] * (1 + pairs)), dtype)
    steps = _CELLS_OF_EDGE * int(
        ((ways.trees["end"] - ways.trees["begin"]) * ways.trees["points"]).sum()
    )
    for start, block, members in blocks(
        team, data, layout.thresholds.dtype, layout.features, steps
    ):
        own = found[start : start + len(block)]
        if approximate:
            _trace(team, members, block, layout, ways, names, own)
        else:
            _explain(team, members, block, layout, ways, names, own)
    bias = found[..., -1, -1] if pairs else found[..., -1]
    bias[:] = margins + _unknown(layout, ways, outputs)
    return _diagonal(found) if interactions and not pairs else found


def _unknown(layout: Layout, ways: TreePaths, outputs: int) -> NDArray[np.float64]:
    """Return the sum of the trees of each output for a row that nothing is known of."""
    unknown = np.zeros(outputs)
    for place, output in layout.roots[:, [0, 2]]:
        if len(ways.means) == 1:
            unknown[output] += ways.means[0, place]
        else:
            unknown += ways.means[:, place]
    return unknown


def _trace(
    team: Team,
    members: int,
    block: NDArray[Any],
    layout: Layout,
    ways: TreePaths,
    names: NDArray[np.intp],
    found: NDArray[Any],
) -> None:
    """Write to `found` what the steps down the trees change."""
    team.run(
        trace_rows,
        members,
        block,
        layout.roots,
        layout.nodes,
        layout.thresholds,
        layout.category_spans,
        layout.category_bits,
        ways.means,
        names,
        np.empty((members, block.shape[1], PREDICT_ROWS)),
        found,
    )


def _explain(
    team: Team,
    members: int,
    block: NDArray[Any],
    layout: Layout,
    ways: TreePaths,
    names: NDArray[np.intp],
    found: NDArray[Any],
) -> None:
    """Write to `found` the Shapley values of features, or of pairs of them."""
    n_features = block.shape[1]
    n_pairs = n_features**2 if found.ndim == 4 else 0
    rows = min(ROWS_OF_WAY, max(_FEWEST_ROWS, _PAIR_BYTES // (8 * max(1, n_pairs))))
    most_edges = int((ways.trees["end"] - ways.trees["begin"]).max(initial=0))
    levels = int(ways.edges["level"].max(initial=0)) + 1
    points = int(ways.trees["points"].max(initial=1))
    single = found if n_pairs == 0 else np.empty((0, *found.shape[1:3]), found.dtype)
    double = found if n_pairs else np.empty((0, 0, 0, 0), found.dtype)
    team.run(
        explain_rows,
        members,
        block,
        layout.nodes,
        layout.thresholds,
        layout.category_spans,
        layout.category_bits,
        layout.by_output,
        ways.trees,
        ways.edges,
        _quadrature(points),
        names,
        np.empty((members, n_features, rows), block.dtype),
        np.empty((members, n_features, rows)),
        np.empty((members, n_pairs, rows)),
        np.empty((members, most_edges, points, 6)),
        np.empty((members, levels), np.int64),
        np.empty((members, levels, rows), np.int64),
        np.empty((members, 3, levels, points, rows)),
        single,
        double,
    )


def _quadrature(points: int) -> NDArray[np.float64]:
    """Return the points and weights of integrals from 0 to 1, by their number."""
    found = np.zeros((points + 1, 2, points))
    for number in range(1, points + 1):
        at, weights = np.polynomial.legendre.leggauss(number)
        found[number, :, :number] = (at + 1.0) / 2.0, weights / 2.0
    return found


def linear_contributions_of(
    team: Team,
    data: Rows,
    weights: NDArray[np.float32],
    kind: Any,
    margins: NDArray[np.float64],
    dtype: Any,
    *,
    interactions: bool = False,
) -> NDArray[Any]:
    """Return the same of a linear model of features of type `kind`.

    A feature contributes its weight times its value, and nothing where that is missing.
    """
    found = np.empty((*margins.shape, data.n_features + 1), dtype)
    for start, block, _ in blocks(team, data, np.dtype(kind), None, 0):
        values = np.where(np.isnan(block), 0.0, block.astype(np.float64))
        own = found[start : start + len(block)]
        for k in range(margins.shape[1]):
            own[:, k, :-1] = values * weights[:-1, k]
    found[..., -1] = margins + weights[-1]
    return _diagonal(found) if interactions else found


def _diagonal(found: NDArray[Any]) -> NDArray[Any]:
    """Return contributions as those of pairs, where no feature works with another."""
    width = found.shape[-1]
    pairs = np.zeros((*found.shape, width), found.dtype)
    places = np.arange(width)
    pairs[..., places, places] = found
    return pairs
