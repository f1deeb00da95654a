"""The callback that schedules the learning rate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hornbeam.callbacks.base import EvalsLog, TrainingCallback, described
from hornbeam.errors import ErrorCode, ParameterError

if TYPE_CHECKING:
    from hornbeam.boosting.booster import Booster

__all__ = ["LearningRateScheduler"]


class LearningRateScheduler(TrainingCallback):
    """Set the learning rate of each round.

    As in XGBoost, the rate of `epoch` is set after that round, and used by the next
    one. The first round uses the parameter ``learning_rate``.

    Parameters
    ----------
    learning_rates
        A function of the epoch, or a list with one rate per round.

    Examples
    --------
    >>> import hornbeam
    >>> from sklearn.datasets import load_diabetes
    >>> data = hornbeam.DMatrix(*load_diabetes(return_X_y=True))
    >>> falling = hornbeam.LearningRateScheduler(lambda epoch: 0.3 * 0.95**epoch)
    >>> booster = hornbeam.train({}, data, 20, callbacks=[falling])
    """

    def __init__(
        self, learning_rates: Callable[[int], float] | Sequence[float]
    ) -> None:
        if not callable(learning_rates) and not isinstance(learning_rates, Sequence):
            raise ParameterError(
                "learning_rates must be a function of the epoch or a list of rates, "
                f"not {described(learning_rates)}",
                code=ErrorCode.INVALID_PARAMETER_TYPE,
            )
        self.learning_rates = learning_rates

    def after_iteration(self, model: Booster, epoch: int, evals_log: EvalsLog) -> bool:
        model.set_param("learning_rate", self._rate(epoch))
        return False

    def _rate(self, epoch: int) -> float:
        rates = self.learning_rates
        if callable(rates):
            return rates(epoch)
        if epoch >= len(rates):
            raise ParameterError(
                f"learning_rates has {len(rates)} rates, too few for round {epoch}; "
                "give one per round",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
        return rates[epoch]
