"""How a run of codes is laid down in a file: raw, as nibbles, or by lz4.

raw: as in memory, little-endian. nibble: codes below 16, two a byte; the low halves
are the first half of the run and the high ones the second, so that both directions
are plain vector loops. lz4: a chunk of Blosc2, its bits (or bytes) shuffled first.
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

Codes = npt.NDArray[Any]

#: What a run can be, and what can be asked for.
STORED = ("raw", "nibble", "lz4")
CODECS = ("auto", *STORED)
#: How many times smaller lz4 must make a run to be worth its time: a core unpacks about
#: 1.4 GB/s of codes from it, 10 from nibbles, and 4-5 come raw from the page cache.
WORTH = {"raw": 1.25, "nibble": 4.0}
#: Blosc2 takes no wider items.
_WIDEST = 255
#: Bytes that Blosc2 may add to what it cannot compress.
_OVERHEAD = 32


class Encoding:
    """A codec, and what it is told: the width of an item, and what is shuffled.

    Parameters
    ----------
    codec
        "raw", "nibble" or "lz4".
    width
        Bytes of one item for lz4.
    by_bits
        Whether lz4 shuffles bits, not bytes.
    """

    __slots__ = ("by_bits", "codec", "width")

    def __init__(self, codec: str, width: int = 1, by_bits: bool = True) -> None:
        self.codec, self.width, self.by_bits = codec, width, by_bits


@cache
def _blosc2() -> Any:
    blosc2 = require("blosc2", "paged", "the codec 'lz4' of a cache of pages")
    # The threads that read go on while others count; it is off by default.
    blosc2.set_releasegil(True)
    return blosc2


def _has_blosc2() -> bool:
    try:
        _blosc2()
    except MissingExtraError:
        return False
    return True


def check_codec(codec: str) -> None:
    """Refuse a codec that is unknown, or that needs what is not installed."""
    if codec not in CODECS:
        raise ParameterError(
            f"codec must be one of {', '.join(CODECS)}, not {codec!r}",
            code=ErrorCode.UNKNOWN_OPTION,
        )
    if codec == "lz4":
        _blosc2()


def choose_encoding(codec: str, codes: Codes, width: int) -> Encoding:
    """Return how to lay down runs like this one.

    Parameters
    ----------
    codec
        What was asked for; "auto" for the plainest that is worth it.
    codes
        One run, C-contiguous.
    width
        How many codes, one after the other, belong to one row: 1 for a column.
    """
    item = width * codes.itemsize
    widths = [item] if item <= _WIDEST else [codes.itemsize]
    shuffled = [
        Encoding("lz4", item, bits) for item in widths for bits in (True, False)
    ]
    plain = Encoding("nibble" if codec != "raw" and fits_nibble(codes) else "raw")
    if codec == "lz4":
        return min(shuffled, key=_size_of(codes))
    if codec != "auto" or codes.size == 0 or not _has_blosc2():
        return plain
    best = min(shuffled, key=_size_of(codes))
    plain_size = len(encode(plain, codes))
    worth = len(encode(best, codes)) * WORTH[plain.codec] <= plain_size
    return best if worth else plain


def _size_of(codes: Codes) -> Callable[[Encoding], int]:
    return lambda choice: len(encode(choice, codes))


def fits_nibble(codes: Codes) -> bool:
    """Return whether nibbles hold these codes."""
    return codes.size == 0 or int(codes.max()) < 16


def encode(choice: Encoding, codes: Codes) -> memoryview:
    """Return the bytes of a run of codes (C-contiguous)."""
    flat = codes.reshape(-1)
    if choice.codec == "raw":
        stored = flat.astype(flat.dtype.newbyteorder("<"), copy=False)
        return stored.view(np.uint8).data
    if choice.codec == "nibble":
        half = (flat.size + 1) // 2
        packed = flat[:half].astype(np.uint8)
        packed[: flat.size - half] |= flat[half:].astype(np.uint8) << np.uint8(4)
        return packed.data
    blosc2 = _blosc2()
    filters = [blosc2.Filter.BITSHUFFLE if choice.by_bits else blosc2.Filter.SHUFFLE]
    chunk = blosc2.compress2(
        flat,
        codec=blosc2.Codec.LZ4,
        clevel=5,
        filters=filters,
        filters_meta=[0],
        typesize=choice.width,
        nthreads=1,
    )
    return memoryview(chunk)


def stored_sizes(codec: str, size: int, itemsize: int) -> tuple[int, int]:
    """Return the least and the most bytes that a run of `size` codes can take."""
    if codec == "raw":
        return size * itemsize, size * itemsize
    if codec == "nibble":
        return (size + 1) // 2, (size + 1) // 2
    return 16, size * itemsize + _OVERHEAD


def decode(codec: str, stored: npt.NDArray[np.uint8], out: Codes) -> None:
    """Write the codes of the bytes `stored` into `out` (C-contiguous).

    ValueError if these cannot be the bytes of so many codes.
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
        # Blosc2 believes the size in the chunk, not that of the buffer.
        n_bytes, n_stored, _ = blosc2.get_cbuffer_sizes(stored)
        if (n_bytes, n_stored) != (flat.nbytes, stored.size):
            raise ValueError(f"a chunk of {n_bytes} bytes, not {flat.nbytes}")
        blosc2.decompress2(stored, dst=flat, nthreads=1)
