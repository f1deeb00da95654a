"""Searches the split of a level of a symmetric tree in histograms of its nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import EVERY_FEATURE
from hornbeam.backends.tree_grower import features_of_task
from hornbeam.kernels.layout import SPLIT_DTYPE, SplitRules
from hornbeam.kernels.split import CandidateFeatures, NodeHistograms
from hornbeam.kernels.symmetric_tree import (
    CHOICE_DTYPE,
    LevelGains,
    add_level_gains,
    choose_level_split,
    write_level_splits,
)
from hornbeam.kernels.team import Team
from hornbeam.kernels.tree import CELLS_PER_BIN

__all__ = ["LevelSearch"]


class LevelSearch:
    """The gains of the nodes of a level, which come in batches, and the best split.

    Parameters
    ----------
    chosen
        (chosen,) uint64: the features of the tree, ascending.
    allowed
        (1, features) uint8: those that the level may use; None: all.
    places
        The most bins or categories of a feature, plus 1.
    scales
        (2,) float64: the value of one unit of gradient and hessian sums.
    rules
        Of splits.
    team
        The threads that work.
    """

    def __init__(
        self,
        chosen: NDArray[np.uint64],
        allowed: NDArray[np.uint8] | None,
        places: int,
        scales: NDArray[np.float64],
        rules: SplitRules,
        team: Team,
    ) -> None:
        self._chosen, self._scales, self._rules = chosen, scales, rules
        self._allowed = EVERY_FEATURE if allowed is None else allowed
        self._team, self._places = team, places
        self._below = np.empty((team.size, 2, places), np.int64)
        self._level = LevelGains(
            np.zeros((chosen.size, 2, places)), np.zeros(chosen.size, np.uint8)
        )
        self._choice = np.zeros(1, CHOICE_DTYPE)

    def add(self, histograms: NodeHistograms) -> None:
        """Add the gains of the next nodes of the level."""
        size = self._chosen.size
        cells = CELLS_PER_BIN * size * self._places * histograms.slots.size
        threads = self._team.threads_for(cells)
        block = features_of_task(size, self._places, threads)
        self._team.run(
            add_level_gains,
            threads,
            histograms,
            CandidateFeatures(self._chosen, self._allowed, block),
            self._scales,
            self._rules,
            self._below,
            self._level,
        )

    def choose(self, features: NDArray[Any]) -> float:
        """Choose the split; return its gain, or 0 if no split has any.

        `features` is the table of `FEATURE_DTYPE`.
        """
        choose_level_split(self._level, self._chosen, features, self._choice)
        return float(self._choice["gain"][0])

    def splits(
        self, histograms: NodeHistograms, words: int
    ) -> tuple[NDArray[Any], NDArray[np.uint64]]:
        """Return the split that was chosen as those of these nodes, and the sets."""
        count = histograms.slots.size
        splits = np.zeros(count, SPLIT_DTYPE)
        sets = np.zeros((count, words), np.uint64)
        write_level_splits(
            histograms.sums,
            histograms.slots,
            histograms.features,
            histograms.every_row,
            self._choice,
            self._scales,
            self._rules,
            self._below[0],
            splits,
            sets,
        )
        return splits, sets
