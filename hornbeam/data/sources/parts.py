"""What goes with the rows of a source, put together from its batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hornbeam.data.labels import FIELDS, read_numbers, read_whole, size_mismatch
from hornbeam.data.schema import listed
from hornbeam.errors import DataError, ErrorCode

__all__ = ["Parts"]

# Numbers of whole groups, or of the group of each row.
GROUPS = ("group", "qid")
PARTS = (*FIELDS, *GROUPS)


class Parts:
    """Labels, weights and their like, as they come batch by batch.

    Only their lengths are checked here, and that every batch has the same ones: what
    they may be is checked where a matrix takes the whole of them.
    """

    def __init__(self) -> None:
        self._parts: dict[str, list[np.ndarray]] | None = None

    def add(self, info: Mapping[str, Any], n_rows: int) -> None:
        """Take what came with the next `n_rows` rows."""
        unknown = [name for name in info if name not in PARTS]
        if unknown:
            raise DataError(
                f"a batch brings {listed(unknown)}; it may bring {listed(PARTS)}",
                code=ErrorCode.INVALID_BATCH,
            )
        part = {name: read_part(name, info[name]) for name in info}
        _check_lengths(part, n_rows)
        if self._parts is None:
            self._parts = {name: [] for name in part}
        _check_same_fields(list(self._parts), list(part))
        for name, values in part.items():
            before = self._parts[name]
            if before and values.shape[1:] != before[0].shape[1:]:
                raise DataError(
                    f"{name} has shape {values.shape} here and {before[0].shape} in "
                    "the first batch; give the same number of columns in each",
                    code=ErrorCode.BATCH_FIELD_MISMATCH,
                )
            if name != "feature_weights" or not before:
                before.append(values)
            elif not np.array_equal(values, before[0]):
                raise DataError(
                    "feature_weights are others than in the first batch; they belong "
                    "to the columns, so give the same ones with each, or give them "
                    "to the matrix",
                    code=ErrorCode.BATCH_FIELD_MISMATCH,
                )

    def whole(self) -> dict[str, np.ndarray]:
        """Return each field for all rows."""
        return {
            name: np.concatenate(values) for name, values in (self._parts or {}).items()
        }


def read_part(name: str, data: Any) -> np.ndarray:
    """Return the numbers of a field as float64, those of groups as integers."""
    if name in GROUPS:
        return read_whole(data, name)
    values = read_numbers(data, FIELDS[name])
    if values.ndim == 0:
        raise DataError(
            f"{name} is one value; pass one for each row of the batch",
            code=ErrorCode.META_INFO_SIZE_MISMATCH,
        )
    if values.ndim == 2 and values.shape[1] == 1 and name != "base_margin":
        values = values[:, 0]
    return values


def _check_lengths(part: Mapping[str, np.ndarray], n_rows: int) -> None:
    group = part.get("group")
    if group is not None and group.sum() != n_rows:
        raise DataError(
            f"the sizes in group add up to {group.sum()}, but there are {n_rows} rows "
            "in this batch; a group must not go on in the next batch: use qid there",
            code=ErrorCode.GROUP_SIZES_MISMATCH,
        )
    for name, values in part.items():
        if name in ("group", "feature_weights") or len(values) == n_rows:
            continue
        # One weight for each group is right, too; the matrix looks at the whole.
        if name == "weight" and ("group" in part or "qid" in part):
            continue
        raise DataError(
            f"{name} has {len(values)} values for {n_rows} rows; pass one for each row",
            code=size_mismatch(name),
        )


def _check_same_fields(first: list[str], given: list[str]) -> None:
    absent = [name for name in first if name not in given]
    extra = [name for name in given if name not in first]
    if absent:
        raise DataError(
            f"it has no {listed(absent)}, and the first batch has; give each batch "
            "the same",
            code=ErrorCode.BATCH_FIELD_MISMATCH,
        )
    if extra:
        raise DataError(
            f"it has {listed(extra)}, and the first batch does not; give each batch "
            "the same",
            code=ErrorCode.BATCH_FIELD_MISMATCH,
        )
