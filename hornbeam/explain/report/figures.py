"""Pictures of matplotlib as parts of a page, the same bytes each time."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hornbeam.errors import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Picture", "picture_of"]

#: A picture of more bytes is one of dots, and not of lines.
_MOST_OF_LINES = 120_000
_DOTS = 144  # for each inch


@dataclass(frozen=True)
class Picture:
    """A picture: its source as a data URI, what it shows in words, and its size."""

    source: str
    text: str
    width: int
    height: int


def picture_of(
    draw: Callable[[Figure], Any], text: str, width: float = 6.4, height: float = 4.0
) -> Picture:
    """Return what a function draws on a new figure.

    Parameters
    ----------
    draw
        Draws on the figure that it is given.
    text
        What the picture shows, for those who do not see it.
    width, height
        In inches.
    """
    mpl: Any = require("matplotlib", "report", "a report")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams["svg.hashsalt"] = "hornbeam"
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure)
        kind, content = "svg+xml", _saved(figure, "svg", {"Date": None})
        if len(content) > _MOST_OF_LINES:
            kind, content = "png", _saved(figure, "png", {"Software": None})
    coded = base64.b64encode(content).decode()
    return Picture(
        f"data:image/{kind};base64,{coded}",
        text,
        round(width * 96),
        round(height * 96),
    )


def _saved(figure: Figure, kind: str, metadata: dict[str, None]) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format=kind, dpi=_DOTS, transparent=True, metadata=metadata)
    return file.getvalue()
