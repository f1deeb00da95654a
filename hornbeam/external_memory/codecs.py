"""Codecs of bins in a file: raw, nibble and lz4.

raw: as in memory, little-endian. nibble: two bins below 16 per byte. The low halves
hold the first half of the array and the high halves the second, so that encoding and
decoding are plain vector loops. lz4: a chunk of Blosc2 with shuffled bits or bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.errors import ErrorCode, MissingExtraError, ParameterError, require

__all__ = [
    "CODECS",
    "STORED",
    "Encoding",
    "check_codec",
    "choose_encoding",
    "decode",
    "encode",
    "fits_nibble",
    "stored_sizes",
]

Bins = npt.NDArray[Any]

#: Codecs of stored arrays, and the values of the parameter `codec`.
STORED = ("raw", "nibble", "lz4")
CODECS = ("auto", *STORED)
#: Least compression of lz4 over another codec: a core decodes about 1.4 GB/s of bins
#: from lz4 and 10 GB/s from nibbles, and reads 4-5 GB/s raw from the page cache.
MIN_RATIO = {"raw": 1.25, "nibble": 4.0}
#: Largest item of Blosc2 in bytes.
_MAX_ITEM_BYTES = 255
#: Bytes that Blosc2 may add to data that it cannot compress.
_OVERHEAD = 32


class Encoding:
    """A codec and its settings.

    Parameters
    ----------
    codec
        "raw", "nibble" or "lz4".
    width
        Bytes of an item for lz4.
    by_bits
        Whether to shuffle bits for lz4; otherwise bytes.
    """

    __slots__ = ("by_bits", "codec", "width")

    def __init__(self, codec: str, width: int = 1, by_bits: bool = True) -> None:
        self.codec, self.width, self.by_bits = codec, width, by_bits


@cache
def _blosc2() -> Any:
    blosc2 = require("blosc2", "paged", "the codec 'lz4' of a cache of pages")
    # Let other threads run while one decodes; it is off by default.
    blosc2.set_releasegil(True)
    return blosc2


def _has_blosc2() -> bool:
    try:
        _blosc2()
    except MissingExtraError:
        return False
    return True


def check_codec(codec: str) -> None:
    """Raise an error if a codec is unknown, or needs a package that is missing."""
    if codec not in CODECS:
        raise ParameterError(
            f"codec must be one of {', '.join(CODECS)}, not {codec!r}",
            code=ErrorCode.UNKNOWN_OPTION,
        )
    if codec == "lz4":
        _blosc2()


def choose_encoding(codec: str, bins: Bins, width: int) -> Encoding:
    """Return the encoding of arrays like this one.

    Parameters
    ----------
    codec
        A codec, or "auto" for the fastest one to read.
    bins
        The array, C-contiguous.
    width
        Number of consecutive bins of one row: 1 for a column.
    """
    item = width * bins.itemsize
    widths = [item] if item <= _MAX_ITEM_BYTES else [bins.itemsize]
    shuffled = [
        Encoding("lz4", item, bits) for item in widths for bits in (True, False)
    ]
    plain = Encoding("nibble" if codec != "raw" and fits_nibble(bins) else "raw")
    if codec == "lz4":
        return min(shuffled, key=_encoded_size(bins))
    if codec != "auto" or bins.size == 0 or not _has_blosc2():
        return plain
    best = min(shuffled, key=_encoded_size(bins))
    plain_size = len(encode(plain, bins))
    is_faster = len(encode(best, bins)) * MIN_RATIO[plain.codec] <= plain_size
    return best if is_faster else plain


def _encoded_size(bins: Bins) -> Callable[[Encoding], int]:
    return lambda encoding: len(encode(encoding, bins))


def fits_nibble(bins: Bins) -> bool:
    """Return whether all bins are below 16."""
    return bins.size == 0 or int(bins.max()) < 16


def encode(encoding: Encoding, bins: Bins) -> memoryview:
    """Return the encoded bytes of an array of bins (C-contiguous)."""
    flat = bins.reshape(-1)
    if encoding.codec == "raw":
        stored = flat.astype(flat.dtype.newbyteorder("<"), copy=False)
        return stored.view(np.uint8).data
    if encoding.codec == "nibble":
        half = (flat.size + 1) // 2
        packed = flat[:half].astype(np.uint8)
        packed[: flat.size - half] |= flat[half:].astype(np.uint8) << np.uint8(4)
        return packed.data
    blosc2 = _blosc2()
    filters = [blosc2.Filter.BITSHUFFLE if encoding.by_bits else blosc2.Filter.SHUFFLE]
    chunk = blosc2.compress2(
        flat,
        codec=blosc2.Codec.LZ4,
        clevel=5,
        filters=filters,
        filters_meta=[0],
        typesize=encoding.width,
        nthreads=1,
    )
    return memoryview(chunk)


def stored_sizes(codec: str, size: int, itemsize: int) -> tuple[int, int]:
    """Return the minimum and maximum number of bytes of `size` encoded bins."""
    if codec == "raw":
        return size * itemsize, size * itemsize
    if codec == "nibble":
        return (size + 1) // 2, (size + 1) // 2
    return 16, size * itemsize + _OVERHEAD


def decode(codec: str, stored: npt.NDArray[np.uint8], out: Bins) -> None:
    """Decode the bytes `stored` into `out` (C-contiguous).

    Raises a ValueError if the number of bins is not that of `out`.
    """
    flat = out.reshape(-1)
    if codec == "raw":
        flat.view(np.uint8)[:] = stored
    elif codec == "nibble":
        half = (flat.size + 1) // 2
        np.bitwise_and(stored, 15, out=flat[:half], casting="unsafe")
        rest = stored[: flat.size - half]
        np.right_shift(rest, 4, out=flat[half:], casting="unsafe")
    else:
        blosc2 = _blosc2()
        # Blosc2 trusts the size in the chunk and does not check that of the buffer.
        n_bytes, n_stored, _ = blosc2.get_cbuffer_sizes(stored)
        if (n_bytes, n_stored) != (flat.nbytes, stored.size):
            raise ValueError(f"a chunk of {n_bytes} bytes, not {flat.nbytes}")
        blosc2.decompress2(stored, dst=flat, nthreads=1)
