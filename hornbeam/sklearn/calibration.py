"""Calibration of class probabilities, fitted to out-of-bag predictions."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from hornbeam.errors import ErrorCode, ModelFileError
from hornbeam.export.links import CALIBRATION

__all__ = ["CALIBRATIONS", "Calibrator", "log_loss"]

CALIBRATIONS = ("isotonic", "beta")
#: Probabilities are at least this before their logarithm is taken.
_LEAST = 1e-12
#: The inverse of the ridge penalty of the beta calibration, next to none.
_INVERSE_PENALTY = 1e10

Floats = NDArray[np.float64]


class Calibrator:
    """A calibration map of each class against all others.

    Of two classes the second has one. Of more the calibrated probabilities are divided
    by their sum, as scikit-learn does (Zadrozny and Elkan 2002).

    Parameters
    ----------
    method
        ``"isotonic"``: the step function of isotonic regression, linear between its
        steps, and with n rows at least 1 / (n + 2) from 0 and 1. ``"beta"``: the
        logistic regression on log(p) and -log(1 - p) with coefficients of at least 0
        (Kull, Silva Filho and Flach 2017).
    maps
        For each class the points of the step function, (x, y), or the coefficients of
        log(p) and -log(1 - p) with the intercept.
    """

    def __init__(self, method: str, maps: list[Any]) -> None:
        self.method = method
        self.maps = maps

    @classmethod
    def fit(
        cls,
        method: str,
        probabilities: NDArray[Any],
        labels: NDArray[Any],
        weights: NDArray[Any] | None,
    ) -> Calibrator:
        """Return the calibrator of (rows, classes) probabilities and class indices."""
        p = probabilities.astype(np.float64)
        fit = _fit_isotonic if method == "isotonic" else _fit_beta
        classes = range(p.shape[1]) if p.shape[1] > 2 else range(1, p.shape[1])
        return cls(method, [fit(p[:, k], labels == k, weights) for k in classes])

    def __call__(self, probabilities: NDArray[Any]) -> NDArray[np.float32]:
        """Return calibrated probabilities, (rows, classes)."""
        p = probabilities.astype(np.float64)
        apply = _apply_isotonic if self.method == "isotonic" else _apply_beta
        if p.shape[1] == 2:
            second = apply(p[:, 1], self.maps[0])
            return np.column_stack([1.0 - second, second]).astype(np.float32)
        found = np.column_stack(
            [apply(column, own) for column, own in zip(p.T, self.maps, strict=True)]
        )
        return (found / found.sum(axis=1, keepdims=True)).astype(np.float32)

    def to_text(self) -> str:
        """Return the calibrator as the text of an attribute."""
        return json.dumps({"method": self.method, "maps": self.maps})

    @classmethod
    def from_text(cls, text: str) -> Calibrator:
        """Return the calibrator that `to_text` wrote."""
        try:
            found = json.loads(text)
            return cls(found["method"], list(found["maps"]))
        except (ValueError, KeyError, TypeError):
            raise ModelFileError(
                f"the attribute {CALIBRATION!r} of the model holds no calibrator; fit "
                "the estimator again, and save it",
                code=ErrorCode.MODEL_FILE_WRONG_TYPE,
            ) from None


def log_loss(
    probabilities: NDArray[Any], labels: NDArray[Any], weights: NDArray[Any] | None
) -> float:
    """Return the mean negative logarithm of the labels' probabilities."""
    hit = probabilities[np.arange(len(labels)), labels.astype(np.intp)]
    losses = -np.log(np.maximum(hit.astype(np.float64), _LEAST))
    return float(np.average(losses, weights=weights))


def _fit_isotonic(
    p: Floats, hits: NDArray[np.bool_], weights: NDArray[Any] | None
) -> list[list[float]]:
    least = 1.0 / (len(p) + 2)
    model = IsotonicRegression(y_min=least, y_max=1.0 - least, out_of_bounds="clip")
    model.fit(p, hits.astype(np.float64), sample_weight=weights)
    return [model.X_thresholds_.tolist(), model.y_thresholds_.tolist()]


def _apply_isotonic(p: Floats, steps: list[list[float]]) -> Floats:
    places, values = steps
    return np.interp(p, places, values)


def _fit_beta(
    p: Floats, hits: NDArray[np.bool_], weights: NDArray[Any] | None
) -> list[float]:
    columns, used = _log_odds_parts(p), [0, 1]
    while used and hits.any() and not hits.all():
        model = LogisticRegression(C=_INVERSE_PENALTY, tol=1e-8, max_iter=1000)
        model.fit(columns[:, used], hits, sample_weight=weights)
        slopes = model.coef_[0]
        if slopes.min() >= 0.0:
            found = np.zeros(2)
            found[used] = slopes
            return [*found.tolist(), float(model.intercept_[0])]
        # A map that falls is none: without the column it is fitted again.
        used.pop(int(slopes.argmin()))
    share = (np.average(hits, weights=weights) * len(p) + 1) / (len(p) + 2)
    return [0.0, 0.0, float(np.log(share / (1.0 - share)))]


def _apply_beta(p: Floats, coefficients: list[float]) -> Floats:
    margins = _log_odds_parts(p) @ np.array(coefficients[:2]) + coefficients[2]
    return 1.0 / (1.0 + np.exp(-margins))


def _log_odds_parts(p: Floats) -> Floats:
    """Return log(p) and -log(1 - p), (rows, 2)."""
    inside = np.clip(p, _LEAST, 1.0 - _LEAST)
    return np.column_stack([np.log(inside), -np.log1p(-inside)])
