"""The logger ``hornbeam``, for lines about what a training does besides its rounds.

They are printed to stderr by the only handler of the logger. A program that wants them
elsewhere replaces it: ``logging.getLogger("hornbeam").handlers = [other]``.
"""

from __future__ import annotations

import logging
import sys

__all__ = ["LOGGER"]


class _Stderr(logging.Handler):
    """Prints lines to the present stderr, which a program may have replaced."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(f"hornbeam: {record.getMessage()}\n")
        sys.stderr.flush()


LOGGER = logging.getLogger("hornbeam")
LOGGER.setLevel(logging.INFO)
LOGGER.propagate = False
LOGGER.addHandler(_Stderr())
