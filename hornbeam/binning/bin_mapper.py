"""The codes of batches, and what is found out while they are written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.binning.cuts import ColumnCuts, are_float32
from hornbeam.binning.threads import in_threads
from hornbeam.data.floats import Locate
from hornbeam.data.table import Table
from hornbeam.errors import DataError, ErrorCode

__all__ = ["BinMapper", "categorical", "copy_codes"]

Codes = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]

#: Columns taken from a table at once: a few, so that little of it is held twice, but
#: enough to use most of each cache line of a row-major array.
_COLUMNS_AT_ONCE = 4


class BinMapper:
    """Writes the codes of batches of a table.

    Parameters
    ----------
    table
        What the batches are of.
    columns
        The cuts of its columns.
    max_bin
        The most bins of a column.
    own_cuts
        Whether the cuts are those of these rows, not of another table.

    Attributes
    ----------
    has_missing
        (features,) bool: whether a missing cell is known of.
    is_float32
        Whether every value so far is exactly a float32.
    is_categorical
        (features,) bool.
    """

    def __init__(
        self,
        table: Table,
        columns: Sequence[ColumnCuts],
        max_bin: int,
        *,
        own_cuts: bool,
    ) -> None:
        self._columns = columns
        # Some batches of a column may be float32 where others, and so the cuts, are
        # float64. The cuts of another table are rounded to the type of the rows.
        self._are_wide = [
            own_cuts and not are_float32(column.upper[:-1]) for column in columns
        ]
        self._sizes = np.array([column.upper.size for column in columns])
        self._is_small = max_bin <= 256
        self.is_categorical = categorical(table)
        self.has_missing = np.array([column.has_missing for column in columns])
        self._are_float32 = np.ones(len(columns), bool)

    @property
    def is_float32(self) -> bool:
        return bool(self._are_float32.all())

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the codes, as far as is known: a missing cell may need more."""
        narrow = self._is_small and (self._sizes + self.has_missing <= 256).all()
        return np.dtype(np.uint8 if narrow else np.uint16)

    def code(self, batch: Table, out: Codes, n_threads: int) -> bool:
        """Write the codes (features, rows) of a batch; return False if they do not fit.

        Then `dtype` has become a larger one, and the batch is to be written again.
        """

        def work(start: int) -> None:
            stop = min(start + _COLUMNS_AT_ONCE, batch.n_features)
            for f, values in enumerate(batch.columns(start, stop), start):
                self._code_column(f, values, out[f], batch.locator(0, f))

        tasks = range(0, batch.n_features, _COLUMNS_AT_ONCE)
        in_threads(work, tasks, n_threads)
        return self.dtype.itemsize <= out.itemsize

    def _code_column(
        self, f: int, values: npt.NDArray[Any], out: Codes, locate: Locate
    ) -> None:
        self.has_missing[f] |= bool(np.isnan(values).any())
        self._are_float32[f] &= are_float32(values)
        if out.itemsize == 1 and self._sizes[f] + self.has_missing[f] > 256:
            return  # the first missing cell of a column of 256 bins
        if self.is_categorical[f]:
            copy_codes(values, self._columns[f], out, locate)
        elif self._are_wide[f]:
            self._columns[f].code(values.astype(np.float64, copy=False), out)
        else:
            self._columns[f].code(values, out)


def categorical(table: Table) -> npt.NDArray[np.bool_]:
    """Return which columns hold categories, (features,) bool."""
    if table.types is None:
        return np.zeros(table.n_features, np.bool_)
    return np.array([kind == "c" for kind in table.types])


def copy_codes(
    values: npt.NDArray[Any], column: ColumnCuts, out: Codes, locate: Locate
) -> None:
    """Write the codes of categories, which are the values themselves."""
    levels = column.upper.size
    beyond = values >= levels
    if beyond.any():
        row = int(beyond.argmax())
        raise DataError(
            f"{locate((row,))} holds the category code {int(values[row])}, but the "
            f"data that made the bins had no code above {levels - 1}; give its "
            "categories names (a frame of strings or of a category type), or replace "
            "codes that training did not see by NaN",
            code=ErrorCode.UNSEEN_CATEGORY_CODE,
        )
    np.copyto(out, np.where(np.isnan(values), levels, values), casting="unsafe")
