"""Keys of rows: numbers that belong to rows, whatever their order.

Random draws of rows depend on the number of the row. A cluster's engine may hand out
rows in another order in each run; with keys the draws are the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.data.labels import read_whole
from hornbeam.data.row_blocks import row_blocks
from hornbeam.data.table import Table
from hornbeam.errors import DataError, ErrorCode

__all__ = ["hash_rows", "read_row_key"]

Keys = npt.NDArray[np.uint64]

# The constants of SplitMix64 (Steele, Lea and Flood 2014).
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)
_LAST_SHIFT = np.uint64(31)
#: Rows that are hashed at a time, so that they stay in the cache.
_ROWS_AT_ONCE = 1 << 14


def read_row_key(data: Any, n_rows: int) -> Keys:
    """Return the keys of rows, (rows,) uint64, from whole numbers or text."""
    text = np.asarray(data)
    if text.dtype.kind in "OUT" and all(isinstance(value, str) for value in text.flat):
        keys = _hash_text(text.reshape(-1))
    else:
        keys = read_whole(data, "row_key").astype(np.uint64)
    if len(keys) != n_rows:
        raise DataError(
            f"row_key has {len(keys)} values for {n_rows} rows of features; pass one "
            "for each row",
            code=ErrorCode.META_INFO_SIZE_MISMATCH,
        )
    return keys


def hash_rows(table: Table, fields: Mapping[str, npt.NDArray[Any]]) -> Keys:
    """Return a hash of each row's values, (rows,) uint64.

    The hash depends on the values of the columns, in their order, and of the fields
    that have a value for each row; it depends neither on the type that holds a number,
    nor on the codes of categories that have names. Missing values are equal.
    """
    hashes = np.zeros(table.n_rows, np.uint64)
    levels = [table.categories.of(feature) for feature in range(table.n_features)]
    codes = [None if names is None else _hash_text(names) for names in levels]
    start = 0
    for block in row_blocks(table):
        for first in range(0, len(block), _ROWS_AT_ONCE):
            part = block[first : first + _ROWS_AT_ONCE]
            own = hashes[start + first : start + first + len(part)]
            for feature, hashed in enumerate(codes):
                _add(own, _bits(part[:, feature], hashed))
        start += len(block)
    for name in sorted(fields):
        values = fields[name]
        if len(values) != table.n_rows or name == "row_key":
            continue
        for column in values.reshape(table.n_rows, -1).T:
            _add(hashes, _bits(column, None))
    return hashes


def _hash_text(values: npt.NDArray[Any]) -> Keys:
    found = (
        hashlib.blake2b(str(value).encode(), digest_size=8).digest() for value in values
    )
    return np.frombuffer(b"".join(found), "<u8").astype(np.uint64)


def _bits(values: npt.NDArray[Any], hashed: Keys | None) -> Keys:
    """Return 64 bits for each number, or `hashed` of each code of a category."""
    numbers = values.astype(np.float64)
    missing = np.isnan(numbers)
    if hashed is not None:
        bits = hashed[np.where(missing, 0, numbers).astype(np.intp)]
    else:
        bits = (numbers + 0.0).view(np.uint64)  # -0.0 and 0.0 are equal
    bits[missing] = np.uint64(0x7FF8000000000000)
    return bits


def _add(hashes: Keys, bits: Keys) -> None:
    """Make each hash one of the bits, too."""
    hashes += _STEP
    hashes ^= bits
    for shift, factor in _MIX:
        hashes ^= hashes >> shift
        hashes *= factor
    hashes ^= hashes >> _LAST_SHIFT
