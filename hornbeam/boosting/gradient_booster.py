"""The contract of a booster: how one round changes the model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

from hornbeam.backends.interface import GradientRows
from hornbeam.boosting.learner import Learner
from hornbeam.boosting.margin_cache import MarginCache
from hornbeam.boosting.predictor import Predictor
from hornbeam.data.meta_info import MetaInfo
from hornbeam.forest.model import Model

__all__ = ["GradientBooster", "Round"]


class Round(ABC):
    """One round of boosting; `Trainer.step` calls its methods in this order."""

    @property
    @abstractmethod
    def rows(self) -> GradientRows:
        """The training rows, which take the gradients."""

    @property
    @abstractmethod
    def info(self) -> MetaInfo:
        """The meta info of all rows, for objectives that need more than single rows."""

    def begin(self) -> None:
        """Make the margins of the rows those that gradients are taken at."""
        return

    @abstractmethod
    def grow(self) -> None:
        """Fit new trees, or weights, to the gradients of the rows."""

    @abstractmethod
    def update_model(self) -> None:
        """Add them to the model."""

    def update_margins(self) -> None:
        """Bring the margins of the rows up to date with the model."""
        return

    def abort(self) -> None:
        """Undo what an error left unfinished; the model has not changed."""
        self.close()

    def close(self) -> None:
        """Release what only this round needs."""
        return


class GradientBooster(ABC):
    """One of XGBoost's boosters, or the update of a model's trees.

    Parameters
    ----------
    learner, predictor
        Of the model.
    cache
        The margins of its matrices.
    """

    def __init__(
        self, learner: Learner, predictor: Predictor, cache: MarginCache
    ) -> None:
        self._learner, self._predictor, self._cache = learner, predictor, cache

    @abstractmethod
    def new_round(self, data: Any, use_objective: bool) -> Round:
        """Return the next round on `data`.

        The labels matter only if gradients come from the objective.
        """

    def add_rounds(self, data: Any, wanted: int) -> int:
        """Add up to `wanted` rounds like the last one at once; return how many.

        There may be none, where rounds need Python between them.
        """
        return 0

    def resumed(self, model: Model) -> Self:
        """Return a booster that continues from a checkpoint of training `model`."""
        return type(self)(self._learner, self._predictor, self._cache)

    def clear(self) -> None:
        """Drop all data."""
        return
