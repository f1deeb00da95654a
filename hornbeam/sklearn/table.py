"""What every estimator does with a table: columns, targets and the matrix of both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite, check_consistent_length
from sklearn.utils.validation import column_or_1d, validate_data

from hornbeam.data.dmatrix import DMatrix
from hornbeam.errors import DataError, ErrorCode

__all__ = ["TableEstimator", "column_of", "seed_of"]

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


class TableEstimator(BaseEstimator):
    """What all that learn from a table share, however they learn.

    `_taken` looks at what `fit` is given, `_matrix` puts it together, and `_rows` does
    both with what a fitted estimator is given.
    """

    # Parameters that an estimator has whatever it learns by.
    missing: float
    n_jobs: int | None
    enable_categorical: bool
    feature_types: Sequence[str] | None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    def _taken(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return features and targets to train on, looked at and taken note of."""
        if y is None:
            raise DataError(
                f"{type(self).__name__} requires y to be passed, but the target y is "
                "None",
                code=ErrorCode.META_INFO_MISSING,
            )
        X = self._checked(X, reset=True)
        y = self._targets(X, y)
        self._learn_targets(y)
        return X, y

    def _checked(self, X: Any, *, reset: bool) -> Any:
        """Return features that fit the columns of training, or set those columns.

        Frames are left as they are, with the precision of each column.
        """
        if not reset and self._is_plain(X):
            return X
        return validate_data(
            self,
            X,
            reset=reset,
            skip_check_array=hasattr(X, "columns"),
            accept_sparse="csr",
            ensure_all_finite=False,  # the matrix looks, and knows what is missing
            ensure_min_samples=1 if reset else 0,
        )

    def _is_plain(self, X: Any) -> bool:
        """Whether scikit-learn would find nothing to say, which takes it long to say.

        That is an array of floats with the columns of training, which had no names.
        """
        return (
            type(X) is np.ndarray
            and X.ndim == 2
            and X.dtype in _FLOATS
            and X.shape[1] == getattr(self, "n_features_in_", None)
            and not hasattr(self, "feature_names_in_")
        )

    def _targets(self, X: Any, y: Any) -> Any:
        """Return one target for each row."""
        y = column_of(y)
        check_consistent_length(X, y)
        return y

    def _learn_targets(self, y: Any) -> None:
        """Take note of what the targets are, before they become labels."""

    def _labels(self, y: Any) -> Any:
        """Return targets as the labels that the learner takes."""
        return np.array(y.tolist()) if y.dtype == object else y

    def _matrix(self, X: Any, **fields: Any) -> Any:
        """Return features that were checked, and what goes with them, as a matrix."""
        return DMatrix(
            X,
            missing=self.missing,
            nthread=self.n_jobs,
            feature_types=self.feature_types,
            enable_categorical=self.enable_categorical,
            **fields,
        )

    def _rows(self, X: Any) -> Any:
        """Return features to predict from as a matrix."""
        return self._matrix(self._checked(X, reset=False))


def column_of(y: Any) -> npt.NDArray[Any]:
    """Return targets as one column of finite values."""
    column: npt.NDArray[Any] = column_or_1d(y, warn=True)
    assert_all_finite(column, input_name="y")
    return column


def seed_of(random_state: Any) -> Any:
    """Return a seed of the learner; a generator gives one by drawing it."""
    if isinstance(random_state, np.random.RandomState):
        return random_state.randint(2**31)
    if isinstance(random_state, np.random.Generator):
        return random_state.integers(2**31)
    return random_state
