"""The numbers of rows, which random draws of rows depend on.

A draw is a function of the seed, the tree and the number of the row. Where rows have a
stable order, numbers count them: in runs, since a worker or a block has some of them.
Where they have none, the numbers are keys that belong to the rows, in any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.row_loop import run_rows
from hornbeam.kernels.sampling import (
    DrawKey,
    GradientSampling,
    draw_by_size,
    draw_keyed_by_size,
    draw_keyed_rows,
    draw_rows,
)
from hornbeam.kernels.team import Team

__all__ = ["RowNumbers"]


class RowNumbers:
    """The number of each row.

    Parameters
    ----------
    n_rows
        Number of rows here.
    spans
        (spans, 2) int64: the first row of each run of rows here, and its number among
        all rows. None: row numbers start at 0.
    keys
        (rows,) uint64: the key of each row, which is its number; None: `spans` tell.
    """

    def __init__(
        self,
        n_rows: int,
        spans: NDArray[np.int64] | None = None,
        keys: NDArray[np.uint64] | None = None,
    ) -> None:
        self._n_rows = n_rows
        self._spans = np.zeros((1, 2), np.int64) if spans is None else spans
        self._keys = keys

    def between(self, begin: int, end: int) -> RowNumbers:
        """Return the numbers of the rows from `begin` to `end`."""
        if self._keys is not None:
            return RowNumbers(end - begin, keys=self._keys[begin:end])
        return RowNumbers(end - begin, _spans_between(self._spans, begin, end))

    def draw(self, team: Team, limit: int, key: DrawKey) -> NDArray[np.uint8]:
        """Return which rows are drawn: those whose 32 random bits are below `limit`."""
        taken = np.empty(self._n_rows, np.uint8)
        if self._keys is not None:
            run_rows(team, draw_keyed_rows, self._n_rows, self._keys, limit, key, taken)
            return taken
        for number, run in self._runs():
            rows = run.stop - run.start
            run_rows(team, draw_rows, rows, number, limit, key, taken[run])
        return taken

    def draw_by_size(
        self,
        team: Team,
        gradients: NDArray[Any],
        hessians: NDArray[Any],
        probability: GradientSampling,
        key: DrawKey,
        scaled: NDArray[np.float64],
    ) -> NDArray[np.uint8]:
        """Return which rows are drawn by their gradients, both of (outputs, rows).

        `scaled`, (2, outputs, rows), becomes these divided by the probabilities.
        """
        taken = np.empty(self._n_rows, np.uint8)
        if self._keys is not None:
            given = gradients, hessians, probability, key, taken, *scaled
            run_rows(team, draw_keyed_by_size, self._n_rows, self._keys, *given)
            return taken
        for number, run in self._runs():
            run_rows(
                team,
                draw_by_size,
                run.stop - run.start,
                number,
                gradients[:, run],
                hessians[:, run],
                probability,
                key,
                taken[run],
                scaled[0, :, run],
                scaled[1, :, run],
            )
        return taken

    def _runs(self) -> Iterator[tuple[int, slice]]:
        """Yield the number of each run's first row among all, and its rows here."""
        ends = np.append(self._spans[:, 0], self._n_rows)[1:].tolist()
        for (begin, number), end in zip(self._spans.tolist(), ends, strict=True):
            yield number, slice(begin, end)


def _spans_between(spans: NDArray[np.int64], begin: int, end: int) -> NDArray[np.int64]:
    """Return the spans of the rows from `begin` to `end`, which becomes row 0."""
    first = max(int(np.searchsorted(spans[:, 0], begin, side="right")) - 1, 0)
    last = int(np.searchsorted(spans[:, 0], end))
    own = spans[first:last].copy()
    skipped = np.maximum(begin - own[:, 0], 0)
    own += skipped[:, None]
    own[:, 0] -= begin
    return own
