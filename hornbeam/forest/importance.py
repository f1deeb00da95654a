"""How important each feature is to a model's trees."""

from __future__ import annotations

import numpy as np

from hornbeam.errors import ParameterError
from hornbeam.forest.model import Model

__all__ = ["IMPORTANCES", "feature_importance"]

IMPORTANCES = ("weight", "gain", "cover", "total_gain", "total_cover")


def feature_importance(model: Model, kind: str) -> dict[str, float]:
    """Return the importance of each feature that a tree splits on, by its name.

    Parameters
    ----------
    model
        A trained model; columns without names are called f0, f1 and so on.
    kind
        ``"weight"`` counts splits; ``"gain"`` and ``"cover"`` are means over the splits
        of a feature, ``"total_gain"`` and ``"total_cover"`` sums.
    """
    if kind not in IMPORTANCES:
        raise ParameterError(
            f"importance_type must be one of {', '.join(IMPORTANCES)}, not {kind!r}"
        )
    counts = np.zeros(model.num_feature)
    totals = np.zeros(model.num_feature)
    of_node = "cover" if "cover" in kind else "gain"
    for tree in model.trees:
        inner = tree.left >= 0
        np.add.at(counts, tree.feature[inner], 1.0)
        np.add.at(totals, tree.feature[inner], getattr(tree, of_node)[inner])
    used = np.flatnonzero(counts)
    values = totals
    if kind == "weight":
        values = counts
    elif not kind.startswith("total"):
        values = np.divide(totals, counts, out=totals, where=counts > 0)
    names = model.feature_names or [f"f{i}" for i in range(model.num_feature)]
    return {names[feature]: float(values[feature]) for feature in used}
