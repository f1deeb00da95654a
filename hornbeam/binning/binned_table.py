"""What tables become, and how it is read as a table again."""

from __future__ import annotations

import numpy as np

from hornbeam.binning.dense import DenseMatrix
from hornbeam.binning.external import ExternalMatrix
from hornbeam.binning.sparse import SparseMatrix
from hornbeam.data.schema import Schema
from hornbeam.data.table import Table

__all__ = ["Binned", "BinnedTable"]

#: What a table becomes: codes of all its cells, in memory or on disk, or of those that
#: are filled.
Binned = DenseMatrix | SparseMatrix | ExternalMatrix


class BinnedTable(Table):
    """The rows of a binned matrix, each cell as the value that stands for its bin.

    Parameters
    ----------
    binned
        The codes, which are held by reference.
    schema
        The names, types and categories of the columns.
    """

    def __init__(self, binned: Binned, schema: Schema) -> None:
        super().__init__(
            binned.n_rows,
            binned.n_features,
            schema.names,
            schema.types,
            np.dtype(binned.dtype),
            schema.categories,
        )
        self._binned = binned

    def _columns(
        self, start: int, stop: int, scratch: np.ndarray | None = None
    ) -> list[np.ndarray]:
        return [self._binned.decode_column(f, self.dtype) for f in range(start, stop)]

    def _rows(self, start: int, stop: int, features: np.ndarray | None) -> np.ndarray:
        return self._binned.decode(start, stop, features)

    def take(self, rows: np.ndarray) -> Table:
        return BinnedTable(self._binned.take(rows), self.schema)
