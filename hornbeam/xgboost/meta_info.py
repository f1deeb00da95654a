"""Labels, weights, margins and groups of a matrix, accepted as leniently as XGBoost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.data.labels import FIELDS, read_numbers, read_whole
from hornbeam.data.meta_info import GROUPINGS
from hornbeam.data.meta_info import MetaInfo as _MetaInfo
from hornbeam.errors import DataError, ErrorCode

__all__ = ["MetaInfo"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

#: Fields with several columns, which may be given flat or as one row.
_MULTI_COLUMN = tuple(name for name, field in FIELDS.items() if field.wide)


class MetaInfo(_MetaInfo):
    """Labels, weights, base margins, label bounds and query groups of a matrix.

    Differences from the base class: labels and base margins of several columns may be
    flat, an empty array removes a field, and weights of a matrix with groups are those
    of the groups, which may be set later. Sizes of groups are compared with the number
    of rows when they are used.
    """

    #: Group weights set before the groups, and the error if no groups follow.
    _pending_weight: tuple[Any, DataError] | None = None

    @property
    def row_weights(self) -> Floats | None:
        """The weight of each row, (rows,); None if no weights are set."""
        if self._pending_weight is not None:
            raise self._pending_weight[1]
        if self.group_ptr is None:
            return self._row_weights
        self._check_group_sizes()
        weights, groups = self["weight"], len(self.group_ptr) - 1
        if weights is not None and len(weights) != groups:
            raise DataError(
                f"weight has {len(weights)} values for {groups} groups; pass one for "
                "each group",
                code=ErrorCode.WEIGHT_NOT_BY_GROUP,
            )
        return self._row_weights

    @row_weights.setter
    def row_weights(self, weights: Floats | None) -> None:
        self._row_weights = weights

    def __getitem__(self, field: str) -> Floats | None:
        if field == "weight" and self._pending_weight is not None:
            return read_numbers(self._pending_weight[0], FIELDS["weight"])
        return super().__getitem__(field)

    def take(self, rows: npt.NDArray[np.intp]) -> _MetaInfo:
        if self._pending_weight is not None:
            raise self._pending_weight[1]
        self._check_group_sizes()
        return super().take(rows)

    def groups(self) -> tuple[Integers, Floats | None]:
        self._check_group_sizes()
        return super().groups()

    def _pointers(self, given: Mapping[str, Any]) -> Integers | None:
        try:
            return super()._pointers(given)
        except DataError as error:
            if error.code != ErrorCode.GROUP_SIZES_MISMATCH:
                raise
            sizes = read_whole(given["group"], "group")
            return np.append(0, np.cumsum(sizes, dtype=np.int64))

    def _check_group_sizes(self) -> None:
        if self.group_ptr is not None and self.group_ptr[-1] != self.n_rows:
            super()._pointers({"group": np.diff(self.group_ptr)})

    def set(self, given: Mapping[str, Any], *, whole: bool = True) -> None:
        given = {name: value for name, value in given.items() if value is not None}
        empty = [name for name, value in given.items() if _is_empty(value)]
        if self.n_rows:
            self._remove(empty)
            given = {name: v for name, v in given.items() if name not in empty}
        for name in given.keys() & _MULTI_COLUMN:
            given[name] = self._reshaped(name, given[name])
        if "weight" in given:
            self._pending_weight = None
        elif self._pending_weight is not None and not given.keys().isdisjoint(
            GROUPINGS
        ):
            given["weight"], self._pending_weight = self._pending_weight[0], None
        try:
            super().set(given, whole=whole)
        except DataError as error:
            if error.code != ErrorCode.WEIGHT_SIZE_MISMATCH:
                raise
            weight = given.pop("weight")
            if not hasattr(weight, "__len__") or len(weight) >= self.n_rows:
                raise
            # Fewer weights than rows: one for each group, if groups follow.
            super().set(given, whole=whole)
            self._remove(["weight"])
            self._pending_weight = weight, error

    def _remove(self, names: list[str]) -> None:
        for name in names:
            self._values.pop(name, None)
        if "weight" in names:
            self._row_weights = self._pending_weight = None
        if not set(GROUPINGS).isdisjoint(names):
            self.group_ptr = None

    def _reshaped(self, name: str, data: Any) -> Any:
        """Return a flat field as (rows, columns); other data unchanged."""
        if not hasattr(data, "__len__") or len(data) == self.n_rows:
            return data
        values = read_numbers(data, FIELDS[name])
        if values.ndim > 2 or not self.n_rows or values.size % self.n_rows:
            return data
        return values.reshape(self.n_rows, -1)


def _is_empty(value: Any) -> bool:
    return hasattr(value, "__len__") and len(value) == 0
