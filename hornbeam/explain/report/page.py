"""The HTML page of a report, self-contained."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import Any

from hornbeam.errors import require
from hornbeam.explain.report.figures import Picture
from hornbeam.explain.report.findings import Findings
from hornbeam.explain.report.groups import short

__all__ = ["page_of"]

_FOLDER = files("hornbeam.explain.report")


def page_of(findings: Findings, pictures: dict[str, list[Picture]]) -> str:
    """Return the HTML page of a report.

    The content security policy of the page allows its own script only, and no requests.

    Parameters
    ----------
    findings
        Content of the report.
    pictures
        Figures of each section by name.
    """
    jinja: Any = require("jinja2", "report", "a report")
    environment = jinja.Environment(
        autoescape=True,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "count": lambda value: f"{value:,}",
        "percent": _percent,
        "score": lambda value: f"{value:.5g}",
        "short": short,
    }
    script = _text("trees.js")
    trees = findings.trees
    return environment.from_string(_text("page.html.jinja")).render(
        found=findings,
        pictures=pictures,
        # A browser ends a script at any text that looks like its closing tag.
        trees=None if trees is None else trees.text.replace("<", "\\u003c"),
        style=_text("page.css"),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _text(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _percent(share: float) -> str:
    """Return a share in percent, with one decimal where it is small."""
    if share == 0:
        return "0%"
    if 0 < share < 0.001:
        return "< 0.1%"
    return f"{share:.1%}" if share < 0.0995 else f"{share:.0%}"
