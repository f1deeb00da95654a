"""The gradient boosting estimator for regression."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import Tags

from hornbeam.data.dmatrix import DMatrix
from hornbeam.errors import ErrorCode, ParameterError, short_traceback
from hornbeam.objectives.distributions import Distribution
from hornbeam.objectives.quantiles import QuantileError
from hornbeam.sklearn.base import IterationRange
from hornbeam.sklearn.boosting import BoostingEstimator
from hornbeam.sklearn.conformal import METHODS

__all__ = ["HornbeamRegressor"]


class HornbeamRegressor(RegressorMixin, BoostingEstimator):
    """Gradient boosted trees for regression, of one target or of several.

    The parameters are XGBoost's; None means the default value in
    `hornbeam.params.parameter_table`.

    Parameters
    ----------
    quality
        What is chosen from the data where `n_estimators` and `learning_rate` are not
        given: ``"auto"`` (the default) takes a learning rate of 0.15 and finds the
        number of rounds, the least size of leaves and other variants on held-out rows,
        then trains on all rows; with `eval_set` the last pair stops the training, and
        no row is held out. ``"fast"`` takes fewer and larger steps, ``"best"`` more and
        smaller ones.
        None: XGBoost's 100 rounds at 0.3. Given parameters are never changed; `chosen_`
        has the others.
    cat_method
        How categories are used: ``"set"``: a split divides them into two sets;
        ``"ordered_target"``: splits are on the mean label of each category instead;
        ``"auto"`` (the default): sets, and where `quality` chooses, mean labels are
        tried beside them for columns of 50 categories or more.
    cross_features
        Formulas of further features, such as ``["a / b", "a - mean(a | c)"]`` (see
        `hornbeam.derive`); ``"auto"`` (the default): where `quality` chooses, and of
        4,000 rows or more, differences, products, ratios and deviations are tried;
        None: none.
    dates
        ``"expand"`` (the default): of columns of dates and times, trees split on year,
        month, day, weekday and hour, where they vary, on days since 1970, and on the
        seconds of durations; ``"error"``: such columns are an error.
    n_estimators
        The number of boosting rounds; chosen, or 100, if it is None.
    objective
        The objective: a name, formulas (a `ScalarLoss`), or a function of labels and
        predictions that returns the gradient and the hessian.
    missing
        The value that represents missing values, in addition to NaN.
    eval_metric
        The metrics on `eval_set`: names, or a function of labels and predictions, of
        which smaller values are better.
    early_stopping_rounds
        Stop when the last metric on the last pair of `eval_set` has not improved for
        this number of rounds; predictions then use the rounds up to the best.
    n_bags
        Train so many models, each without one fold of the rows (or query groups); the
        model is their average. See `oob_prediction_`, `oob_score_` and `predict_std`.
        Of given rounds each bag has half, at a higher learning rate: 8 bags take about
        four times as long as one model.
        None: one model, unless `conformal` or `calibration` need bags, which are 8.
    conformal
        Keep conformity scores for `predict_interval`, or a classifier's `predict_set`:
        ``"split"`` of a fifth of the rows, which the model is not trained on;
        ``"cv+"`` of the rows out of bag; ``"cqr"`` of the quantiles of
        ``reg:quantileerror``, for regressors, again of a fifth of the rows.
    conformal_groups
        The name or number of a column of X; the coverage then holds in each group of
        rows with the same value there (Mondrian).
    calibration
        For classifiers: calibrate probabilities on the rows out of bag,
        ``"isotonic"`` or ``"beta"``.
    importance_type
        The kind of `feature_importances_`: gain (the default), weight, cover,
        total_gain or total_cover.

    Attributes
    ----------
    oob_prediction_
        With bags: the prediction for each row by the bag that did not see it.
    oob_score_
        With bags: R squared of these, if they are one for each label.

    Examples
    --------
    >>> from hornbeam import HornbeamRegressor
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.model_selection import train_test_split
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> model = HornbeamRegressor().fit(X_train, y_train)
    >>> model.chosen_["learning_rate"], model.chosen_["n_estimators"]
    (0.15, 21)
    >>> round(model.score(X_test, y_test), 2)
    0.21
    >>> with_intervals = HornbeamRegressor(conformal="cv+").fit(X_train, y_train)
    >>> with_intervals.predict_interval(X_test, coverage=0.9)[:2].round()
    array([[166., 365.],
           [145., 343.]])
    """

    _conformal_methods = METHODS

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _score_out_of_bag(self, outputs: Any, data: DMatrix) -> float | None:
        labels = data.labels
        if labels is None or np.size(labels) != np.size(outputs):
            return None  # several values are predicted for a label
        weights = data.row_weights
        return float(r2_score(labels, outputs, sample_weight=weights))

    def _conformity(self, method: str, outputs: Any, labels: Any) -> Any:
        lower, upper = self._bounds(method, outputs)
        return np.maximum(lower - labels, labels - upper)[np.newaxis]

    def _bounds(self, method: str, outputs: Any) -> tuple[Any, Any]:
        """Return what conformal intervals extend: predictions, or outer quantiles."""
        objective = self.get_booster().objective
        values = np.asarray(outputs, np.float64)
        if method == "cqr":
            if not isinstance(objective, QuantileError) or values.ndim == 1:
                raise ParameterError(
                    f"conformal='cqr' extends quantiles, and {objective.name} has no "
                    "two; use objective='reg:quantileerror' with quantile_alpha=[0.05, "
                    "0.95], or conformal='cv+'",
                    code=ErrorCode.PREDICTION_UNSUPPORTED_BY_OBJECTIVE,
                )
            return values.min(axis=1), values.max(axis=1)
        if isinstance(objective, Distribution):
            values = np.asarray(objective.point_predictions(values))
        if values.ndim == 2:
            raise ParameterError(
                f"conformal={method!r} needs one prediction for each row, and there "
                f"are {values.shape[1]}; fit a model for each target, or use 'cqr' for "
                "quantiles",
                code=ErrorCode.PREDICTION_UNSUPPORTED_BY_OBJECTIVE,
            )
        return values, values

    @short_traceback
    def predict_interval(
        self,
        X: Any,
        coverage: float = 0.9,
        *,
        iteration_range: IterationRange | None = None,
    ) -> npt.NDArray[Any]:
        """Return prediction intervals, (rows, 2).

        With `conformal` they are conformal intervals, whatever the objective. Without,
        they are the central intervals of a predicted distribution (``dist:*``), whose
        coverage is that of the model.

        Parameters
        ----------
        X
            Features, with the columns of training.
        coverage
            The probability that an interval contains the target, between 0 and 1.
        iteration_range
            Rounds (begin, end) of a distribution; the end is not included. Conformity
            scores are of all rounds, up to the best.

        Raises
        ------
        ParameterError
            If `coverage` is not between 0 and 1, or the model has neither conformity
            scores nor the objective ``dist:normal``, ``dist:lognormal`` or
            ``dist:negbinomial``.
        DataError
            If a row is of a group without calibration rows, or these are too few for
            the coverage.
        """
        scores = self._conformity_scores()
        if scores is None:
            return self._distribution_interval(X, coverage, iteration_range)
        if iteration_range is not None:
            raise ParameterError(
                "iteration_range selects rounds, and conformity scores are of all of "
                "them; leave it out",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )
        bounds = [
            self._bounds(scores.method, outputs)
            for outputs in self._outputs_by_fold(X, scores)
        ]
        lower, upper = np.moveaxis(np.array(bounds), 1, 0)
        return scores.interval(lower, upper, coverage, self._groups(X, scores))

    def _distribution_interval(
        self, X: Any, coverage: float, iteration_range: IterationRange | None
    ) -> npt.NDArray[Any]:
        booster = self.get_booster()
        if not isinstance(booster.objective, Distribution):
            raise ParameterError(
                f"the model has no conformity scores, and {booster.objective.name} "
                "predicts no distribution, so it has no intervals; fit with "
                "conformal='cv+', 'split' or 'cqr', or with objective='dist:normal'",
                code=ErrorCode.CONFORMAL_SCORES_MISSING,
            )
        return booster.predict_interval(
            self._prediction_matrix(X),
            coverage,
            validate_features=False,
            iteration_range=self._get_iteration_range(iteration_range),
        )
