"""Parts of the rows on workers or in processes: binning, messages, and training."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hornbeam.distributed.group import Group

__all__ = ["joined_group"]


def joined_group() -> Group | None:
    """Return the group of processes that this thread has joined; None: it is alone.

    It does not import what a process that is alone does not need.
    """
    module = sys.modules.get("hornbeam.distributed.group")
    return None if module is None else module.active_group()
