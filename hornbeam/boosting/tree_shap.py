"""SHAP values of trees, of pairs of features too (Lundberg et al. 2020)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.boosting.linear_shap import (
    add_term_shap,
    paths_of_terms,
    trace_row_terms,
)
from hornbeam.boosting.margins import Rows, blocks, check_values
from hornbeam.forest.layout import Layout
from hornbeam.forest.tree_paths import TreePaths
from hornbeam.kernels.predict import PREDICT_ROWS
from hornbeam.kernels.team import Team
from hornbeam.kernels.tree_shap import (
    ROWS_OF_PATH,
    ShapScratch,
    ShapValues,
    explain_rows,
    trace_rows,
)

__all__ = ["linear_shap_values", "tree_shap_values"]

#: Bytes of the interaction values of a block of rows, and its minimum size.
_PAIR_BYTES = 1 << 22
_FEWEST_ROWS = 8
#: Bytes of values that are computed before they are stored in the type of the result.
_FOUND_BYTES = 1 << 23
#: The cost of one edge for a row and quadrature point, in histogram bins.
_COST_OF_EDGE = 4


def tree_shap_values(
    team: Team,
    data: Rows,
    layout: Layout,
    paths: TreePaths,
    margins: NDArray[np.float64],
    dtype: Any,
    *,
    approximate: bool = False,
    interactions: bool = False,
) -> NDArray[Any]:
    """Return SHAP values, (rows, outputs, features + 1), or interaction values.

    The last is the bias: the expected value of the trees, by their cover, plus the
    initial `margins`, (rows, outputs). A term of a linear leaf is expected to be 0, its
    mean in the leaf, where its feature is unknown.

    Parameters
    ----------
    approximate
        Whether to compute Saabas values instead.
    interactions
        Whether to return (rows, outputs, features + 1, features + 1).
    """
    names = layout.features
    if names is None:
        names = np.arange(data.n_features)
    n_rows, outputs = margins.shape
    n_found = data.n_features + 1
    pairs = interactions and not approximate
    found = np.zeros((n_rows, outputs, *[n_found] * (1 + pairs)), dtype)
    steps = _COST_OF_EDGE * int(
        ((paths.trees["end"] - paths.trees["begin"]) * paths.trees["points"]).sum()
    )
    write = _saabas if approximate else _shap
    terms = None
    if layout.terms is not None:
        check_values(data)
        terms = paths_of_terms(layout, paths)
    for start, block, threads in blocks(
        team, data, layout.thresholds.dtype, layout.features, steps
    ):
        rows = max(ROWS_OF_PATH * threads, _FOUND_BYTES // (8 * found[0].size))
        for first in range(0, len(block), rows):
            part = block[first : first + rows].astype(np.float64, copy=False)
            own = np.zeros((len(part), *found.shape[1:]))
            write(team, threads, part, layout, paths, names, own)
            if terms is not None and approximate:
                trace_row_terms(team, threads, part, layout, names, own)
            elif terms is not None:
                rule = _quadrature(int(paths.trees["points"].max(initial=1)))
                add_term_shap(team, threads, part, layout, terms, rule, names, own)
            found[start + first : start + first + len(part)] = own
    bias = found[..., -1, -1] if pairs else found[..., -1]
    bias[:] = margins + _expected_values(layout, paths, outputs)
    return _diagonal(found) if interactions and not pairs else found


def _expected_values(
    layout: Layout, paths: TreePaths, outputs: int
) -> NDArray[np.float64]:
    """Return the sum of the expected values of the trees of each output."""
    expected = np.zeros(outputs)
    of_trees = paths.means[:, layout.roots[:, 0]]
    if len(of_trees) == 1:
        np.add.at(expected, layout.roots[:, 2], of_trees[0])
    else:
        for of_tree in of_trees.T:
            expected += of_tree
    return expected


def _saabas(
    team: Team,
    threads: int,
    block: NDArray[np.float64],
    layout: Layout,
    paths: TreePaths,
    names: NDArray[np.intp],
    found: NDArray[np.float64],
) -> None:
    """Write Saabas values: the change of the expected value along each path."""
    team.run(
        trace_rows,
        threads,
        block,
        layout.roots,
        layout.double_packed,
        paths.means,
        names,
        np.empty((threads, block.shape[1], PREDICT_ROWS)),
        found,
    )


def _shap(
    team: Team,
    threads: int,
    block: NDArray[np.float64],
    layout: Layout,
    paths: TreePaths,
    names: NDArray[np.intp],
    found: NDArray[np.float64],
) -> None:
    """Write the SHAP values of features, or of pairs of features, to `found`."""
    n_features = block.shape[1]
    n_pairs = n_features**2 if found.ndim == 4 else 0
    rows = min(ROWS_OF_PATH, max(_FEWEST_ROWS, _PAIR_BYTES // (8 * max(1, n_pairs))))
    most_edges = int((paths.trees["end"] - paths.trees["begin"]).max(initial=0))
    levels = int(paths.edges["level"].max(initial=0)) + 1
    points = int(paths.trees["points"].max(initial=1))
    single = found if n_pairs == 0 else np.empty((0, *found.shape[1:3]))
    double = found if n_pairs else np.empty((0, 0, 0, 0))
    team.run(
        explain_rows,
        threads,
        block,
        layout.double_packed,
        layout.by_output,
        paths,
        _quadrature(points),
        ShapScratch(
            np.empty((threads, n_features, rows)),
            np.empty((threads, n_features, rows)),
            np.empty((threads, n_pairs, rows)),
            np.empty((threads, most_edges, points, 6)),
            np.empty((threads, levels), np.int64),
            np.empty((threads, levels, rows), np.int64),
            np.empty((threads, 3, levels, points, rows)),
        ),
        ShapValues(names, single, double),
    )


@lru_cache(maxsize=4)  # of deep trees it has megabytes
def _quadrature(points: int) -> NDArray[np.float64]:
    """Return the points and weights of Gauss-Legendre quadrature on [0, 1].

    (points + 1, 2, points): by the number of points.
    """
    found = np.zeros((points + 1, 2, points))
    for number in range(1, points + 1):
        at, weights = np.polynomial.legendre.leggauss(number)
        found[number, :, :number] = (at + 1.0) / 2.0, weights / 2.0
    return found


def linear_shap_values(
    team: Team,
    data: Rows,
    weights: NDArray[np.float32],
    kind: Any,
    margins: NDArray[np.float64],
    dtype: Any,
    *,
    interactions: bool = False,
) -> NDArray[Any]:
    """Return the SHAP values of a linear model of features of type `kind`.

    The value of a feature is its weight times its value, and 0 if it is missing.
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
    """Return interaction values of features that do not interact."""
    width = found.shape[-1]
    pairs = np.zeros((*found.shape, width), found.dtype)
    places = np.arange(width)
    pairs[..., places, places] = found
    return pairs
