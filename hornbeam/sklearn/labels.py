"""Labels of any kind as classes, and classes as the numbers that are learned."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from hornbeam.boosting.booster import Booster
from hornbeam.errors import DataError, ErrorCode, ModelFileError
from hornbeam.sklearn.model import ModelEstimator

__all__ = ["LabelEstimator", "classes_of", "codes_of"]


class LabelEstimator(ClassifierMixin, ModelEstimator):
    """What all classifiers share, however they learn.

    Attributes
    ----------
    classes_
        The labels, sorted.
    """

    classes_: npt.NDArray[Any]

    def _learn_targets(self, y: Any) -> None:
        self.classes_ = classes_of(y)

    @property
    def n_classes_(self) -> int:
        """How many classes there are."""
        return len(self.classes_)

    def _labels(self, y: Any) -> Any:
        codes, unknown = codes_of(y, self.classes_)
        if unknown.size:
            raise DataError(
                f"eval_set holds the label {y[unknown].tolist()[0]!r} in row "
                f"{unknown[0]}, which is not among the labels to train on",
                code=ErrorCode.LABEL_NOT_IN_TRAINING,
            )
        return codes

    def _mark(self) -> dict[str, Any]:
        return super()._mark() | {"classes": self.classes_.tolist()}

    def _take_model(self, booster: Booster, mark: dict[str, Any]) -> None:
        n_classes = max(2, booster.model.n_outputs)
        classes = np.array(mark.get("classes", range(n_classes)))
        if classes.ndim != 1 or len(classes) > n_classes:
            raise ModelFileError(
                f"the file names {len(classes)} classes and predicts {n_classes}; "
                "save it again",
                code=ErrorCode.MODEL_FILE_INCONSISTENT,
            )
        super()._take_model(booster, mark)
        self.classes_ = classes


def classes_of(y: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the labels among targets, sorted."""
    check_classification_targets(y)
    return np.unique(y)


def codes_of(
    y: npt.NDArray[Any], classes: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.intp]]:
    """Return the place of each label among classes, and the rows with other labels."""
    codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    return codes.astype(np.float64), np.flatnonzero(classes[codes] != y)
