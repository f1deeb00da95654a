"""The command line. It needs the extra ``cli``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hornbeam.errors import require
from hornbeam.lazy import names_from

if TYPE_CHECKING:
    from hornbeam.cli.training import Job, run

for module in ("typer", "rich", "pyarrow"):
    require(module, "cli", "the command line")

__all__ = ["Job", "run"]

# Training loads the compiler, which --help does not need.
_HOMES = {
    "Job": "hornbeam.cli.training",
    "run": "hornbeam.cli.training",
}

__getattr__, __dir__ = names_from(__name__, _HOMES)
