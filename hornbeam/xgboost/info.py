"""What goes beside the features, as leniently as XGBoost takes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.data.labels import FIELDS, read_numbers
from hornbeam.data.meta_info import GROUPINGS
from hornbeam.data.meta_info import MetaInfo as _Info
from hornbeam.errors import DataError

__all__ = ["MetaInfo"]

Floats = npt.NDArray[np.float64]

#: What may come flat, or as one row, and is laid out by rows.
_WIDE = tuple(name for name, field in FIELDS.items() if field.wide)


class MetaInfo(_Info):
    """Labels, weights, margins, bounds and groups of a matrix.

    Labels and margins of several columns may be flat; what is empty takes away what
    was set; and weights of groups may come before the groups.
    """

    #: Weights that came before their groups, and what is wrong unless those follow.
    _early: tuple[Any, DataError] | None = None

    @property
    def row_weights(self) -> Floats | None:
        """One for each row whatever was set, (rows,); or None."""
        if self._early is not None:
            raise self._early[1]
        return self._row_weights

    @row_weights.setter
    def row_weights(self, weights: Floats | None) -> None:
        self._row_weights = weights

    def __getitem__(self, field: str) -> Floats | None:
        if field == "weight" and self._early is not None:
            return read_numbers(self._early[0], FIELDS["weight"])
        return super().__getitem__(field)

    def take(self, rows: npt.NDArray[np.intp]) -> _Info:
        if self._early is not None:
            raise self._early[1]
        return super().take(rows)

    def set(self, given: Mapping[str, Any], *, whole: bool = True) -> None:
        given = {name: value for name, value in given.items() if value is not None}
        empty = [name for name, value in given.items() if _is_empty(value)]
        if self.n_rows:
            self._drop(empty)
            given = {name: v for name, v in given.items() if name not in empty}
        for name in given.keys() & _WIDE:
            given[name] = self._by_rows(name, given[name])
        if "weight" in given:
            self._early = None
        elif self._early is not None and not given.keys().isdisjoint(GROUPINGS):
            given["weight"], self._early = self._early[0], None
        try:
            super().set(given, whole=whole)
        except DataError as error:
            weight = given.pop("weight", None)
            if not hasattr(weight, "__len__") or len(weight) >= self.n_rows:
                raise
            super().set(given, whole=whole)
            self._drop(["weight"])
            self._early = weight, error

    def _drop(self, names: list[str]) -> None:
        for name in names:
            self._values.pop(name, None)
        if "weight" in names:
            self._row_weights = self._early = None
        if not set(GROUPINGS).isdisjoint(names):
            self.group_ptr = None

    def _by_rows(self, name: str, data: Any) -> Any:
        if not hasattr(data, "__len__") or len(data) == self.n_rows:
            return data
        values = read_numbers(data, FIELDS[name])
        if values.ndim > 2 or not self.n_rows or values.size % self.n_rows:
            return data
        return values.reshape(self.n_rows, -1)


def _is_empty(value: Any) -> bool:
    return hasattr(value, "__len__") and len(value) == 0
