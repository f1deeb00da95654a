"""Columns in ascending order, which are kept from one reading to the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.binning.column_pass import ColumnPass
from hornbeam.binning.cuts import in_order
from hornbeam.binning.streams import chunks_of
from hornbeam.binning.threads import in_threads
from hornbeam.data.table import Table

__all__ = ["OrderedColumns"]

Int64s = npt.NDArray[np.int64]


class OrderedColumns:
    """As many columns of a table as there is room for, each put in order once.

    To put a column in order is nearly all of a reading: where it is kept from the one
    before, a reading takes a tenth of the time.

    Parameters
    ----------
    table
        The rows.
    weights
        (rows,) from `integer_weights`, or None.
    room
        Bytes for the columns that are kept.
    """

    def __init__(self, table: Table, weights: Int64s | None, room: int) -> None:
        self._table = table
        self._weights = weights
        cell_bytes = np.dtype(table.dtype).itemsize
        cell_bytes += 0 if weights is None else weights.itemsize
        self._most = room // (cell_bytes * table.n_rows)
        self._columns: dict[int, tuple[npt.NDArray[Any], Int64s | None, bool]] = {}

    def read(
        self, features: Sequence[int], readings: Sequence[ColumnPass], n_threads: int
    ) -> int:
        """Let all rows of the first columns pass by; return how many these are.

        Columns that are not read again are let go.

        Parameters
        ----------
        features, readings, n_threads
            As for `read_chunks`.
        """
        chosen = features[: self._most]
        held = self._columns.keys() & set(chosen)
        self._columns = {feature: self._columns[feature] for feature in held}
        new = [i for i, feature in enumerate(chosen) if feature not in held]
        if new:
            self._put_in_order(chosen, new, readings, n_threads)

        def take(i: int) -> None:
            readings[i].take(*self._columns[chosen[i]])

        in_threads(take, range(len(chosen)), n_threads)
        return len(chosen)

    def _put_in_order(
        self,
        features: Sequence[int],
        new: Sequence[int],
        readings: Sequence[ColumnPass],
        n_threads: int,
    ) -> None:
        chunks = chunks_of(self._table, [features[i] for i in new], self._table.n_rows)
        ((_, columns),) = chunks

        def order(place: int) -> None:
            i, values = new[place], columns[place]
            weights = self._weights if readings[i].is_weighted else None
            # Without weights a column is put in order where it lies.
            scratch = values.view(np.uint8) if weights is None else None
            self._columns[features[i]] = in_order(values, weights, scratch)

        in_threads(order, range(len(new)), n_threads)
