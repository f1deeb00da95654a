"""What every estimator does with its model: prediction, importances and files."""

from __future__ import annotations

import json
import os
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import NotFittedError

from hornbeam.boosting.booster import Booster
from hornbeam.errors import ErrorCode, ModelFileError
from hornbeam.export import save
from hornbeam.sklearn.table import TableEstimator

__all__ = ["IterationRange", "ModelEstimator"]

IterationRange: TypeAlias = tuple[int, int]

# The attribute by which XGBoost marks a model file as an estimator's.
_MARK = "scikit_learn"


class ModelEstimator(TableEstimator):
    """What all share that learn a model of Hornbeam, however many rounds it has.

    `fit` leaves it as `_booster`.
    """

    _booster: Booster
    importance_type: str | None

    def get_booster(self) -> Booster:
        """Return the trained model."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"this {type(self).__name__} is not fitted yet; call fit first"
            )
        return self._booster

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_booster")

    def _predicted(
        self,
        X: Any,
        predict_type: str,
        validate_features: bool = True,
        base_margin: Any = None,
        iteration_range: IterationRange | None = None,
    ) -> npt.NDArray[np.float32]:
        """Return what the model says of each row."""
        booster = self.get_booster()
        return booster.inplace_predict(
            self._checked(X, reset=False) if validate_features else X,
            iteration_range=self._rounds(iteration_range),
            predict_type=predict_type,
            missing=self.missing,
            validate_features=False,
            base_margin=base_margin,
        )

    def _rounds(self, iteration_range: IterationRange | None) -> IterationRange:
        """Return the rounds to predict with: up to the best, if training found one."""
        if iteration_range is not None:
            return iteration_range
        return self.get_booster().rounds_to_best()

    def apply(
        self, X: Any, iteration_range: IterationRange | None = None
    ) -> npt.NDArray[np.float32]:
        """Return the leaf of each row in each tree."""
        return self.get_booster().predict(
            self._rows(X),
            pred_leaf=True,
            validate_features=False,
            iteration_range=self._rounds(iteration_range),
        )

    @property
    def feature_importances_(self) -> npt.NDArray[np.float64]:
        """Importance of each feature, `importance_type`, with sum 1."""
        booster = self.get_booster()
        usual = "gain" if booster.model.linear is None else "weight"
        scores = booster.get_score(importance_type=self.importance_type or usual)
        names = booster.feature_names or [f"f{i}" for i in range(self.n_features_in_)]
        importances = np.array([scores.get(name, 0.0) for name in names], np.float64)
        total = importances.sum()
        return importances / total if total > 0 else importances

    # Files

    def save_model(self, fname: str | os.PathLike[str]) -> None:
        """Save the model, marked as an estimator's, as ``.json`` or ``.ubj``."""
        marked = self.get_booster().copy()
        marked.set_attr(**{_MARK: json.dumps(self._mark())})
        marked.save_model(fname)

    def export(self, fname: str | os.PathLike[str], **options: Any) -> None:
        """Write the model for where Hornbeam is not, as `Booster.export` does.

        It takes the labels of its classes with it, and the rounds up to the best.
        See `hornbeam.export.save`, which takes the options.
        """
        save(self, fname, **options)

    def load_model(self, fname: str | os.PathLike[str] | bytes | bytearray) -> None:
        """Load a model of this kind of estimator, Hornbeam's or XGBoost's."""
        booster = Booster({"nthread": self.n_jobs}, model_file=fname)
        mark = _read_mark(booster.attr(_MARK))
        own = self.__sklearn_tags__().estimator_type
        kind = mark.get("_estimator_type", own)
        if kind != own:
            raise ModelFileError(
                f"the file holds a {kind}, not a {own}; load it with the estimator "
                "that saved it, or with hornbeam.Booster",
                code=ErrorCode.MODEL_FILE_ESTIMATOR_MISMATCH,
            )
        booster.set_attr(**{_MARK: None})
        self._take_model(booster, mark)
        self._booster = booster
        self.n_features_in_ = booster.num_features()
        if booster.feature_names is not None:
            self.feature_names_in_ = np.array(booster.feature_names, dtype=object)

    def _mark(self) -> dict[str, Any]:
        """Return what a model file says of the estimator."""
        return {"_estimator_type": self.__sklearn_tags__().estimator_type}

    def _take_model(self, booster: Booster, mark: dict[str, Any]) -> None:
        """Take from a loaded model what `fit` knows besides it, such as the classes."""


def _read_mark(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        mark = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        mark = None
    if not isinstance(mark, dict):
        raise ModelFileError(
            f"the attribute {_MARK!r} of the file is not a JSON object; save the model "
            "again",
            code=ErrorCode.MODEL_FILE_WRONG_TYPE,
        )
    return mark
