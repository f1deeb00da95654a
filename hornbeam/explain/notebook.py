"""Models and matrices as HTML fragments for notebooks, in the colours of the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import islice

import numpy as np

from hornbeam.boosting.booster import Booster
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.schema import time_kind, times_of
from hornbeam.explain.curves import LearningCurve, learning_curves_of
from hornbeam.explain.style import number, shorten
from hornbeam.explain.text import tree_text
from hornbeam.features.formulas import names_of

__all__ = ["booster_html", "matrix_html"]

#: Features, or columns, that are listed.
_MOST = 20
#: Levels of the tree that are shown.
_LEVELS = 3
#: Missing values are counted in at most so many values of a matrix.
_COUNTED = 1 << 25
#: Of a curve, in units of the picture.
_WIDTH, _HEIGHT = 300, 140
#: Readable on light and on dark pages.
_COLOURS = ("#4c8fd0", "#d98a2b", "#4fa66a", "#b56bc4")
_KINDS = {"c": "categorical", "i": "boolean", "int": "integer", "float": "number"}


def booster_html(booster: Booster) -> str:
    """Return a model as HTML: its curve, its importances and its first tree."""
    parts = [*_curves(booster.history), *_importances(booster)]
    figures = "".join(f"<div>{part}</div>" for part in parts)
    html = f"<p><code>{escape(repr(booster))}</code></p>"
    if figures:
        html += f'<div style="display:flex;flex-wrap:wrap;gap:2em">{figures}</div>'
    if booster.model.trees:
        text = tree_text(booster, 0, max_depth=_LEVELS)
        html += (
            "<details><summary>the first tree</summary>"
            f'<pre style="overflow-x:auto">{escape(text)}</pre></details>'
        )
    return f"<div>{html}</div>"


def matrix_html(matrix: DMatrix) -> str:
    """Return a matrix as HTML: its columns with their kinds and missing shares."""
    types, shown = matrix.feature_types, range(min(matrix.n_features, _MOST))
    # Bins keep only the parts of times, which are columns of their own.
    names, times = names_of(matrix.schema), times_of(matrix.raw_schema)
    counts = not matrix.table.is_stream
    counts &= matrix.n_rows * len(shown) <= _COUNTED and matrix.n_rows > 0
    rows = []
    for feature in shown:
        kind = "number" if types is None else types[feature]
        levels = matrix.schema.categories.of(feature)
        kind = _KINDS.get(kind, "number")
        if feature in times:
            kind = str(time_kind(matrix.raw_schema.types, feature))
        if levels is not None:
            kind += f", {len(levels):,} levels"
        missing = ""
        if counts and not (feature in times and matrix.derived is not None):
            missing = f"{np.isnan(matrix.table.column(feature)).mean():.1%}"
        rows.append((names[feature], kind, missing))
    html = _table(("column", "kind", "missing"), rows)
    if matrix.n_features > _MOST:
        html += f"<p>and {matrix.n_features - _MOST:,} more columns</p>"
    return f"<div><p><code>{escape(repr(matrix))}</code></p>{html}</div>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    titles = "".join(f"<th>{title}</th>" for title in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"


def _curves(history: Mapping[str, Mapping[str, Sequence[float]]]) -> list[str]:
    """Return a picture of the last metric of the training, if it was evaluated."""
    if not history:
        return []
    curves = [c for c in learning_curves_of(history) if np.isfinite(c.scores).all()]
    curves = [c for c in curves if c.metric == curves[-1].metric]
    if not curves or len(curves[0].scores) < 2:
        return []
    return [_curve_picture(curves[: len(_COLOURS)])]


def _curve_picture(curves: Sequence[LearningCurve]) -> str:
    low = min(float(curve.scores.min()) for curve in curves)
    high = max(float(curve.scores.max()) for curve in curves)
    span = high - low or 1.0
    lines, names = [], []
    for curve, colour in zip(curves, _COLOURS, strict=False):
        x = np.linspace(0, _WIDTH, len(curve.scores))
        y = _HEIGHT * (1 - (curve.scores - low) / span)
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
        lines.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" '
            'stroke-width="2"/>'
        )
        names.append(f'<span style="color:{colour}">{escape(curve.data)}</span>')
    metric, rounds = escape(curves[0].metric), len(curves[0].scores)
    return (
        f"<div>{metric} by round: {', '.join(names)}</div>"
        f'<svg role="img" aria-label="{metric} by round" width="{_WIDTH + 60}" '
        f'height="{_HEIGHT + 24}" viewBox="-52 -6 {_WIDTH + 60} {_HEIGHT + 24}" '
        'font-size="11" fill="currentColor">'
        f'<path d="M0 0V{_HEIGHT}H{_WIDTH}" fill="none" stroke="currentColor" '
        f'stroke-opacity="0.4"/>{"".join(lines)}'
        f'<text x="-4" y="8" text-anchor="end">{number(high)}</text>'
        f'<text x="-4" y="{_HEIGHT}" text-anchor="end">{number(low)}</text>'
        f'<text x="{_WIDTH}" y="{_HEIGHT + 14}" text-anchor="end">{rounds}</text></svg>'
    )


def _importances(booster: Booster) -> list[str]:
    """Return the most important features as bars."""
    kind = "gain" if booster.model.linear is None else "weight"
    scores = booster.get_score(importance_type=kind)
    totals = {name: float(np.sum(np.abs(score))) for name, score in scores.items()}
    ranked = sorted(totals.items(), key=lambda item: (-item[1], item[0]))
    if not ranked or ranked[0][1] == 0:
        return []
    rows = "".join(
        f'<div style="text-align:right">{escape(shorten(name))}</div>'
        f'<div><div style="background:{_COLOURS[0]};height:0.8em;'
        f'width:{max(2.0, 180 * score / ranked[0][1]):.0f}px"></div></div>'
        f"<div>{number(score)}</div>"
        for name, score in islice(ranked, 10)
    )
    more = f" of {len(ranked)}" if len(ranked) > 10 else ""
    return [
        f"<div>importance ({kind}), the first {min(10, len(ranked))}{more}</div>"
        '<div style="display:grid;grid-template-columns:auto auto auto;gap:0.1em 0.6em;'
        f'align-items:center">{rows}</div>'
    ]
