"""Categories as XGBoost exports them, and numbers read as category codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from hornbeam.data.align import RecodedTable
from hornbeam.data.categories import MAX_LEVELS
from hornbeam.data.categories import Categories as _Categories
from hornbeam.data.floats import Locate
from hornbeam.data.schema import Schema
from hornbeam.data.table import Table
from hornbeam.errors import DataError, ErrorCode

__all__ = ["Categories", "as_category_codes"]


class Categories(_Categories):
    """The categories of each feature, in the order of their codes."""

    _exports = True

    @classmethod
    def exported(
        cls,
        categories: _Categories,
        feature_names: Sequence[str] | None,
        n_features: int,
        export_to_arrow: bool,
    ) -> Self:
        """Return the result of `get_categories`.

        Parameters
        ----------
        categories
            The categories of a matrix or a booster.
        feature_names, n_features
            The names of the columns, or None, and the number of columns.
        export_to_arrow
            Whether `to_arrow` may be called.
        """
        names = feature_names or [str(number) for number in range(n_features)]
        new: Self = cls.of_checked(categories.names, names)  # type: ignore[assignment]
        new._exports = export_to_arrow
        return new

    def to_arrow(self) -> list[tuple[str, Any]]:
        """Return the name of each feature with its categories as an Arrow array.

        The array is None for a feature without categories.

        Raises
        ------
        DataError
            Unless `get_categories` was called with ``export_to_arrow=True``.
        """
        if not self._exports:
            raise DataError(
                "The `export_to_arrow` option of the `get_categories` method is "
                "required: get_categories(export_to_arrow=True)",
                code=ErrorCode.MISSING_PARAMETER,
            )
        names = self.feature_names or ()
        return super().to_arrow() or [(name, None) for name in names]


class _TruncatedCodes:
    """Reads any number as a category code, as XGBoost does.

    A fraction is truncated. A negative number, or one above the largest code, becomes
    a code that no split contains, as an unseen category.
    """

    def listed(self) -> list[float]:
        """Return the key by which recodings are compared."""
        return []

    def __call__(self, values: np.ndarray, locate: Locate) -> np.ndarray:
        unknown = MAX_LEVELS - 1
        within = np.where((values < 0) | (values > unknown), unknown, values)
        return np.trunc(within).astype(values.dtype, copy=False)


def as_category_codes(table: Table, types: list[str]) -> Table:
    """Return a numeric table read as category codes in columns of the type ``"c"``."""
    expected = Schema(table.n_features, table.names, types)
    codes = {
        feature: _TruncatedCodes() for feature, kind in enumerate(types) if kind == "c"
    }
    return RecodedTable(table, expected, codes)
