"""A callback that watches what rounds gain for the rows that they leave out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hornbeam.callbacks.base import CallbackContainer, EvalsLog, TrainingCallback
from hornbeam.errors import ErrorCode, ParameterError

if TYPE_CHECKING:
    from hornbeam.boosting.booster import Booster

__all__ = ["OutOfBag"]


class OutOfBag(TrainingCallback):
    """Note by how much each round lowers the loss of the rows that it has not seen.

    With `subsample` below 1 each tree is grown on some of the rows. The others say what
    it is worth, without data that is kept aside (Friedman 2002). The sum of what they
    say is largest after as many rounds as they suggest: rather fewer than are best.

    Attributes
    ----------
    improvement
        By how much each round lowered the mean loss; the squared error's is a square.
    """

    def __init__(self) -> None:
        self.improvement: list[float] = []

    @property
    def best_rounds(self) -> int:
        """After how many rounds the improvements add up to most."""
        sums = np.cumsum([0.0, *self.improvement])
        return int(np.argmax(sums))

    def join(self, container: CallbackContainer) -> None:
        if container.output_margin:
            raise ParameterError(
                "OutOfBag looks at the loss of the rows, and the objective is a "
                "function of gradients alone; pass it as formulas "
                "(docs/custom-objectives.md), or leave OutOfBag out",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )
        self._container = container

    def before_training(self, model: Booster) -> Booster:
        if not hasattr(model, "out_of_bag_improvement"):
            raise ParameterError(
                "OutOfBag watches one training, and cv measures on rows that its "
                "folds leave out; leave OutOfBag out of its callbacks",
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
