"""Runs kernels that are one loop over rows."""

from __future__ import annotations

from typing import Any

from hornbeam.kernels.plan import CELLS_PER_ROW
from hornbeam.kernels.team import Team

__all__ = ["run_rows"]


def run_rows(team: Team, kernel: Any, rows: int, *arguments: Any) -> None:
    """Run a kernel that is one loop over rows."""
    team.run(kernel, team.threads_for(CELLS_PER_ROW * rows), *arguments)
