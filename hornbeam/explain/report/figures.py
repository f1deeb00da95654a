"""Matplotlib figures as data URIs, with reproducible bytes."""

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

#: A figure whose SVG is larger than this is embedded as PNG.
_MOST_OF_LINES = 120_000
_DOTS = 144  # dots per inch


@dataclass(frozen=True)
class Picture:
    """A figure of the page: data URI, alternative text and size."""

    source: str
    text: str
    width: int
    height: int


def picture_of(
    draw: Callable[[Figure], Any], text: str, width: float = 6.4, height: float = 4.0
) -> Picture:
    """Return the figure that a function draws.

    Parameters
    ----------
    draw
        Function that draws on a figure.
    text
        Alternative text.
    width, height
        Size in inches.
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
