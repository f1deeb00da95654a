"""MetaInfo: labels, weights, margins, bounds and groups of a matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.data.labels import FIELDS, read_field, read_whole
from hornbeam.data.row_keys import read_row_key
from hornbeam.errors import DataError, ErrorCode

__all__ = ["GROUPINGS", "MetaInfo"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

#: The three ways to give the groups of rows.
GROUPINGS = ("group", "qid", "group_ptr")


class MetaInfo:
    """Labels, weights, margins, bounds and groups of a matrix.

    Parameters
    ----------
    n_rows, n_features
        Shape of the matrix.
    """

    def __init__(self, n_rows: int, n_features: int) -> None:
        self.n_rows = n_rows
        self.n_features = n_features
        #: First row of each group, and the number of rows, (groups + 1,); or None.
        self.group_ptr: Integers | None = None
        #: Weight of each row, also if weights of groups were set, (rows,); or None.
        self.row_weights: Floats | None = None
        #: How often fields were set.
        self.revision = 0
        #: What random draws of each row depend on, (rows,); None: on its place.
        self.row_key: npt.NDArray[np.uint64] | None = None
        self._values: dict[str, Floats] = {}
        self._by_key: tuple[npt.NDArray[np.intp], MetaInfo] | None = None

    def __getitem__(self, field: str) -> Floats | None:
        """Return a field as it was set; None if it was not."""
        return self._values.get(field)

    def groups(self) -> tuple[Integers, Floats | None]:
        """Return where groups begin, (groups + 1,), and the weight of each or None.

        Without groups, all rows are one group. Groups without rows are left out.
        """
        if self.group_ptr is None:
            pointers = np.array([0, self.n_rows])
        else:
            pointers = np.unique(self.group_ptr)
        if self.row_weights is None:
            return pointers, None
        weights = self.row_weights[pointers[:-1]]
        uneven = self.row_weights != np.repeat(weights, np.diff(pointers))
        if uneven.any():
            row = int(uneven.argmax())
            group = int(np.searchsorted(pointers, row, side="right")) - 1
            raise DataError(
                f"weight is {self.row_weights[row]:g} in row {row} and "
                f"{weights[group]:g} in the first row of its group, {group}; in "
                "ranking, weights belong to groups: pass one for each group",
                code=ErrorCode.WEIGHT_NOT_BY_GROUP,
            )
        return pointers, weights

    def fields(self) -> dict[str, npt.NDArray[Any]]:
        """Return all fields that are set, groups as ``group_ptr``."""
        integers = {"group_ptr": self.group_ptr, "row_key": self.row_key}
        given = {name: own for name, own in integers.items() if own is not None}
        return {**self._values, **given}

    def set(self, given: Mapping[str, Any], *, whole: bool = True) -> None:
        """Set the fields that are not None; if one raises an error, none is set.

        Fields are copied. Their arrays are replaced, never changed, so that the
        identity of an array tells whether a field has changed. If the rows are not the
        `whole` data, all weights can be 0.
        """
        given = {name: value for name, value in given.items() if value is not None}
        if not given:
            return
        pointers = self._pointers(given)
        groups = None if pointers is None else len(pointers) - 1
        values = dict(self._values)
        for name, field in FIELDS.items():
            if name in given:
                by_row = field.each == "row"
                values[name] = read_field(
                    field,
                    given[name],
                    self.n_rows if by_row else self.n_features,
                    groups if name == "weight" else None,
                    whole=whole,
                )
        weights = values.get("weight")
        if weights is not None and len(weights) not in (self.n_rows, groups):
            raise DataError(
                f"there are {len(weights)} weights of the former groups, and now "
                f"{groups} groups; set weight together with the groups",
                code=ErrorCode.WEIGHT_NOT_BY_GROUP,
            )
        _check_bounds(values)
        if "row_key" in given:
            self.row_key = read_row_key(given["row_key"], self.n_rows)
        if not {"weight", *GROUPINGS}.isdisjoint(given):
            self.row_weights = self._by_row(weights, pointers)
        self._values, self.group_ptr = values, pointers
        self._by_key = None
        self.revision += 1

    def _pointers(self, given: Mapping[str, Any]) -> Integers | None:
        """Return where groups begin, from group, qid or group_ptr."""
        ways = [way for way in GROUPINGS if way in given]
        if len(ways) > 1:
            raise DataError(
                f"{ways[0]} and {ways[1]} are both given; they have the same meaning, "
                "so pass one of them",
                code=ErrorCode.GROUP_AND_QID
                if ways[:2] == ["group", "qid"]
                else ErrorCode.META_INFO_GIVEN_TWICE,
            )
        if not ways:
            return self.group_ptr
        numbers = read_whole(given[ways[0]], ways[0])
        if ways[0] == "group":
            return _from_sizes(numbers, self.n_rows)
        if ways[0] == "qid":
            return _from_ids(numbers, self.n_rows)
        return _checked_pointers(numbers, self.n_rows)

    def _by_row(
        self, weights: Floats | None, pointers: Integers | None
    ) -> Floats | None:
        if weights is None or len(weights) == self.n_rows:
            return weights
        assert pointers is not None
        return np.repeat(weights, np.diff(pointers))

    def by_key(self) -> tuple[npt.NDArray[np.intp], MetaInfo]:
        """Return the rows in the order of their keys, and their fields in this order.

        Kept until a field changes.
        """
        if self._by_key is None:
            assert self.row_key is not None
            order = np.argsort(self.row_key, kind="stable")
            self._by_key = order, self.take(order)
        return self._by_key

    def take(self, rows: npt.NDArray[np.intp]) -> MetaInfo:
        """Return the fields of some rows; rows of a group must be adjacent.

        The rows taken from a group form a group. Weights stay one per row or one per
        group.
        """
        part = type(self)(len(rows), self.n_features)
        kept: Integers | None = None
        if self.group_ptr is not None:
            kept, part.group_ptr = _groups_of(rows, self.group_ptr)
        for name, values in self._values.items():
            if FIELDS[name].each == "column":
                part._values[name] = values
            elif len(values) == self.n_rows:
                part._values[name] = values[rows]
            else:
                assert kept is not None
                part._values[name] = values[kept]
        if self.row_key is not None:
            part.row_key = self.row_key[rows]
        part.row_weights = part._by_row(part["weight"], part.group_ptr)
        return part


def _check_bounds(values: Mapping[str, Floats]) -> None:
    lower, upper = (values.get(f"label_{end}_bound") for end in ("lower", "upper"))
    if lower is not None and upper is not None and (lower > upper).any():
        row = int((lower > upper).argmax())
        raise DataError(
            f"label_lower_bound is {lower[row]} in row {row}, above label_upper_bound "
            f"{upper[row]}; the lower one must not be above",
            code=ErrorCode.LABEL_OUT_OF_DOMAIN,
        )


def _from_sizes(sizes: npt.NDArray[Any], n_rows: int) -> Integers:
    if (sizes < 0).any():
        number = int((sizes < 0).argmax())
        raise DataError(
            f"group is {sizes[number]} at position {number}; "
            "it holds the number of rows in each group",
            code=ErrorCode.INVALID_GROUPS,
        )
    if (total := sum(sizes.tolist())) != n_rows:
        raise DataError(
            f"the sizes in group add up to {total}, but there are {n_rows} rows; "
            "give the number of rows in each group, in the order of the rows",
            code=ErrorCode.GROUP_SIZES_MISMATCH,
        )
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)


def _from_ids(ids: npt.NDArray[Any], n_rows: int) -> Integers:
    if len(ids) != n_rows:
        raise DataError(
            f"qid has {len(ids)} values for {n_rows} rows; pass one a row",
            code=ErrorCode.META_INFO_SIZE_MISMATCH,
        )
    falls = ids[1:] < ids[:-1]
    if falls.any():
        row = int(falls.argmax()) + 1
        raise DataError(
            f"qid is not sorted: it falls from {ids[row - 1]} to {ids[row]} in row "
            f"{row}; sort the rows by qid, and what goes with them",
            code=ErrorCode.QID_NOT_SORTED,
        )
    begins = np.flatnonzero(ids[1:] != ids[:-1]) + 1
    first = [0] if n_rows else []
    return np.concatenate([first, begins, [n_rows]]).astype(np.int64)


def _checked_pointers(pointers: npt.NDArray[Any], n_rows: int) -> Integers:
    sound = (
        pointers.size > 0
        and pointers[0] == 0
        and pointers[-1] == n_rows
        and bool((pointers[1:] >= pointers[:-1]).all())
    )
    if not sound:
        ends = f"from {pointers[0]} to {pointers[-1]}" if pointers.size else "nowhere"
        raise DataError(
            f"group_ptr goes {ends} for {n_rows} rows; it holds the first row of each "
            f"group, rising from 0, and at its end the number of rows",
            code=ErrorCode.INVALID_GROUPS,
        )
    return pointers.astype(np.int64)


def _groups_of(
    rows: npt.NDArray[np.intp], pointers: Integers
) -> tuple[Integers, Integers]:
    """Return the groups that rows are taken from, and where each begins in `rows`."""
    of_row = np.searchsorted(pointers, rows, side="right") - 1
    begins = np.flatnonzero(of_row[1:] != of_row[:-1]) + 1
    begins = np.concatenate([[0] if len(rows) else [], begins]).astype(np.int64)
    groups = of_row[begins]
    order = np.argsort(groups, kind="stable")
    again = np.flatnonzero(np.diff(groups[order]) == 0)
    if again.size:
        first, second = begins[order[again[0] : again[0] + 2]]
        raise DataError(
            f"rindex takes rows of group {groups[order[again[0]]]} at positions "
            f"{first} and {second}, with rows of other groups between them; keep the "
            "rows of a group together",
            code=ErrorCode.INVALID_GROUPS,
        )
    return groups, np.append(begins, len(rows))
