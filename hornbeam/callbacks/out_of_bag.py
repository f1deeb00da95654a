"""The callback that records the out-of-bag improvement of each round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hornbeam.callbacks.base import CallbackContainer, EvalsLog, TrainingCallback
from hornbeam.errors import ErrorCode, ParameterError

if TYPE_CHECKING:
    from hornbeam.boosting.booster import Booster

__all__ = ["OutOfBag"]


class OutOfBag(TrainingCallback):
    """Record the decrease of the loss on the out-of-bag rows of each round.

    With `subsample` below 1 each tree is grown on a sample of the rows. The other rows
    estimate its improvement without validation data (Friedman 2002). The sum of the
    improvements has its maximum at an estimate of the best number of rounds, which is
    rather too small.

    Attributes
    ----------
    improvement
        The decrease of the mean loss in each round; for RMSE, of the squared error.

    Examples
    --------
    >>> import hornbeam
    >>> from sklearn.datasets import load_diabetes
    >>> data = hornbeam.DMatrix(*load_diabetes(return_X_y=True))
    >>> out_of_bag = hornbeam.OutOfBag()
    >>> booster = hornbeam.train(
    ...     {"subsample": 0.5, "max_depth": 2}, data, 20, callbacks=[out_of_bag]
    ... )
    >>> len(out_of_bag.improvement)
    20
    """

    def __init__(self) -> None:
        self.improvement: list[float] = []

    @property
    def best_rounds(self) -> int:
        """The number of rounds with the largest sum of improvements."""
        sums = np.cumsum([0.0, *self.improvement])
        return int(np.argmax(sums))

    def join(self, container: CallbackContainer) -> None:
        if container.output_margin:
            raise ParameterError(
                "OutOfBag needs the loss of rows, and the objective is a function "
                "that returns gradients only; pass it as formulas "
                "(docs/custom-objectives.md), or leave OutOfBag out",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )
        self._container = container

    def before_training(self, model: Booster) -> Booster:
        if not hasattr(model, "out_of_bag_improvement"):
            raise ParameterError(
                "OutOfBag supports a single training, and cv evaluates on rows that "
                "its folds leave out; leave OutOfBag out of its callbacks",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )
        model.check_out_of_bag()
        self.improvement = []
        return model

    def after_iteration(self, model: Booster, epoch: int, evals_log: EvalsLog) -> bool:
        self.improvement.append(model.out_of_bag_improvement(self._container.dtrain))
        return False

    def state(self) -> Any:
        return self.improvement

    def resume(self, model: Booster, state: Any) -> None:
        self.improvement = list(state)
