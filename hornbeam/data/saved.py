"""Binary files of DMatrix: the features and all fields.

A file has ``MAGIC``, the length of the header (8 bytes, little-endian), the header as
JSON, the arrays that the header lists, and the SHA-256 of all bytes before it. Loading
it does not run code, unlike a pickle.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.data.categories import Categories
from hornbeam.data.containers.from_numpy import ArrayTable
from hornbeam.data.containers.from_scipy import SparseTable
from hornbeam.data.floats import check_missing
from hornbeam.data.labels import FIELDS
from hornbeam.data.row_blocks import as_csr, count_entries, row_blocks
from hornbeam.data.table import Table
from hornbeam.errors import DataError, ErrorCode, HornbeamError, require
from hornbeam.files import naming, replace_file

__all__ = ["is_saved", "load_table", "save_table"]

#: The last two digits are the version of the format.
KIND = b"\x89HORNBEAM-DMATRIX"
MAGIC = KIND + b"\r\n01"
INDEX_BYTES = 4  # of a column index in a sparse matrix
#: Bytes read and hashed in one step.
STEP = 1 << 22

Arrays = Mapping[str, npt.NDArray[Any]]


def save_table(
    path: str | os.PathLike[str], table: Table, fields: Mapping[str, Any]
) -> None:
    """Write a table and its fields; the file is replaced atomically.

    The table is stored as a dense or sparse matrix, whichever is smaller, and in
    float32 if that holds every value exactly.
    """
    header: dict[str, Any] = {
        "n_rows": table.n_rows,
        "n_features": table.n_features,
        "names": table.names,
        "types": table.types,
        "categories": None,
    }
    arrays = {f"beside.{name}": values for name, values in fields.items()}
    if not table.categories.empty():
        header["categories"] = [
            levels.tolist() if levels is not None and levels.dtype == object else None
            for levels in table.categories.names
        ]
        for feature, levels in enumerate(table.categories.names):
            if levels is not None and levels.dtype != object:
                arrays[f"category.{feature}"] = levels
    shape = table.n_rows, table.n_features
    dtype, n_entries = _exact_dtype(table), count_entries(table)
    item = dtype.itemsize
    blocks: Iterator[np.ndarray] = iter(())
    if n_entries * (item + INDEX_BYTES) + 8 * table.n_rows < math.prod(shape) * item:
        matrix = as_csr(table)
        arrays["sparse.values"] = matrix.data.astype(dtype)
        arrays["sparse.columns"] = matrix.indices.astype(np.int32)
        arrays["sparse.pointers"] = matrix.indptr.astype(np.int64)
    else:
        blocks = (block.astype(dtype, copy=False) for block in row_blocks(table))
        header["dense"] = dtype.newbyteorder("<").str
    header["arrays"] = [
        [name, values.dtype.newbyteorder("<").str, values.shape]
        for name, values in arrays.items()
    ]
    replace_file(path, _hashed(_pieces(header, arrays, blocks)))


def _exact_dtype(table: Table) -> np.dtype[Any]:
    """Return float32 if that holds every value exactly, else the table's dtype."""
    narrow = np.dtype(np.float32)
    if isinstance(table, SparseTable):
        blocks = iter(table.entries_by_row()[:1])
    else:
        blocks = row_blocks(table)
    is_exact = table.dtype == narrow or all(
        np.array_equal(block, block.astype(narrow), equal_nan=True) for block in blocks
    )
    return narrow if is_exact else table.dtype


def _pieces(
    header: Mapping[str, Any], arrays: Arrays, blocks: Iterator[np.ndarray]
) -> Iterator[bytes | memoryview]:
    text = json.dumps(header).encode("ascii")
    yield MAGIC + len(text).to_bytes(8, "little") + text
    for values in (*arrays.values(), *blocks):
        values = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
        yield values.reshape(-1).view(np.uint8).data


def _hashed(
    pieces: Iterator[bytes | memoryview],
) -> Iterator[bytes | memoryview]:
    sha = hashlib.sha256()
    for piece in pieces:
        sha.update(piece)
        yield piece
    yield sha.digest()


def is_saved(data: Any) -> bool:
    """Return whether `data` is the path of a DMatrix file."""
    if not isinstance(data, (str, os.PathLike)) or not os.path.isfile(data):
        return False
    with naming(data), open(data, "rb") as file:
        return file.read(len(KIND)) == KIND


def load_table(
    path: str | os.PathLike[str],
    missing: float | None = None,
    names: Sequence[str] | None = None,
    types: Sequence[str] | None = None,
) -> Table:
    """Return the table of a file, with its fields in `info`.

    Parameters
    ----------
    path
        The file.
    missing, names, types
        As for `as_table`.
    """
    try:
        with naming(path), open(path, "rb") as file:
            header, arrays = _read(file, Path(path).stat().st_size)
        return _table(header, arrays, check_missing(missing), names, types)
    except HornbeamError:
        raise
    except (
        *(ArithmeticError, AttributeError, IndexError, KeyError),
        *(RecursionError, TypeError, ValueError, _DamagedError),
    ) as error:
        raise DataError(
            f"{os.fspath(path)} is not a sound DMatrix file: {error}; it was cut or "
            "damaged: restore it from a copy, or save the DMatrix again",
            code=ErrorCode.INVALID_DMATRIX_FILE,
        ) from None


class _DamagedError(Exception):
    """The file is truncated or damaged."""


def _read(file: io.BufferedReader, size: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header and the arrays after verifying the checksum."""
    sha = hashlib.sha256()

    def take(count: int, what: str) -> bytearray:
        left = size - sha.digest_size - file.tell()
        if not 0 <= count <= left:
            raise _DamagedError(f"{what} has {count} bytes, and {left} are there")
        out = bytearray(count)
        for start in range(0, count, STEP):
            part = memoryview(out)[start : start + STEP]
            if file.readinto(part) != len(part):
                raise _DamagedError(f"it ends within {what}")
            sha.update(part)
        return out

    magic = bytes(take(len(MAGIC), "the beginning"))
    if magic != MAGIC:
        raise DataError(
            f"the file has version {magic[-2:].decode('ascii', 'replace')} of the "
            f"format, and this Hornbeam reads {MAGIC[-2:].decode()}; save the DMatrix "
            "again with the same Hornbeam",
            code=ErrorCode.INVALID_DMATRIX_FILE,
        )
    length = int.from_bytes(take(8, "the length of the header"), "little")
    text = take(length, "the header")
    arrays = {}
    try:
        header = json.loads(text)
        for name, dtype, shape in header["arrays"]:
            arrays[name] = _array(take, name, np.dtype(dtype), tuple(shape))
        if "dense" in header:
            shape = header["n_rows"], header["n_features"]
            arrays["dense"] = _array(take, "dense", np.dtype(header["dense"]), shape)
    except (
        *(ArithmeticError, AttributeError, IndexError, KeyError),
        *(RecursionError, TypeError, ValueError),
    ) as error:
        raise _DamagedError(f"its header is broken ({error})") from None
    if file.read() != sha.digest():
        raise _DamagedError("its checksum does not fit its content")
    return header, arrays


def _array(
    take: Any, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> npt.NDArray[Any]:
    count = math.prod(shape)
    data = take(count * dtype.itemsize, name)
    values = np.frombuffer(data, dtype, count).reshape(shape)
    return values.astype(dtype.newbyteorder("="), copy=False)


def _table(
    header: Mapping[str, Any],
    arrays: Arrays,
    missing: float,
    names: Sequence[str] | None,
    types: Sequence[str] | None,
) -> Table:
    names = header["names"] if names is None else names
    types = header["types"] if types is None else types
    levels = header["categories"]
    categories = Categories(
        [
            values if values is not None else arrays.get(f"category.{feature}")
            for feature, values in enumerate(levels or ())
        ],
        names,
    )
    table: Table
    if "dense" in arrays:
        table = ArrayTable(arrays["dense"], missing, names, types, categories)
    else:
        sparse = require("scipy.sparse", "frames", "reading a sparse DMatrix file")
        parts = [arrays[f"sparse.{part}"] for part in ("values", "columns", "pointers")]
        shape = header["n_rows"], header["n_features"]
        matrix = sparse.csr_matrix(tuple(parts), shape=shape)
        matrix.check_format(full_check=True)  # kernels read by these indices
        table = SparseTable(matrix, missing, names, types)
        table.categories = categories
        table.retype(types)
    table.info = {
        name: arrays[f"beside.{name}"]
        for name in (*FIELDS, "group_ptr", "row_key")
        if f"beside.{name}" in arrays
    }
    return table
