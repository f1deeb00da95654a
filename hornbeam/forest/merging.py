"""Models that are put together: the rounds of one after those of the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.forest.model import Model

__all__ = ["merge_models"]

# What must be the same, and how to make it so.
_SHARED = {
    "objective": "train them with the same objective",
    "objective_config": "train them with the same parameters of the objective",
    "num_class": "train them with the same classes",
    "num_target": "train them on as many targets",
    "num_feature": "train them on the same columns",
    "feature_names": "train them on the same columns",
    "feature_types": "train them on the same columns",
    "categories": "train them on columns with the same categories",
    "num_parallel_tree": "train them with the same number",
    "exact_features": "train them on columns of the same precision",
    "unseen_missing": "train them with the same unseen",
}


def merge_models(models: Sequence[Model]) -> Model:
    """Return a model of the rounds of all models, which have one base score.

    Trees of a model whose trees have no weights get the weight 1 beside others.
    """
    first = models[0]
    merged = first.beginning()
    if any(model.tree_weights is not None for model in models):
        merged.tree_weights = merged.weights
    for model in models:
        _check_alike(first, model)
        merged.double_scores |= model.double_scores
        merged.add_rounds_of(model, range(model.n_rounds))
    return merged


def _check_alike(first: Model, other: Model) -> None:
    if first.linear is not None or other.linear is not None:
        raise ParameterError(
            "linear models cannot be put together: they have no rounds of their own; "
            "train one on with xgb_model",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )
    for name, advice in _SHARED.items():
        ours, theirs = getattr(first, name), getattr(other, name)
        if ours != theirs:
            raise ParameterError(
                f"the models differ in {name} ({ours!r:.60} and {theirs!r:.60}) and "
                f"cannot be put together; {advice}",
                code=ErrorCode.MODELS_NOT_MERGEABLE,
            )
    if len({tree.value.ndim for tree in (*first.trees, *other.trees)}) > 1:
        raise ParameterError(
            "one model has trees of all outputs and the other has not, and they cannot "
            "be put together; train them with the same multi_strategy",
            code=ErrorCode.MODELS_NOT_MERGEABLE,
        )
    if not np.array_equal(first.base_score, other.base_score):
        raise ParameterError(
            f"the models have the base scores {first.base_score.tolist()} and "
            f"{other.base_score.tolist()}, and one model has one; train them with the "
            "same base_score",
            code=ErrorCode.MODELS_NOT_MERGEABLE,
        )
