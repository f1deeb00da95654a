"""Rows in several parts, added up: what a cluster does, within one process."""

from __future__ import annotations

import numpy as np

from hornbeam.backends.base import DenseCodes
from hornbeam.backends.dense import DenseRows
from hornbeam.backends.rows import Rows


def split_codes(codes, rows):
    """Return the codes of these rows."""
    by_row = codes.by_row.reshape(codes.by_feature.shape[::-1])
    by_feature = np.ascontiguousarray(codes.by_feature[:, rows])
    return DenseCodes(
        by_feature, np.ascontiguousarray(by_row[rows]).ravel(), codes.layout
    )


def spans_of(rows):
    """Return the runs of neighbours among `rows`: first place, and number of it."""
    firsts = np.flatnonzero(np.diff(rows, prepend=-9) != 1)
    return np.stack([firsts, rows[firsts]], axis=1)


class PartedRows(Rows):
    """Rows of several parts, each a list of row numbers.

    `sized` says whether parts tell the sizes of nodes, as rows on disk do not.
    """

    def __init__(self, parts, codes, labels, weights, scores, team, sized=True):
        self.n_outputs, self.n_rows = scores.shape
        self._sized = sized
        self._numbers = [np.asarray(part, np.int64) for part in parts]
        self._parts = [
            DenseRows(
                split_codes(codes, rows),
                labels[rows],
                None if weights is None else weights[rows],
                np.ascontiguousarray(scores[:, rows]),
                team,
                spans_of(rows),
            )
            for rows in self._numbers
        ]

    def compute_gradients(self, objective):
        for part in self._parts:
            part.compute_gradients(objective)

    def set_gradients(self, gradients, hessians):
        for part, rows in zip(self._parts, self._numbers, strict=True):
            part.set_gradients(gradients[:, rows], hessians[:, rows])

    def extents(self):
        found = np.stack([part.extents() for part in self._parts])
        most, least = found.max(axis=0), found.min(axis=0)
        return np.concatenate([most[:, :2], least[:, 2:]], axis=1)

    def begin_tree(self, *args):
        return sum(part.begin_tree(*args) for part in self._parts)

    def widen(self):
        for part in self._parts:
            part.widen()

    def sizes(self, nodes):
        return sum(part.sizes(nodes) for part in self._parts) if self._sized else None

    def count(self, nodes, slots, histograms):
        total = np.zeros((len(nodes), *histograms.shape[1:]), np.int64)
        own = np.zeros_like(total)
        for part in self._parts:
            part.count(nodes, np.arange(len(nodes)), own)
            total += own
        histograms[slots] = total

    def apply_splits(self, *args):
        for part in self._parts:
            part.apply_splits(*args)

    def sum_leaves(self, *args):
        return sum(part.sum_leaves(*args) for part in self._parts)

    def add_leaf_values(self, values):
        for part in self._parts:
            part.add_leaf_values(values)

    def scores(self):
        scores = np.empty((self.n_outputs, self.n_rows))
        for part, rows in zip(self._parts, self._numbers, strict=True):
            scores[:, rows] = part.scores()
        return scores

    def set_scores(self, scores):
        for part, rows in zip(self._parts, self._numbers, strict=True):
            part.set_scores(scores[:, rows])

    def close(self):
        for part in self._parts:
            part.close()
