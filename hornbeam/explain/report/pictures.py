"""The plots of a report by section."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hornbeam.explain.calibration import calibration_of
from hornbeam.explain.confusion import confusion_of
from hornbeam.explain.contributions import (
    Contributions,
    contributions_by_output,
    partners_of,
)
from hornbeam.explain.dependence import partial_dependence
from hornbeam.explain.plots.calibration import plot_calibration
from hornbeam.explain.plots.confusion import plot_confusion
from hornbeam.explain.plots.curves import plot_learning_curves
from hornbeam.explain.plots.dependence import plot_partial_dependence
from hornbeam.explain.plots.reliability import plot_quantile_reliability
from hornbeam.explain.plots.residuals import plot_residuals
from hornbeam.explain.plots.shap_dependence import plot_shap_dependence
from hornbeam.explain.plots.shap_summary import plot_shap_summary
from hornbeam.explain.reliability import reliability_of
from hornbeam.explain.report.figures import Picture, picture_of
from hornbeam.explain.report.findings import Findings
from hornbeam.explain.report.rows import Rows
from hornbeam.explain.residuals import residuals_of
from hornbeam.explain.style import (
    EDGE,
    axes_for,
    legend,
    legend_entry,
    rule,
    series_colours,
    set_titles,
)
from hornbeam.objectives.distributions import Distribution
from hornbeam.objectives.quantiles import QuantileError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["pictures_of"]

_MOST_METRICS = 6
#: Number of partial dependence plots, for one output and for several, and their kind.
_DRAWN, _DRAWN_OF_SEVERAL, _MOST_OUTPUTS = 6, 4, 3
_ROWS, _POINTS, _LINES = 500, 30, 25
#: Maximum number of rows with SHAP values, and of values.
_SHAP_ROWS, _SHAP_CELLS = 1000, 1 << 25
_SWARM_FEATURES = 12
#: Maximum number of feature pairs over all outputs for the interaction search.
_MOST_PAIRS, _PAIRED_ROWS = 300_000, 100
#: Maximum number of outputs in a bar plot of SHAP values.
_MOST_BARS = 10
_FEW_CLASSES, _MOST_CLASSES = 4, 40


def pictures_of(findings: Findings) -> dict[str, list[Picture]]:
    """Return the plots of each section by name."""
    explained, parts = _explained(findings)
    return {
        "curves": _curves(findings),
        "history": _history(findings),
        "fit": _fit(findings),
        "importance": _contributions(findings, parts),
        "dependence": _dependence(findings, explained, parts),
    }


def _explained(findings: Findings) -> tuple[Rows, list[Contributions]]:
    """Return a sample of the rows with the SHAP values of each output."""
    booster, names = findings.booster, _outputs(findings)
    cells = booster.model.n_outputs * (findings.rows.matrix.n_features + 1)
    most = max(1, min(_SHAP_ROWS, _SHAP_CELLS // cells))
    rows = findings.rows.sample(most, findings.seed, "swarm")
    return rows, contributions_by_output(
        booster, rows.matrix, class_names=names or None
    )


def _curves(findings: Findings) -> list[Picture]:
    if findings.curves is None:
        return []
    rounds, found = findings.curves

    def draw(metric: str, figure: Figure) -> None:
        ax = axes_for(figure.add_subplot())
        for name, colour in zip(found, series_colours(len(found)), strict=True):
            marker = "." if len(rounds) == 1 else "-"
            look = {"color": colour, "label": legend_entry(name)}
            ax.plot(rounds, found[name][metric], marker, **look)
        if findings.best_round is not None:
            ax.axvline(findings.best_round, color=EDGE, linestyle=":", linewidth=0.8)
        ax.locator_params(axis="x", integer=True)
        rule(ax)
        set_titles(ax, xlabel="rounds", ylabel=metric)
        legend(ax)

    metrics = list(next(iter(found.values())))[:_MOST_METRICS]
    return [
        picture_of(
            lambda figure, metric=metric: draw(metric, figure),  # type: ignore[misc]
            f"{metric} after {rounds[0]} to {rounds[-1]} rounds. "
            + _ends(metric, found),
            4.8,
            3.2,
        )
        for metric in metrics
    ]


def _ends(metric: str, found: dict[str, dict[str, list[float]]]) -> str:
    """Return the first and last values of a metric's curves as text."""
    return " ".join(
        f"{name.capitalize()} data: from {values[metric][0]:.4g} "
        f"to {values[metric][-1]:.4g}."
        for name, values in found.items()
    )


def _history(findings: Findings) -> list[Picture]:
    history = findings.history
    if not history:
        return []
    metrics = dict.fromkeys(name for scores in history.values() for name in scores)
    return [
        picture_of(
            lambda figure, metric=metric: plot_learning_curves(  # type: ignore[misc]
                history, figure.add_subplot(), metric=metric, title=None
            ),
            f"{metric} after each round, as noted in training.",
            4.8,
            3.2,
        )
        for metric in list(metrics)[:_MOST_METRICS]
    ]


def _fit(findings: Findings) -> list[Picture]:
    """Return the plots of predictions against labels for the task."""
    task, booster, data = findings.task, findings.booster, findings.rows.matrix
    objective = task.objective
    found: list[Picture] = []

    def add(plot: Any, subject: Any, text: str, width: float, height: float) -> None:
        found.append(
            picture_of(
                lambda figure: plot(subject, ax=figure.add_subplot()),
                text,
                width,
                height,
            )
        )

    if task.kind in ("binary", "classes"):
        if objective.has_probabilities and objective.prediction != "margin":
            lines = calibration_of(booster, data, class_names=task.outputs)
            said = "; ".join(
                f"{one.name}: Brier {one.brier:.3f}, mean distance {one.ece:.3f}"
                for one in lines[:8]
            )
            # The legend of many classes is outside of the axes.
            wide = 7.6 if len(lines) > _FEW_CLASSES else 5.2
            add(plot_calibration, lines, f"Calibration. {said}.", wide, 5.0)
        if len(task.outputs) <= _MOST_CLASSES:
            table = confusion_of(booster, data, class_names=task.outputs)
            text = f"Confusion: {table.accuracy:.1%} of the rows are predicted rightly."
            add(plot_confusion, table, text, 5.2, 4.8)
    elif isinstance(objective, QuantileError | Distribution):
        shares = reliability_of(booster, data)
        text = f"Reliability of quantiles: the largest gap is {shares.largest_gap:.3f}."
        add(plot_quantile_reliability, shares, text, 5.0, 4.8)
    elif task.kind == "regression":
        left = residuals_of(booster, data)
        text = f"Residuals: their mean is {left.mean:.4g}, RMSE {left.rmse:.4g}."
        add(plot_residuals, left, text, 6.4, 4.2)
    return found


def _contributions(findings: Findings, parts: list[Contributions]) -> list[Picture]:
    """Return the SHAP summary plots: a beeswarm, or bars for several outputs."""
    if len(parts) > _MOST_BARS:
        return []
    kind = "swarm" if len(parts) == 1 else "bar"
    shown = min(_SWARM_FEATURES, len(parts[0].columns))
    most = [parts[0].columns[place].name for place in parts[0].ranked(3)]
    text = (
        f"What features contribute to the margins of {len(parts[0].values)} rows; most "
        f"of all {', '.join(most)}."
    )
    return [
        picture_of(
            lambda figure: plot_shap_summary(
                parts,
                ax=figure.add_subplot(),
                kind=kind,
                max_features=_SWARM_FEATURES,
                title=None if kind == "swarm" else "Mean size of contributions",
            ),
            text,
            7.2,
            1.2 + 0.34 * shown,
        )
    ]


def _dependence(
    findings: Findings, explained: Rows, parts: list[Contributions]
) -> list[Picture]:
    """Return the partial dependence plots of the most important features.

    Each is followed by the SHAP dependence plot of the feature.
    """
    names = _outputs(findings)
    rows = findings.rows.sample(_ROWS, findings.seed, "dependence")
    chosen = _chosen(findings, names)
    most = _DRAWN_OF_SEVERAL if names else _DRAWN
    used = [
        entry
        for entry in findings.importances.features
        if entry.shap > 0 and np.isfinite(rows.column(entry.feature)).any()
    ]
    # Ordered classes share their margins; the first of these is the location.
    shared = bool(findings.booster.objective.margin_names)
    margins = [0 if shared else output for output in chosen]
    partners = {
        margin: _partners(
            findings, explained, parts, margin, [entry.feature for entry in used[:most]]
        )
        for margin in set(margins)
    }
    found = []
    for place, entry in enumerate(used[:most]):
        for output, margin in zip(chosen, margins, strict=True):
            lines = partial_dependence(
                findings.booster,
                rows.matrix,
                entry.feature,
                output=output,
                # A predicted class is a step function of every feature.
                margins=findings.task.objective.prediction == "class",
                grid=_POINTS,
                max_rows=None,
                class_names=names or None,
            )
            low, high = lines.average.min(), lines.average.max()
            said = f"{entry.name}: in mean from {low:.4g} to {high:.4g}."
            if lines.output:
                said = f"{said[:-1]}, of {lines.output}."
            text = f"How predictions depend on {said}"
            found.append(
                picture_of(
                    lambda figure, lines=lines: plot_partial_dependence(  # type: ignore[misc]
                        lines, ax=figure.add_subplot(), lines=_LINES
                    ),
                    text,
                    4.8,
                    3.2,
                )
            )
            if not shared or output == chosen[0]:
                part, partner = parts[margin or 0], partners[margin][place]
                found.append(_shap(part, entry.feature, partner))
    return found


def _partners(
    findings: Findings,
    explained: Rows,
    parts: list[Contributions],
    output: int | None,
    features: list[int],
) -> list[int | None]:
    """Return the strongest interaction partner of each feature; None if too many
    pairs."""
    if len(parts) * (len(parts[0].columns) + 1) ** 2 > _MOST_PAIRS:
        return [None] * len(features)
    return partners_of(
        findings.booster,
        explained.sample(_PAIRED_ROWS, findings.seed, "pairs").matrix,
        parts[output or 0],
        features,
        output=output,
        class_names=_outputs(findings) or None,
    )


def _shap(part: Contributions, feature: int, partner: int | None) -> Picture:
    """Return the SHAP dependence plot of a feature, coloured by another."""
    name, values = part.columns[feature].name, part.values[:, feature]
    text = (
        f"What {name} contributes to the margins of {len(values)} rows along its "
        f"values: from {values.min():.4g} to {values.max():.4g}"
    )
    if part.output:
        text += f", of {part.output}"
    if partner is not None:
        text += f"; most of all it depends on {part.columns[partner].name}, its colour"
    return picture_of(
        lambda figure: plot_shap_dependence(
            part, feature=feature, ax=figure.add_subplot(), colour=partner
        ),
        f"{text}.",
        4.8,
        3.2,
    )


def _outputs(findings: Findings) -> list[str]:
    """Return the names of the outputs, empty for a single output."""
    several = findings.booster.objective.n_outputs > 1
    return findings.task.outputs if several else []


def _chosen(findings: Findings, names: list[str]) -> list[int | None]:
    """Return the indices of the outputs that are drawn; of many the first and last."""
    if not names:
        return [None]
    places = np.linspace(0, len(names) - 1, min(_MOST_OUTPUTS, len(names)))
    return [int(place) for place in places]
