"""What Hornbeam adds to a document of XGBoost's, put where every reader passes over it.

It becomes one text among the parameters of the forest, where XGBoost itself leaves
room for what other versions may write. So do other readers, such as treelite, that take
any other key they do not know for a mistake. A linear model has no such place: there it
stands beside ``learner``, where documents of all kinds may have it.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
from typing import Any

import numpy as np

from hornbeam.errors import ErrorCode, ModelFileError

__all__ = ["brought_out", "dropped", "passed_over", "put_away"]

_BLOCK, _THRESHOLDS = "hornbeam", "hornbeam_thresholds"


def put_away(document: dict[str, Any]) -> dict[str, Any]:
    """Return the `document` with what is ours in its place; it is changed."""
    forest = _forest_of(document)
    if forest is None:
        return document
    exact = {
        str(number): base64.b64encode(tree.pop(_THRESHOLDS).tobytes()).decode()
        for number, tree in enumerate(forest["trees"])
        if _THRESHOLDS in tree
    }
    own = {**document.pop(_BLOCK), **({"thresholds": exact} if exact else {})}
    forest["gbtree_model_param"][_BLOCK] = json.dumps(own, sort_keys=True)
    return document


def dropped(document: dict[str, Any]) -> dict[str, Any]:
    """Return the `document` without what is ours; it is changed."""
    return passed_over(put_away(document))


def passed_over(document: Any) -> Any:
    """Return a document that was read without what is ours; it is changed.

    What is not as it should be is left for others to find.
    """
    with contextlib.suppress(AttributeError, KeyError, TypeError):
        document.pop(_BLOCK, None)
        forest = _forest_of(document)
        if forest is not None:
            forest["gbtree_model_param"].pop(_BLOCK, None)
    return document


def brought_out(document: Any) -> Any:
    """Return a document that was read, with what is ours where `read_document` looks.

    It is changed. What is not as it should be elsewhere is left for others to find.
    """
    try:
        forest = _forest_of(document)
        text = forest and forest["gbtree_model_param"].pop(_BLOCK, None)
        trees = forest and forest["trees"]
    except (AttributeError, KeyError, TypeError):
        return document
    if text is None:
        return document
    if _BLOCK in document:
        raise ModelFileError(
            "the block 'hornbeam' is there twice",
            code=ErrorCode.MODEL_FILE_NOT_PARSABLE,
        )
    try:
        own = json.loads(text)
        exact = own.pop("thresholds", {})
        for number, packed in exact.items():
            values = np.frombuffer(base64.b64decode(packed, validate=True), "<f8")
            trees[int(number)][_THRESHOLDS] = values.astype(np.float64)
    except (
        *(AttributeError, IndexError, RecursionError, TypeError),
        *(binascii.Error, ValueError),
    ) as error:
        raise ModelFileError(
            f"the block 'hornbeam' cannot be read: {error}",
            code=ErrorCode.MODEL_FILE_NOT_PARSABLE,
        ) from None
    document[_BLOCK] = own
    return document


def _forest_of(document: Any) -> Any:
    """Return the part of a document that holds trees; None of a linear model."""
    booster = document["learner"]["gradient_booster"]
    booster = booster.get("gbtree", booster)
    return booster["model"] if "trees" in booster["model"] else None
