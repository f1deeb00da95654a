"""The gradient boosting estimator for regression."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
from sklearn.base import RegressorMixin

from hornbeam.sklearn.base import IterationRange
from hornbeam.sklearn.boosting import BoostingEstimator

__all__ = ["HornbeamRegressor"]


class HornbeamRegressor(RegressorMixin, BoostingEstimator):
    """Gradient boosted trees for regression.

    The parameters are XGBoost's; None means the default value in
    `hornbeam.params.parameter_table`.

    Parameters
    ----------
    quality
        What is chosen from the data where `n_estimators` and `learning_rate` are not
        given: ``"auto"`` (the default) takes a learning rate of 0.1 and finds the
        number of rounds and the least size of leaves on held-out rows, then trains on
        all rows; with `eval_set` the last pair stops the training, and no row is held
        out. ``"fast"`` takes fewer and larger steps, ``"best"`` more and smaller ones.
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
    importance_type
        The kind of `feature_importances_`: gain (the default), weight, cover,
        total_gain or total_cover.
    """

    def predict_interval(
        self,
        X: Any,
        level: float = 0.9,
        *,
        iteration_range: IterationRange | None = None,
    ) -> npt.NDArray[Any]:
        """Return prediction intervals, (rows, 2).

        Parameters
        ----------
        X
            Features, with the columns of training.
        level
            The probability that an interval contains the target, between 0 and 1.
        iteration_range
            Rounds (begin, end) to use; the end is not included.

        Raises
        ------
        ParameterError
            If `level` is not between 0 and 1, or `objective` is not one of
            ``dist:normal``, ``dist:lognormal`` and ``dist:negbinomial``.
        """
        return self.get_booster().predict_interval(
            self._prediction_matrix(X),
            level,
            validate_features=False,
            iteration_range=self._get_iteration_range(iteration_range),
        )
