"""Numbers as the codes of categories, of which some may be no category's."""

from __future__ import annotations

import numpy as np

from hornbeam.data.align import RecodedTable
from hornbeam.data.categories import MAX_LEVELS
from hornbeam.data.floats import Locate
from hornbeam.data.schema import Schema
from hornbeam.data.table import Table

__all__ = ["with_codes"]


class _AnyCode:
    """Reads any number as a code: whole, and one that no tree knows where it is none.

    So does XGBoost: what is negative or too large goes where a category goes that a
    split does not name, and a fraction loses what is behind the point.
    """

    def listed(self) -> list[float]:
        """Return what tells this recoding from others."""
        return []

    def __call__(self, values: np.ndarray, locate: Locate) -> np.ndarray:
        unknown = MAX_LEVELS - 1
        within = np.where((values < 0) | (values > unknown), unknown, values)
        return np.trunc(within).astype(values.dtype, copy=False)


def with_codes(table: Table, types: list[str]) -> Table:
    """Return a table of numbers that are codes where these types say categories."""
    expected = Schema(table.n_features, table.names, types)
    codes = {feature: _AnyCode() for feature, kind in enumerate(types) if kind == "c"}
    return RecodedTable(table, expected, codes)
