"""Statistics of labels by which a model is initialised, of any part of the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.meta_info import MetaInfo
from hornbeam.objectives.base import Objective
from hornbeam.objectives.totals import largest_of

__all__ = ["LabelInfo"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LabelInfo:
    """Statistics of labels by which a model is initialised; they add up over workers.

    Attributes
    ----------
    least, most
        The range of the labels; None without labels.
    largest
        The largest absolute value of each of the objective's `start_columns`; None if
        the base score is not estimated.
    """

    least: float | None
    most: float | None
    largest: Floats | None

    @classmethod
    def of(
        cls, info: MetaInfo, objective: Objective | None, estimate: bool
    ) -> LabelInfo:
        """Return the statistics of the labels in `info`.

        Those of the objective are among them if it is to `estimate` the base score.
        """
        largest = None
        if objective is not None and estimate and objective.by_row:
            targets = objective.targets_of(info)
            largest = largest_of(objective.start_columns(targets, info.row_weights))
        labels = info["label"]
        if labels is None:
            return cls(None, None, largest)
        least = float(labels.min(initial=np.inf))
        return cls(least, float(labels.max(initial=-np.inf)), largest)

    def __add__(self, other: LabelInfo) -> LabelInfo:
        largest = self.largest
        if largest is not None and other.largest is not None:
            largest = np.maximum(largest, other.largest)
        if self.least is None or other.least is None:
            return LabelInfo(None, None, largest)
        assert self.most is not None and other.most is not None
        return LabelInfo(
            min(self.least, other.least), max(self.most, other.most), largest
        )

    @property
    def span(self) -> tuple[float, float] | None:
        """The range of the labels; None without labels."""
        if self.least is None or self.most is None:
            return None
        return self.least, self.most
