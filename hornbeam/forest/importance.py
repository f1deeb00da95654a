"""How important each feature is to a model's trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.forest.model import Model

__all__ = ["IMPORTANCES", "feature_importance", "split_sums"]

IMPORTANCES = ("weight", "gain", "cover", "total_gain", "total_cover")


def feature_importance(model: Model, kind: str, names: Sequence[str]) -> dict[str, Any]:
    """Return the importance of each feature that a tree splits on, by its name.

    Parameters
    ----------
    model
        A trained model.
    kind
        ``"weight"`` counts splits; ``"gain"`` and ``"cover"`` are means over the splits
        of a feature, ``"total_gain"`` and ``"total_cover"`` sums. Of a linear model
        ``"weight"`` are the weights of all features, a list where there are several
        outputs.
    names
        Of the features.
    """
    if kind not in IMPORTANCES:
        raise ParameterError(
            f"importance_type must be one of {', '.join(IMPORTANCES)}, not {kind!r}",
            code=ErrorCode.UNKNOWN_IMPORTANCE_TYPE,
        )
    if model.linear is not None:
        if kind != "weight":
            raise ParameterError(
                "the importances of a model of booster='gblinear' are its weights, "
                f"importance_type='weight', not {kind!r}",
                code=ErrorCode.IMPORTANCE_UNSUPPORTED_BY_GBLINEAR,
            )
        weights = model.linear.weights[:-1].astype(np.float64)
        listed = weights[:, 0] if weights.shape[1] == 1 else weights
        return dict(zip(names, listed.tolist(), strict=True))
    totals, counts = split_sums(model, "cover" if "cover" in kind else "gain")
    used = np.flatnonzero(counts)
    values = totals
    if kind == "weight":
        values = counts
    elif not kind.startswith("total"):
        values = np.divide(totals, counts, out=totals, where=counts > 0)
    return {names[i]: float(values[i]) for i in used.tolist()}


def split_sums(
    model: Model, of_node: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the ``"gain"`` or ``"cover"`` of the splits of each feature in all.

    And how many splits there are; both are (features,).
    """
    totals, counts = np.zeros(model.num_feature), np.zeros(model.num_feature)
    for tree in model.trees:
        inner = tree.left >= 0
        np.add.at(counts, tree.feature[inner], 1.0)
        np.add.at(totals, tree.feature[inner], getattr(tree, of_node)[inner])
    return totals, counts
