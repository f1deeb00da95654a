"""Reads the output of a program on a pseudo-terminal."""

from __future__ import annotations

import os


def read_all(reader: int) -> str:
    """Return the output of a terminal until the last writer closes it."""
    parts = []
    while True:
        try:
            part = os.read(reader, 1 << 16)
        except OSError:
            part = b""
        if not part:
            os.close(reader)
            return b"".join(parts).decode()
        parts.append(part)
