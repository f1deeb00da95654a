"""Explanations of a trained model: plots, numbers and text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hornbeam.lazy import names_from

if TYPE_CHECKING:
    from hornbeam.explain.calibration import Calibration, calibration_of
    from hornbeam.explain.confusion import Confusion, confusion_of
    from hornbeam.explain.contributions import (
        Contributions,
        contributions_by_output,
        contributions_of,
        contributions_of_row,
        interactions_of,
    )
    from hornbeam.explain.curves import LearningCurve, learning_curves_of
    from hornbeam.explain.dependence import PartialDependence, partial_dependence
    from hornbeam.explain.dot import to_graphviz
    from hornbeam.explain.picture import plot_tree
    from hornbeam.explain.plots.calibration import plot_calibration
    from hornbeam.explain.plots.confusion import plot_confusion
    from hornbeam.explain.plots.curves import plot_learning_curves
    from hornbeam.explain.plots.dependence import plot_partial_dependence
    from hornbeam.explain.plots.importance import plot_importance
    from hornbeam.explain.plots.reliability import plot_quantile_reliability
    from hornbeam.explain.plots.residuals import plot_residuals
    from hornbeam.explain.plots.shap_dependence import plot_shap_dependence
    from hornbeam.explain.plots.shap_summary import plot_shap_summary
    from hornbeam.explain.plots.shap_waterfall import plot_shap_waterfall
    from hornbeam.explain.reliability import Reliability, reliability_of
    from hornbeam.explain.residuals import Residuals, residuals_of
    from hornbeam.explain.text import tree_text

__all__ = [
    "Calibration",
    "Confusion",
    "Contributions",
    "LearningCurve",
    "PartialDependence",
    "Reliability",
    "Residuals",
    "calibration_of",
    "confusion_of",
    "contributions_by_output",
    "contributions_of",
    "contributions_of_row",
    "interactions_of",
    "learning_curves_of",
    "partial_dependence",
    "plot_calibration",
    "plot_confusion",
    "plot_importance",
    "plot_learning_curves",
    "plot_partial_dependence",
    "plot_quantile_reliability",
    "plot_residuals",
    "plot_shap_dependence",
    "plot_shap_summary",
    "plot_shap_waterfall",
    "plot_tree",
    "reliability_of",
    "residuals_of",
    "to_graphviz",
    "tree_text",
]

_HOMES = {
    "Calibration": "hornbeam.explain.calibration",
    "Confusion": "hornbeam.explain.confusion",
    "Contributions": "hornbeam.explain.contributions",
    "LearningCurve": "hornbeam.explain.curves",
    "PartialDependence": "hornbeam.explain.dependence",
    "Reliability": "hornbeam.explain.reliability",
    "Residuals": "hornbeam.explain.residuals",
    "calibration_of": "hornbeam.explain.calibration",
    "confusion_of": "hornbeam.explain.confusion",
    "contributions_by_output": "hornbeam.explain.contributions",
    "contributions_of": "hornbeam.explain.contributions",
    "contributions_of_row": "hornbeam.explain.contributions",
    "interactions_of": "hornbeam.explain.contributions",
    "learning_curves_of": "hornbeam.explain.curves",
    "partial_dependence": "hornbeam.explain.dependence",
    "plot_calibration": "hornbeam.explain.plots.calibration",
    "plot_confusion": "hornbeam.explain.plots.confusion",
    "plot_importance": "hornbeam.explain.plots.importance",
    "plot_learning_curves": "hornbeam.explain.plots.curves",
    "plot_partial_dependence": "hornbeam.explain.plots.dependence",
    "plot_quantile_reliability": "hornbeam.explain.plots.reliability",
    "plot_residuals": "hornbeam.explain.plots.residuals",
    "plot_shap_dependence": "hornbeam.explain.plots.shap_dependence",
    "plot_shap_summary": "hornbeam.explain.plots.shap_summary",
    "plot_shap_waterfall": "hornbeam.explain.plots.shap_waterfall",
    "plot_tree": "hornbeam.explain.picture",
    "reliability_of": "hornbeam.explain.reliability",
    "residuals_of": "hornbeam.explain.residuals",
    "to_graphviz": "hornbeam.explain.dot",
    "tree_text": "hornbeam.explain.text",
}

__getattr__, __dir__ = names_from(__name__, _HOMES)
