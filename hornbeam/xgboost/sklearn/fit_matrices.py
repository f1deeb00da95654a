"""The matrices of training and of evaluation, in one set of categories."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hornbeam.data.categories import Categories
from hornbeam.errors import DataError, ErrorCode
from hornbeam.xgboost.booster import Booster

__all__ = ["get_model_categories", "matrices_of", "pick_ref_categories"]


def get_model_categories(
    X: Any, model: Any, feature_types: Sequence[str] | None
) -> tuple[Any, Sequence[str] | Categories | None]:
    """Return the model to go on from, and the types that its new data should have.

    Those are the categories that it knows, if `X` is a frame, which has its own types.
    """
    if model is None or not _is_frame(X):
        return model, feature_types
    if not isinstance(model, Booster):
        model = Booster(model_file=model)
    categories = model.get_categories()
    return model, feature_types if categories.empty() else categories


def pick_ref_categories(
    X: Any,
    model_cats: Sequence[str] | Categories | None,
    Xy_cats: Categories | None,
) -> Sequence[str] | Categories | None:
    """Return the types for data to evaluate on.

    Parameters
    ----------
    X
        Its features.
    model_cats
        What `get_model_categories` has found.
    Xy_cats
        The categories of the data to train on.
    """
    if isinstance(model_cats, Categories) or not _is_frame(X):
        return model_cats
    return model_cats if Xy_cats is None or Xy_cats.empty() else Xy_cats


def matrices_of(
    create: Callable[..., Any],
    X: Any,
    y: Any,
    fields: Mapping[str, Any],
    eval_set: Sequence[tuple[Any, Any]] | None,
    eval_fields: Mapping[str, tuple[str, Sequence[Any] | None]],
    feature_types: Sequence[str] | Categories | None,
    feature_weights: Any,
) -> tuple[Any, list[tuple[Any, str]]]:
    """Return the matrix to train on, and those to evaluate on with their names.

    Parameters
    ----------
    create
        Makes a matrix.
    X, y, fields
        What to train on, and what goes with its rows.
    eval_set, eval_fields
        Pairs to evaluate on, and what goes with theirs: by the name of the field, the
        name of the argument and its values. A pair that is the training data itself is
        not read again.
    feature_types
        What `get_model_categories` has found.
    feature_weights
        How likely each column is to be drawn.
    """
    dtrain = create(
        ref=None,
        data=X,
        label=y,
        feature_types=feature_types,
        feature_weights=feature_weights,
        **fields,
    )
    if eval_set is None:
        if any(values is not None for _, values in eval_fields.values()):
            raise DataError(
                "`eval_set` is not set but one of the other evaluation meta info is "
                "not None: "
                + ", ".join(
                    name for name, values in eval_fields.values() if values is not None
                ),
                code=ErrorCode.INVALID_EVALS,
            )
        return dtrain, []
    own = dtrain.get_categories() if hasattr(dtrain, "get_categories") else None
    columns = {
        field: _one_a_pair(name, values, len(eval_set))
        for field, (name, values) in eval_fields.items()
    }
    evals = []
    for number, (one_X, one_y) in enumerate(eval_set):
        beside = {field: values[number] for field, values in columns.items()}
        same = all(beside.get(field) is value for field, value in fields.items())
        if one_X is X and one_y is y and same:
            evals.append((dtrain, f"validation_{number}"))
            continue
        feature_types = pick_ref_categories(one_X, feature_types, own)
        matrix = create(
            ref=dtrain, data=one_X, label=one_y, feature_types=feature_types, **beside
        )
        evals.append((matrix, f"validation_{number}"))
    return dtrain, evals


def _one_a_pair(name: str, values: Sequence[Any] | None, pairs: int) -> Sequence[Any]:
    if values is None:
        return [None] * pairs
    if len(values) != pairs:
        raise DataError(
            f"{name}'s length does not equal `eval_set`'s length, expecting {pairs}, "
            f"got {len(values)}",
            code=ErrorCode.INVALID_EVALS,
        )
    return values


def _is_frame(data: Any) -> bool:
    return hasattr(data, "columns") or hasattr(data, "column_names")
