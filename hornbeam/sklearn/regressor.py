"""The estimator for regression."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
from sklearn.base import RegressorMixin

from hornbeam.sklearn.base import IterationRange
from hornbeam.sklearn.boosting import BoostingEstimator

__all__ = ["HornbeamRegressor"]


class HornbeamRegressor(RegressorMixin, BoostingEstimator):
    """Gradient boosted trees for regression.

    The parameters are XGBoost's; one left at None has the learner's default, see
    `hornbeam.params.parameter_table`.

    Parameters
    ----------
    n_estimators
        Rounds of boosting.
    objective
        The loss: a name, formulas (a `ScalarLoss`), or a function of labels and
        predictions that returns the gradient and the hessian.
    missing
        The number that stands for missing, besides NaN.
    eval_metric
        Metrics for `eval_set`, or a function of labels and predictions, where less is
        better.
    early_stopping_rounds
        Stop when the last metric on the last pair of `eval_set` has not improved for
        so many rounds; prediction then uses the rounds up to the best.
    importance_type
        What `feature_importances_` shows: gain (the default), weight, cover,
        total_gain or total_cover.
    """

    def predict_interval(
        self,
        X: Any,
        level: float = 0.9,
        *,
        iteration_range: IterationRange | None = None,
    ) -> npt.NDArray[Any]:
        """Return intervals that hold the targets with this probability, (rows, 2).

        Parameters
        ----------
        X
            Features, with the columns of training.
        level
            The probability, above 0 and below 1.
        iteration_range
            The rounds to use, from the first up to but not including the second.

        Raises
        ------
        ParameterError
            If `level` is no such probability, or `objective` is not one of
            ``dist:normal``, ``dist:lognormal`` and ``dist:negbinomial``.
        """
        return self.get_booster().predict_interval(
            self._prediction_matrix(X),
            level,
            validate_features=False,
            iteration_range=self._get_iteration_range(iteration_range),
        )
