"""The categories that matrices and boosters hand out: for Arrow only when asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from hornbeam.data.categories import Categories as _Categories
from hornbeam.errors import DataError, ErrorCode

__all__ = ["Categories"]


class Categories(_Categories):
    """The categories of each feature, in the order of their codes."""

    _exports = True

    @classmethod
    def handed_out(
        cls,
        categories: _Categories,
        feature_names: Sequence[str] | None,
        n_features: int,
        export_to_arrow: bool,
    ) -> Self:
        """Return categories as `get_categories` does.

        Parameters
        ----------
        categories
            What there is of them.
        feature_names, n_features
            What the columns are called, and how many there are.
        export_to_arrow
            Whether `to_arrow` may be asked for.
        """
        names = feature_names or [str(number) for number in range(n_features)]
        new: Self = cls.of_checked(categories.names, names)  # type: ignore[assignment]
        new._exports = export_to_arrow
        return new

    def to_arrow(self) -> list[tuple[str, Any]]:
        """Return the name and the categories of each feature, as Arrow arrays.

        None in place of the array where a feature has no categories. It is an error
        unless `get_categories` was told so.
        """
        if not self._exports:
            raise DataError(
                "The `export_to_arrow` option of the `get_categories` method is "
                "required: get_categories(export_to_arrow=True)",
                code=ErrorCode.MISSING_PARAMETER,
            )
        names = self.feature_names or ()
        return super().to_arrow() or [(name, None) for name in names]
