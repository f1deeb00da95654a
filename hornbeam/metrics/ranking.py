"""Metrics of ranking: weighted means over query groups."""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from hornbeam.data.labels import (
    check_gains,
    check_grades,
    check_relevant,
    gains_of,
)
from hornbeam.data.meta_info import MetaInfo
from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.kernels import ranking as kernels
from hornbeam.kernels.layout import AVERAGE_PRECISION, GAIN, PRECISION
from hornbeam.kernels.team import lease
from hornbeam.metrics.base import Floats, Metric, register

__all__ = ["AveragePrecision", "DiscountedGain", "Precision", "RankingMetric"]

#: The text that may follow the ``@``.
_PARAMETER = re.compile(r"([1-9]\d{0,8})?(-?)", re.ASCII)
_ALL_PLACES = np.iinfo(np.int64).max
#: The cost of sorting a row, as a number of histogram updates.
_COST_PER_ROW = 64


class RankingMetric(Metric):
    """Base of means over query groups of a metric of their order, which is 1 at best.

    ``name@n`` is computed on the first n ranks. A group without relevant rows has 1, or
    0 with a minus: ``name-``, ``name@n-``.
    """

    maximize = True
    takes_minus = True
    kind: ClassVar[int]

    def take(self, parameter: str | None) -> None:
        if parameter is None:
            parameter = ""
        elif not parameter:
            raise self._mistake(parameter)
        found = _PARAMETER.fullmatch(parameter)
        if found is None:
            raise self._mistake(parameter)
        places, minus = found.groups()
        self.depth = int(places) if places else _ALL_PLACES
        self.nothing = 0.0 if minus else 1.0
        self.name += (f"@{places}" if places else "") + minus

    def limit(self, places: int) -> None:
        """Limit the number of first ranks, if the name has no ``@n``."""
        if self.depth == _ALL_PLACES:
            self.depth = places

    def _mistake(self, parameter: str) -> ParameterError:
        name = self.base_name
        return ParameterError(
            f"eval_metric '{name}@{parameter}' needs a number of ranks after the "
            f"'@', such as '{name}@5', or '{name}@5-'",
            code=ErrorCode.INVALID_METRIC_PARAMETER,
        )

    def of(self, predictions: Floats, info: MetaInfo) -> float:
        labels = info["label"]
        assert labels is not None
        self.check_rows(predictions, labels)
        return self._mean(predictions, labels, *info.groups())

    def measure(self, predictions: Floats, labels: Floats, weights: Floats) -> float:
        """Return the metric of all rows as one group, whose weight has no effect."""
        return self._mean(predictions, labels, np.array([0, len(labels)]), None)

    def _mean(
        self,
        predictions: Floats,
        labels: Floats,
        pointers: npt.NDArray[np.int64],
        weights: Floats | None,
    ) -> float:
        if predictions.size != labels.size:
            raise DataError(
                f"{self.name} got {predictions.size} predictions for {labels.size} "
                "labels; it needs one prediction per row",
                code=ErrorCode.METRIC_OBJECTIVE_MISMATCH,
            )
        gains = self.gains(labels)
        if np.isnan(predictions).any():
            return math.nan
        values = np.empty(pointers.size - 1)
        discounts = np.empty(np.diff(pointers).max())
        kernels.discount_places(discounts)
        with lease(self.settings.nthread) as team:
            n_threads = team.threads_for(_COST_PER_ROW * labels.size)
            team.run(
                kernels.measure_groups,
                n_threads,
                kernels.GroupMetric(self.kind, self.depth, self.nothing),
                predictions.ravel(),
                gains,
                pointers,
                discounts,
                values,
                np.empty((n_threads, kernels.PLACES, discounts.size), np.int64),
            )
        if weights is None:
            return math.fsum(values) / values.size
        total = math.fsum(weights)
        return math.fsum(values * weights) / total if total > 0.0 else 0.0

    @abstractmethod
    def gains(self, labels: Floats) -> Floats:
        """Return the gain of each row, (rows,)."""


@register
class DiscountedGain(RankingMetric):
    """``ndcg``: the discounted cumulative gain relative to that of the ideal order."""

    base_name = "ndcg"
    kind = GAIN

    def gains(self, labels: Floats) -> Floats:
        if not self.settings.ndcg_exp_gain:
            check_gains(self.name, labels)
            return labels.ravel()
        check_grades(self.name, labels)
        return gains_of(labels.ravel())


class _OfRelevant(RankingMetric):
    """Base of metrics of binary relevance."""

    def gains(self, labels: Floats) -> Floats:
        check_relevant(self.name, labels)
        return labels.ravel()


@register
class AveragePrecision(_OfRelevant):
    """``map``: the mean average precision."""

    base_name = "map"
    kind = AVERAGE_PRECISION


@register
class Precision(_OfRelevant):
    """``pre``: the precision, the fraction of relevant rows."""

    base_name = "pre"
    kind = PRECISION
