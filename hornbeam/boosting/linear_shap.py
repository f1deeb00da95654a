"""SHAP values of the terms of linear leaves, besides those of the constants."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.forest.layout import Layout
from hornbeam.forest.tree_paths import TreePaths
from hornbeam.kernels.linear_shap import (
    LeafPaths,
    TermScratch,
    explain_terms,
    explain_terms_against,
    mark_takers,
    trace_terms,
)
from hornbeam.kernels.team import Team

__all__ = [
    "add_term_shap",
    "add_terms_against",
    "paths_of_terms",
    "trace_row_terms",
]

Floats = NDArray[np.float64]

#: Bytes of the background rows that are marked at a time.
_BYTES_OF_TAKERS = 1 << 26


def paths_of_terms(layout: Layout, paths: TreePaths) -> LeafPaths:
    """Return the paths to the leaves of `layout` that have terms."""
    terms, edges = layout.terms, paths.edges
    assert terms is not None
    counts = np.diff(terms.starts)
    leaves = np.flatnonzero(counts)
    above = np.full(layout.nodes.size, -1)
    above[edges["child"]] = np.arange(edges.size)
    columns = []
    edge = above[leaves]
    while (edge >= 0).any():
        columns.append(edge)
        parent = np.where(edge >= 0, edges["parent"][edge], 0)
        edge = np.where(edge >= 0, above[parent], -1)
    by_leaf = np.stack(columns, axis=1) if columns else np.empty((0, 1), np.int64)
    is_edge = by_leaf >= 0
    own = edges[by_leaf]
    sizes = own["features"][:, 0].astype(np.int64)
    features = np.full((leaves.size, int(sizes.max(initial=1))), -1)
    shares = np.ones(features.shape)
    for k in reversed(range(by_leaf.shape[1])):
        # The lowest edge of a slot comes last and has the share of all.
        rows = np.flatnonzero(is_edge[:, k])
        slots = own["bit"][rows, k]
        features[rows, slots] = own["feature"][rows, k]
        shares[rows, slots] = own["share"][rows, k]
    parts = [own["parent"], own["is_right"], own["bit"]]
    tree = np.searchsorted(layout.roots[:, 0], leaves, side="right") - 1
    leaf_of_term = np.repeat(np.arange(leaves.size), counts[leaves])
    is_slot = features[leaf_of_term] == terms.terms["feature"][:, None]
    return LeafPaths(
        layout.roots[tree, 2].astype(np.int64),
        sizes,
        features,
        shares,
        np.where(is_edge[:, :, None], np.stack(parts, axis=2), -1).astype(np.int64),
        np.append(0, np.cumsum(counts[leaves])),
        is_slot.argmax(axis=1),
        terms.terms,
    )


def _scratch(threads: int, paths: LeafPaths) -> TermScratch:
    slots = paths.features.shape[1]
    return TermScratch(
        np.empty((threads, slots), np.uint8), np.empty((threads, 3, slots))
    )


def add_term_shap(
    team: Team,
    threads: int,
    block: Floats,
    layout: Layout,
    paths: LeafPaths,
    quadrature: Floats,
    names: NDArray[np.intp],
    found: Floats,
) -> None:
    """Add the SHAP values of terms, or of pairs of features, to `found`."""
    by_pairs = found.ndim == 4
    team.run(
        explain_terms,
        threads,
        block,
        layout.double_packed,
        paths,
        quadrature,
        _scratch(threads, paths),
        names,
        np.empty((0, *found.shape[1:3])) if by_pairs else found,
        found if by_pairs else np.empty((0, 0, 0, 0)),
    )


def trace_row_terms(
    team: Team,
    threads: int,
    block: Floats,
    layout: Layout,
    names: NDArray[np.intp],
    found: Floats,
) -> None:
    """Add the terms of the leaves that rows reach to their features in `found`."""
    arrays = layout.roots, layout.double_packed, layout.terms, names
    team.run(trace_terms, threads, block, *arrays, found)


def add_terms_against(
    team: Team,
    rows: Floats,
    others: Floats,
    background_shares: Floats,
    layout: Layout,
    paths: LeafPaths,
    weights: Floats,
    found: Floats,
) -> None:
    """Add the interventional SHAP values of terms to `found`.

    `found` is (rows, outputs, columns), `weights` those of numbers of features.
    """
    shape = paths.features.shape
    together = max(1, _BYTES_OF_TAKERS // max(1, shape[0] * shape[1]))
    for first in range(0, len(others), together):
        own = others[first : first + together]
        takers = np.empty((len(own), *shape), np.uint8)
        packed = layout.double_packed
        threads = team.threads_for(4 * takers.size)
        team.run(mark_takers, threads, own, packed, paths, takers)
        threads = team.threads_for(4 * takers.size * len(rows))
        team.run(
            explain_terms_against,
            threads,
            rows,
            own,
            background_shares[first : first + together],
            packed,
            paths,
            takers,
            weights,
            _scratch(threads, paths),
            found,
        )
