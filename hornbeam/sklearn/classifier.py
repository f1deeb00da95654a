"""The gradient boosting estimator for classification."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.bagging import Bags
from hornbeam.boosting.booster import Booster
from hornbeam.data.dmatrix import DMatrix
from hornbeam.errors import ErrorCode, ParameterError, short_traceback
from hornbeam.export.links import CALIBRATION
from hornbeam.kernels.team import lease
from hornbeam.objectives.registry import find
from hornbeam.sklearn.base import IterationRange, ModelClassifier
from hornbeam.sklearn.boosting import BoostingEstimator
from hornbeam.sklearn.calibration import CALIBRATIONS, Calibrator, log_loss
from hornbeam.sklearn.conformal import SET_SCORES, class_scores

__all__ = ["HornbeamClassifier"]


class HornbeamClassifier(ModelClassifier, BoostingEstimator):
    """Gradient boosted trees for classification, with labels of any type.

    The default `objective` is binary:logistic for two classes and multi:softprob for
    more. The parameters are those of `HornbeamRegressor`.

    Attributes
    ----------
    classes_
        The labels, sorted; the columns of `predict_proba` are in this order.
    oob_decision_function_
        With bags: the probabilities of each row by the bag that did not see it; with
        `calibration` calibrated on the other folds.
    oob_score_
        With bags: the accuracy of these.
    calibration_losses_
        With `calibration`: the logarithmic loss of the rows out of bag without it, and
        with it, each fold calibrated on the others.

    Examples
    --------
    >>> from hornbeam import HornbeamClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import train_test_split
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> y = y.map({0: "malignant", 1: "benign"})
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> model = HornbeamClassifier().fit(X_train, y_train)
    >>> model.classes_
    array(['benign', 'malignant'], dtype=object)
    >>> model.predict(X_test)[:3]
    array(['malignant', 'benign', 'benign'], dtype=object)
    >>> model.predict_proba(X_test)[:3].round(2)
    array([[0.  , 1.  ],
           [0.99, 0.01], [1.  , 0.  ]], dtype=float32)
    >>> round(model.score(X_test, y_test), 2)
    1.0
    """

    _conformal_methods = ("split", "cv+")

    def _objective_params(self) -> dict[str, Any]:
        name = self.objective
        if not isinstance(name, str):
            name = "binary:logistic" if self.n_classes_ <= 2 else "multi:softprob"
        objective = find(name)
        if objective is not None and objective.task == "classes":
            return {"objective": name, "num_class": max(2, self.n_classes_)}
        if objective is None or not objective.has_probabilities:
            raise ParameterError(
                f"objective {name!r} is not for classification; use binary:logistic or "
                "multi:softprob, or leave it out",
                code=ErrorCode.OBJECTIVE_ESTIMATOR_MISMATCH,
            )
        if self.n_classes_ > 2:
            raise ParameterError(
                f"objective {name!r} is for two classes, and y has {self.n_classes_}; "
                "use multi:softprob, or leave it out",
                code=ErrorCode.OBJECTIVE_ESTIMATOR_MISMATCH,
            )
        return {"objective": name}

    def predict(
        self,
        X: Any,
        *,
        output_margin: bool = False,
        validate_features: bool = True,
        base_margin: Any = None,
        iteration_range: IterationRange | None = None,
    ) -> npt.NDArray[Any]:
        """Return the most probable class of each row.

        Parameters
        ----------
        X
            Features, with the columns of training.
        output_margin
            Whether to return the margins instead, (rows,) or (rows, classes).
        validate_features
            Whether to compare the columns with those of training.
        base_margin
            The initial margins, instead of the model's base score.
        iteration_range
            Rounds (begin, end) to use; the end is not included.
        """
        booster = self.get_booster()
        by_margin = booster.attr(CALIBRATION) is None and booster.objective.is_argmax
        if not (output_margin or by_margin):
            probabilities = self.predict_proba(
                X, validate_features, base_margin, iteration_range
            )
            return self.classes_.take(probabilities.argmax(axis=1), mode="clip")
        margins = self._predict(
            X, "margin", validate_features, base_margin, iteration_range
        )
        if output_margin:
            return margins
        indices = margins.argmax(axis=1) if margins.ndim == 2 else margins > 0
        return self.classes_.take(indices, mode="clip")

    def predict_proba(
        self,
        X: Any,
        validate_features: bool = True,
        base_margin: Any = None,
        iteration_range: IterationRange | None = None,
    ) -> npt.NDArray[np.float32]:
        """Return the probability of each class for each row.

        The arguments are those of `predict`.
        """
        probabilities = self._uncalibrated(
            X, validate_features, base_margin, iteration_range
        )
        text = self.get_booster().attr(CALIBRATION)
        if text is None or self.n_classes_ == 1:
            return probabilities
        return Calibrator.from_text(text)(probabilities)

    def _uncalibrated(
        self,
        X: Any,
        validate_features: bool,
        base_margin: Any,
        iteration_range: IterationRange | None,
    ) -> npt.NDArray[np.float32]:
        booster = self.get_booster()
        objective = booster.objective
        from_margins = (
            objective.has_probabilities and objective.prediction != "probability"
        )
        values = self._predict(
            X,
            "margin" if from_margins else "value",
            validate_features,
            base_margin,
            iteration_range,
        )
        if from_margins:
            return self._output_of(booster, values)
        return self._by_class(booster, values)

    def _output_of(self, booster: Booster, margins: npt.NDArray[Any]) -> Any:
        """Return the class probabilities of margins, before calibration."""
        objective = booster.objective
        columns = margins.reshape(len(margins), -1).copy()
        with lease(self.n_jobs or 0) as team:
            if objective.has_probabilities:
                values = objective.class_probabilities(team, columns)
            else:
                values = objective.to_output(team, columns)
        return self._by_class(booster, values)

    def _by_class(self, booster: Booster, values: npt.NDArray[Any]) -> Any:
        """Return a column for each class, of probabilities of the second or of all."""
        if booster.model.num_class == 0:
            positive = values.reshape(len(values))
            values = np.empty((len(positive), 2), positive.dtype)
            values[:, 0], values[:, 1] = 1 - positive, positive
        return values if self.n_classes_ > 1 else np.ones((len(values), 1), np.float32)

    # Held-out rows

    def _is_stratified(self, dtrain: Any) -> bool:
        return True

    def _check_calibration(self) -> None:
        if self.calibration not in CALIBRATIONS:
            raise ParameterError(
                f"calibration must be None{''.join(f', {m!r}' for m in CALIBRATIONS)}, "
                f"not {self.calibration!r}",
                code=ErrorCode.UNKNOWN_OPTION,
            )

    def _set_out_of_bag(self, outputs: Any, data: DMatrix, bags: Bags) -> None:
        labels, weights = data.labels, data.row_weights
        assert labels is not None
        self.__dict__.pop("calibration_losses_", None)
        if self.calibration is not None and self.n_classes_ > 1:
            calibrator = Calibrator.fit(self.calibration, outputs, labels, weights)
            self.get_booster().set_attr(**{CALIBRATION: calibrator.to_text()})
            losses = {"uncalibrated": log_loss(outputs, labels, weights)}
            outputs = _calibrated_by_others(
                self.calibration, outputs, labels, weights, bags.bag_of
            )
            losses[self.calibration] = log_loss(outputs, labels, weights)
            self.calibration_losses_ = losses
        self.oob_decision_function_ = outputs
        hits = outputs.argmax(axis=1) == labels
        self.oob_score_ = float(np.average(hits, weights=weights))

    def _conformity(self, method: str, outputs: Any, labels: Any) -> Any:
        return class_scores(outputs)[:, np.arange(len(labels)), labels.astype(np.intp)]

    @short_traceback
    def predict_set(
        self, X: Any, coverage: float = 0.9, *, score: str = "lac"
    ) -> npt.NDArray[np.bool_]:
        """Return prediction sets: whether each class is in the row's, (rows, classes).

        They are of probabilities before calibration. A set may be empty with ``"lac"``,
        where no class is as probable as labels usually are.

        Parameters
        ----------
        X
            Features, with the columns of training.
        coverage
            The probability that a set contains the label, between 0 and 1.
        score
            The conformity score: ``"lac"``, which has the smallest sets on average, or
            ``"aps"``, whose sets are larger for rows that are hard to classify.

        Raises
        ------
        ParameterError
            If `coverage` is not between 0 and 1, `score` is unknown, or the model has
            no conformity scores.
        DataError
            If a row is of a group without calibration rows, or these are too few for
            the coverage.
        """
        if score not in SET_SCORES:
            raise ParameterError(
                f"score must be one of {', '.join(map(repr, SET_SCORES))}, not "
                f"{score!r}",
                code=ErrorCode.UNKNOWN_OPTION,
            )
        scores = self._conformity_scores()
        if scores is None:
            raise ParameterError(
                "the model has no conformity scores, so it has no prediction sets; fit "
                "with conformal='cv+' or 'split'",
                code=ErrorCode.CONFORMAL_SCORES_MISSING,
            )
        kind = SET_SCORES.index(score)
        by_fold = self._outputs_by_fold(X, scores)
        candidates = np.array([class_scores(outputs)[kind] for outputs in by_fold])
        return scores.sets(candidates, kind, coverage, self._groups(X, scores))


def _calibrated_by_others(
    method: str, p: Any, labels: Any, weights: Any, bag_of: Any
) -> npt.NDArray[np.float32]:
    """Return the probabilities of each fold, calibrated on the other folds."""
    found = np.empty(p.shape, np.float32)
    for fold in range(int(bag_of.max()) + 1):
        own = bag_of == fold
        others = None if weights is None else weights[~own]
        calibrator = Calibrator.fit(method, p[~own], labels[~own], others)
        found[own] = calibrator(p[own])
    return found
