"""Messages that are not what was sent: the error, and a checksum that finds them."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["GarbledMessageError", "sum_of_words"]


class GarbledMessageError(OSError):
    """A message was not the one that the other end had to send next."""


def sum_of_words(part: Any) -> int:
    """Return the sum of the words of 8 bytes of a part of a message.

    It takes a tenth of the time of a CRC, which would be a considerable part of a
    round.
    """
    n_whole = len(part) // 8
    words = np.frombuffer(part, "<u8", n_whole) if n_whole else np.empty(0, "<u8")
    rest = int.from_bytes(bytes(part[8 * n_whole :]), "little")
    return int(np.add.reduce(words)) + rest
