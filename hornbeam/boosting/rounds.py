"""The contract of rounds: what a booster does with data in one of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Self

from hornbeam.backends.interface import GradientRows
from hornbeam.data.dmatrix import DMatrix

if TYPE_CHECKING:
    from hornbeam.boosting.learner import Learner
    from hornbeam.forest.model import Model

__all__ = ["Rounds"]


class Rounds(ABC):
    """Adds rounds of its kind to the model of a learner.

    It belongs to one learner, which is passed all the same: so neither keeps the other
    alive.
    """

    @abstractmethod
    def lend(
        self, learner: Learner, data: DMatrix, estimate: bool
    ) -> AbstractContextManager[GradientRows]:
        """Lend the rows of `data` to set gradients on, then add a round.

        The gradients come from the learner's objective if there is something to
        `estimate`: if not, the labels are not looked at.
        """

    def resumed(self, begun: Model) -> Self:
        """Return rounds that go on from a checkpoint, in the place of `begun`."""
        return type(self)()

    def let_go(self) -> None:
        """Let go of all data."""
        return
