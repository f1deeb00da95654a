"""Base classes of the estimators: input validation, prediction and model files."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import assert_all_finite, check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from hornbeam.boosting.booster import Booster
from hornbeam.data.containers.dispatch import check_is_local
from hornbeam.data.containers.frame import column_names
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.schema import check_names_differ
from hornbeam.errors import (
    DataError,
    ErrorCode,
    HornbeamError,
    ModelFileError,
    short_traceback,
)
from hornbeam.export import save
from hornbeam.features.formulas import names_of
from hornbeam.params import ESTIMATOR

__all__ = [
    "IterationRange",
    "ModelClassifier",
    "ModelEstimator",
    "check_targets",
    "encode_labels",
    "seed_of",
    "sorted_classes",
]

#: Rounds (begin, end); the end is not included.
IterationRange: TypeAlias = tuple[int, int]

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


class ModelEstimator(BaseEstimator):
    """Base class of all estimators; `fit` stores the trained booster in `_booster`."""

    # Parameters of all estimators.
    missing: float
    n_jobs: int | None
    enable_categorical: bool
    feature_types: Sequence[str] | None
    importance_type: str | None

    _booster: Booster

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    # Input

    def _validate_training_data(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return validated features and targets; set what `fit` learns from them."""
        if y is None:
            raise DataError(
                f"{type(self).__name__} requires y to be passed, but the target y is "
                "None",
                code=ErrorCode.META_INFO_MISSING,
            )
        X = self._validate_features(X, reset=True)
        y = self._validate_targets(X, y)
        self._fit_targets(y)
        return X, y

    def _validate_features(self, X: Any, *, reset: bool) -> Any:
        """Return features with the columns of training, or set these if `reset`.

        Data frames are returned unchanged, so each column keeps its precision.
        """
        if not reset and self._is_valid_array(X):
            return X
        check_is_local(X)
        check_names_differ(column_names(X) or [])
        _check_names_are_alike(X)
        return validate_data(
            self,
            X,
            reset=reset,
            skip_check_array=hasattr(X, "columns"),
            accept_sparse="csr",
            # The matrix checks this, and `missing` may be infinite.
            ensure_all_finite=False,
            ensure_min_samples=1 if reset else 0,
        )

    def _is_valid_array(self, X: Any) -> bool:
        """Return whether X is a float array with the columns of training, unnamed.

        scikit-learn's `validate_data` would accept it, but takes long for few rows.
        """
        return (
            type(X) is np.ndarray
            and X.ndim == 2
            and X.dtype in _FLOATS
            and X.shape[1] == getattr(self, "n_features_in_", None)
            and not hasattr(self, "feature_names_in_")
        )

    def _validate_targets(self, X: Any, y: Any) -> Any:
        """Return targets, one for each row of X; several where they are allowed."""
        y = check_targets(y, self.__sklearn_tags__().target_tags.multi_output)
        try:
            check_consistent_length(X, y)
        except ValueError as error:
            raise DataError(
                f"{error}; pass one target for each row of X",
                code=ErrorCode.LABEL_SIZE_MISMATCH,
            ) from None
        return y

    def _fit_targets(self, y: Any) -> None:
        """Set the attributes that depend on the targets, such as the classes."""

    def _encode_targets(self, y: Any) -> Any:
        """Return targets as the labels of a matrix."""
        return np.array(y.tolist()) if y.dtype == object else y

    def _create_dmatrix(self, X: Any, **fields: Any) -> Any:
        """Return validated features with labels, weights and so on as a matrix."""
        return DMatrix(
            X,
            missing=self.missing,
            nthread=self.n_jobs,
            feature_types=self.feature_types,
            enable_categorical=self.enable_categorical,
            **fields,
        )

    def _prediction_matrix(self, X: Any) -> Any:
        """Return features to predict from as a matrix."""
        return self._create_dmatrix(self._validate_features(X, reset=False))

    # Prediction

    def get_booster(self) -> Booster:
        """Return the trained booster."""
        try:
            return self._booster
        except AttributeError:
            raise NotFittedError(
                f"this {type(self).__name__} is not fitted yet; call fit first"
            ) from None

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_booster")

    def _predict(
        self,
        X: Any,
        predict_type: str,
        validate_features: bool = True,
        base_margin: Any = None,
        iteration_range: IterationRange | None = None,
    ) -> npt.NDArray[np.float32]:
        """Return the booster's predictions, ``"value"`` or ``"margin"``."""
        booster = self.get_booster()
        try:
            return booster.inplace_predict(
                self._validate_features(X, reset=False) if validate_features else X,
                iteration_range=booster.rounds_to_best(iteration_range),
                predict_type=predict_type,
                missing=self.missing,
                validate_features=False,
                base_margin=base_margin,
            )
        except HornbeamError as error:
            error.shorten()
            raise

    def _get_iteration_range(
        self, iteration_range: IterationRange | None
    ) -> IterationRange:
        """Return the rounds to predict with; by default up to the best iteration."""
        return self.get_booster().rounds_to_best(iteration_range)

    @short_traceback
    def apply(
        self, X: Any, iteration_range: IterationRange | None = None
    ) -> npt.NDArray[np.float32]:
        """Return the leaf of each row in each tree."""
        return self.get_booster().predict(
            self._prediction_matrix(X),
            pred_leaf=True,
            validate_features=False,
            iteration_range=self._get_iteration_range(iteration_range),
        )

    @property
    def feature_importances_(self) -> npt.NDArray[np.float64]:
        """The importance of each feature, of the kind `importance_type`; sum 1.

        Derived features come after those of the data.
        """
        booster = self.get_booster()
        default = "gain" if booster.model.linear is None else "weight"
        scores = booster.get_score(importance_type=self.importance_type or default)
        names = names_of(booster.model.schema)
        importances = np.array([scores.get(name, 0.0) for name in names], np.float64)
        total = importances.sum()
        return importances / total if total > 0 else importances

    # Files

    @short_traceback
    def save_model(self, fname: str | os.PathLike[str]) -> None:
        """Save the model with the estimator's metadata, as ``.json`` or ``.ubj``."""
        copy = self.get_booster().copy()
        copy.set_attr(**{ESTIMATOR: json.dumps(self._metadata())})
        copy.save_model(fname)

    @short_traceback
    def export(self, fname: str | os.PathLike[str], **options: Any) -> None:
        """Export the model to ONNX, C, Python or XGBoost, as `Booster.export` does.

        The file includes the class labels, and the rounds up to the best iteration.
        The options are those of `hornbeam.export.save`.
        """
        save(self, fname, **options)

    @short_traceback
    def load_model(self, fname: str | os.PathLike[str] | bytes | bytearray) -> None:
        """Load a model saved by this kind of estimator, of Hornbeam or XGBoost."""
        booster = Booster({"nthread": self.n_jobs}, model_file=fname)
        metadata = _read_metadata(booster.attr(ESTIMATOR))
        expected = self.__sklearn_tags__().estimator_type
        found = metadata.get("_estimator_type", expected)
        if found != expected:
            raise ModelFileError(
                f"the file holds a {found}, not a {expected}; load it with the "
                "estimator that saved it, or with hornbeam.Booster",
                code=ErrorCode.MODEL_FILE_ESTIMATOR_MISMATCH,
            )
        booster.set_attr(**{ESTIMATOR: None})
        self._restore(booster, metadata)
        self._booster = booster
        columns = booster.model.raw_schema
        self.n_features_in_ = columns.n_features
        if columns.names is not None:
            self.feature_names_in_ = np.array(columns.names, dtype=object)

    def _metadata(self) -> dict[str, Any]:
        """Return the estimator's metadata for a model file."""
        return {"_estimator_type": self.__sklearn_tags__().estimator_type}

    def _restore(self, booster: Booster, metadata: dict[str, Any]) -> None:
        """Set the fitted attributes, such as the classes, from a loaded model."""


class ModelClassifier(ClassifierMixin, ModelEstimator):
    """Base class of all classifiers.

    Attributes
    ----------
    classes_
        The labels, sorted.
    """

    classes_: npt.NDArray[Any]

    def _fit_targets(self, y: Any) -> None:
        self.classes_ = sorted_classes(y)

    @property
    def n_classes_(self) -> int:
        """The number of classes."""
        return len(self.classes_)

    def _encode_targets(self, y: Any) -> Any:
        indices, unknown = encode_labels(y, self.classes_)
        if unknown.size:
            raise DataError(
                f"eval_set holds the label {y[unknown].tolist()[0]!r} in row "
                f"{unknown[0]}, which is not among the training labels",
                code=ErrorCode.LABEL_NOT_IN_TRAINING,
            )
        return indices

    def _metadata(self) -> dict[str, Any]:
        return super()._metadata() | {"classes": self.classes_.tolist()}

    def _restore(self, booster: Booster, metadata: dict[str, Any]) -> None:
        n_classes = max(2, booster.model.n_outputs)
        classes = np.array(metadata.get("classes", range(n_classes)))
        if classes.ndim != 1 or len(classes) > n_classes:
            raise ModelFileError(
                f"the file names {len(classes)} classes, and its model predicts "
                f"{n_classes}; save the estimator again",
                code=ErrorCode.MODEL_FILE_INCONSISTENT,
            )
        super()._restore(booster, metadata)
        self.classes_ = classes


def _check_names_are_alike(X: Any) -> None:
    """Raise a `DataError` if some names of columns are strings, and some are not.

    scikit-learn would raise a TypeError.
    """
    names = list(getattr(X, "columns", ()))
    texts = [name for name in names if isinstance(name, str)]
    others = [name for name in names if not isinstance(name, str)]
    if texts and others:
        raise DataError(
            f"some names of columns are strings, like {texts[0]!r}, and some are not, "
            f"like {others[0]!r}; convert them: X.columns = X.columns.astype(str)",
            code=ErrorCode.INVALID_FEATURE_NAME,
        )


def check_targets(y: Any, multi_output: bool = False) -> npt.NDArray[Any]:
    """Return targets as finite values: one column, or several if `multi_output`."""
    targets: npt.NDArray[Any] = np.asarray(y)
    if not multi_output or targets.ndim != 2 or targets.shape[1] == 1:
        targets = column_or_1d(y, warn=True)
    if targets.dtype == object and targets.ndim == 1:
        if all(isinstance(label, bool | np.bool_) for label in targets):
            return targets.astype(np.bool_)
        _check_objects(targets)
    assert_all_finite(targets, input_name="y")
    return targets


def _check_objects(y: npt.NDArray[Any]) -> None:
    """Raise a `DataError` if a target is missing: None, or pandas' NA."""
    for row, label in enumerate(y):
        try:
            is_missing = label is None or bool(label != label)
        except TypeError:  # NA is neither equal nor unequal
            is_missing = True
        if is_missing:
            raise DataError(
                f"Input y contains NaN: it holds {label} in row {row}; drop the rows "
                "without a label, or correct them",
                code=ErrorCode.LABEL_NOT_FINITE,
            )


def sorted_classes(y: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the distinct labels among targets, sorted."""
    try:
        check_classification_targets(y)
        return np.unique(y)
    except TypeError:
        kinds = sorted({type(label).__name__ for label in y})
        raise DataError(
            "y holds labels of types that have no common order: "
            f"{', '.join(kinds)}; convert them to one type, such as strings",
            code=ErrorCode.LABEL_NOT_A_CLASS,
        ) from None


def encode_labels(
    y: npt.NDArray[Any], classes: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.intp]]:
    """Return the class index of each label, and the rows with other labels."""
    indices = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    return indices.astype(np.float64), np.flatnonzero(classes[indices] != y)


def seed_of(random_state: Any) -> Any:
    """Return a seed; if `random_state` is a generator, one drawn from it."""
    if isinstance(random_state, np.random.RandomState):
        return random_state.randint(2**31)
    if isinstance(random_state, np.random.Generator):
        return random_state.integers(2**31)
    return random_state


def _read_metadata(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        metadata = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        metadata = None
    if not isinstance(metadata, dict):
        raise ModelFileError(
            f"the attribute {ESTIMATOR!r} of the file is not a JSON object; save the "
            "model again",
            code=ErrorCode.MODEL_FILE_WRONG_TYPE,
        )
    return metadata
