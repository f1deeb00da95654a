"""What a shell offers while a command is typed: parameters, columns, fixed words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import typer

from hornbeam.cli.rows import open_source
from hornbeam.errors import HornbeamError
from hornbeam.params import parameter_table

__all__ = ["columns", "parameters", "words"]


def parameters(incomplete: str) -> list[str]:
    """Return the parameters that begin with what was typed."""
    return [
        f"{row.name}=" for row in parameter_table() if row.name.startswith(incomplete)
    ]


def columns(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the columns of DATA that begin with what was typed; none of bad data."""
    # An option without its value stops typer before it assigns the arguments.
    data = ctx.params.get("data") or next(iter(ctx.args), None)
    if data is None:
        return []
    database = ctx.params.get("database")
    try:
        names = open_source(data, database and Path(database)).column_names
    except (HornbeamError, OSError):
        return []
    return [name for name in names or () if name.startswith(incomplete)]


def words(*offered: str) -> Callable[[str], list[str]]:
    """Return a function that completes to one of these words."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in offered if word.startswith(incomplete)]

    return complete
