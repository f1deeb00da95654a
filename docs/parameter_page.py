"""A Sphinx extension: the page of parameters, from the table that training reads.

Each row has the names of other libraries, which the finder of the page searches too.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive

from hornbeam.parameter_names import LIGHTGBM, OTHERS, OWN
from hornbeam.params import parameter_table

__all__ = ["setup"]


class Parameters(Directive):
    """Writes the finder and the table."""

    def run(self) -> list[nodes.Node]:
        rows = "".join(_row(row) for row in parameter_table())
        html = (
            '<p><input id="find-parameter" type="search" autocomplete="off" '
            'aria-label="Find a parameter" '
            'placeholder="a name here, in LightGBM, CatBoost or scikit-learn"></p>'
            '<div class="parameters"><table class="table" id="parameters"><thead><tr>'
            "<th>name</th><th>default</th><th>meaning</th><th>XGBoost</th>"
            "<th>LightGBM</th><th>CatBoost, scikit-learn</th></tr>"
            f'</thead><tbody>{rows}</tbody></table></div><p id="no-parameter" hidden>'
            "No parameter has this name or meaning.</p>"
        )
        return [nodes.raw("", html, format="html")]


def _row(row: Any) -> str:
    default = "" if row.default in (None, []) else f"<code>{row.default}</code>"
    allowed = f"<br><small>{escape(row.range)}</small>" if row.range else ""
    cells = {
        "name": _names((row.name, *row.aliases), "<br>"),
        "default": default,
        "meaning": escape(row.help) + allowed,
        "XGBoost": "" if row.name in OWN else "the same",
        "LightGBM": _names(LIGHTGBM.get(row.name, ())),
        "CatBoost, scikit-learn": _names(OTHERS.get(row.name, ())),
    }
    inner = "".join(
        f'<td data-column="{name}">{cell}</td>' for name, cell in cells.items()
    )
    return f'<tr id="parameter-{row.name}">{inner}</tr>'


def _names(names: Sequence[str], between: str = ", ") -> str:
    return between.join(f"<code>{name}</code>" for name in names)


def setup(app: Any) -> dict[str, bool]:
    """Register the directive and the script of its finder."""
    app.add_directive("parameters", Parameters)
    app.add_js_file("find-parameter.js")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
