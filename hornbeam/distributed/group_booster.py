"""A booster whose training and evaluation rows are those of a group's processes."""

from __future__ import annotations

import os
from typing import Any

from hornbeam.boosting.booster import Booster
from hornbeam.boosting.learner import Learner
from hornbeam.boosting.predictor import Predictor
from hornbeam.distributed.group import Group
from hornbeam.distributed.group_training import (
    GroupEvaluator,
    GroupMarginCache,
    GroupTrainer,
)
from hornbeam.params import Parameters, ParameterSource

__all__ = ["GroupBooster"]


class GroupBooster(Booster):
    """A booster that every process of a group trains on its part of the rows.

    All processes make the same calls, and each has the whole model.

    Parameters
    ----------
    group
        The group.
    params, model_file
        As for `Booster`.
    """

    def __init__(
        self,
        group: Group,
        params: ParameterSource | None = None,
        model_file: Booster | str | os.PathLike[str] | bytes | bytearray | None = None,
    ) -> None:
        self._group = group
        super().__init__(params, None, model_file)

    def _compose(self, parameters: Parameters) -> None:
        self.history = {}
        learner = Learner(parameters)
        predictor = Predictor(learner)
        cache = GroupMarginCache(learner, predictor, self._group)
        self._learner, self._predictor = learner, predictor
        self._trainer = GroupTrainer(learner, predictor, cache, self._group)
        self._evaluator = GroupEvaluator(learner, predictor, cache, self._group)

    def copy(self) -> GroupBooster:
        return type(self)(self._group, model_file=self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _plain, (Booster(model_file=self),)


def _plain(booster: Booster) -> Booster:
    return booster
