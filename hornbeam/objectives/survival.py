"""Objectives of survival analysis with censored times: Cox and AFT."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.meta_info import MetaInfo
from hornbeam.errors import DataError, ErrorCode
from hornbeam.kernels import survival
from hornbeam.kernels.team import Team
from hornbeam.objectives.base import Floats, register
from hornbeam.objectives.config import ConfigGroup
from hornbeam.objectives.counts import LogLink
from hornbeam.params import Parameters

__all__ = ["AcceleratedFailure", "ProportionalHazards"]

#: The cost of the gradient of a row, as a number of histogram updates.
_COST_PER_ROW = 32


@dataclass(frozen=True, slots=True)
class _Timeline:
    """The rows sorted by time, for the kernel `proportional_hazards`.

    Attributes
    ----------
    source
        The labels and weights that it was computed from.
    times, scratch
        The arguments of the kernel that depend on them, and its working memory.
    """

    source: tuple[Floats, Floats | None]
    times: survival.EventTimes
    scratch: survival.CoxScratch


@register
class ProportionalHazards(LogLink):
    """Cox's partial likelihood; predictions are hazard ratios.

    A label is the time of an event; for a censored row it is minus the censoring time.
    """

    name = "survival:cox"
    task = "survival"
    config_group = ConfigGroup()
    default_metric = "cox-nloglik"
    by_row = False

    def __init__(self, parameters: Parameters) -> None:
        super().__init__(parameters)
        self._timeline: _Timeline | None = None

    def check_labels(self, labels: Floats) -> None:
        super().check_labels(labels)
        if not labels.all():
            row = int(np.argmin(labels != 0.0))
            raise DataError(
                f"label 0 in row {row} is not a time for {self.name}; give the time of "
                "an event, or minus the censoring time",
                code=ErrorCode.LABEL_OUT_OF_DOMAIN,
            )

    @classmethod
    def warm_up_fields(cls, classes: NDArray[Any]) -> dict[str, Any]:
        return {"label": classes + 1}

    def estimate_base_score(self, targets: Floats, weights: Floats | None) -> Floats:
        return np.ones(1)  # the likelihood does not depend on the base score

    def gradients(
        self, team: Team, margins: Floats, info: MetaInfo, iteration: int
    ) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]:
        line = self._timeline_of(info)
        rows = info.n_rows
        gradients, hessians = np.empty((2, 1, rows))
        team.run(
            survival.proportional_hazards,
            team.threads_for(_COST_PER_ROW * rows),
            margins[0],
            line.times,
            line.scratch,
            gradients[0],
            hessians[0],
        )
        return gradients, hessians

    def _timeline_of(self, info: MetaInfo) -> _Timeline:
        """Return the rows sorted by time, which is cached for all rounds."""
        labels, weights = info["label"], info.row_weights
        assert labels is not None
        line = self._timeline
        if line is not None and line.source[0] is labels and line.source[1] is weights:
            return line
        own = np.empty(0) if weights is None else weights
        order, begins = survival.by_time(labels)
        events = survival.events_of(labels, own)
        if not events.any():
            raise DataError(
                f"{self.name} needs events, and there are none in {labels.size} rows; "
                "the label of an event is its time, above 0",
                code=ErrorCode.NOTHING_TO_LEARN,
            )
        n_moments = begins.size - 1
        event_weights = np.empty(n_moments)
        survival.sum_moments(events[order], begins, event_weights)
        moment_of = np.empty(labels.size, np.uint32)
        moment_of[order] = np.repeat(np.arange(n_moments), np.diff(begins))
        # To allocate it in every round would take longer than to compute in it.
        scratch = survival.CoxScratch(
            np.empty((3, labels.size)), np.empty((n_moments, 2))
        )
        times = survival.EventTimes(
            own, events, moment_of, order.astype(np.uint32), begins, event_weights
        )
        self._timeline = _Timeline((labels, weights), times, scratch)
        return self._timeline


@register
class AcceleratedFailure(LogLink):
    """The accelerated failure time model: the likelihood of bounds on log times.

    The two bounds of an uncensored time are equal. A lower bound of 0 or -inf, or an
    upper bound of inf, is none.
    """

    name = "survival:aft"
    task = "survival"
    config_group = ConfigGroup(
        "aft_loss_param", ("aft_loss_distribution", "aft_loss_distribution_scale")
    )
    default_metric = "aft-nloglik"
    kernel = staticmethod(survival.accelerated_failure)

    @classmethod
    def warm_up_fields(cls, classes: NDArray[Any]) -> dict[str, Any]:
        return {
            "label": classes + 1,
            "label_lower_bound": classes + 1,
            "label_upper_bound": classes + 2,
        }

    def targets_of(self, info: MetaInfo) -> Floats:
        bounds = []
        for field in ("label_lower_bound", "label_upper_bound"):
            bound = info[field]
            if bound is None:
                raise DataError(
                    f"the training data has no {field}, which {self.name} requires; "
                    "pass DMatrix(data, label_lower_bound=..., label_upper_bound=...)",
                    code=ErrorCode.META_INFO_MISSING,
                )
            bounds.append(bound)
        targets = np.array(bounds)
        survival.log_times(targets)
        return targets

    def check_targets(self, targets: Floats) -> None:
        self.check_labels(targets[1])
        endless = targets[1] == -np.inf
        if endless.any():
            raise DataError(
                f"label_upper_bound is not above 0 in row {int(endless.argmax())}, and "
                f"{self.name} requires times above 0; correct it, or drop the row",
                code=ErrorCode.LABEL_OUT_OF_DOMAIN,
            )

    def start_columns(
        self, targets: Floats, weights: Floats | None
    ) -> Iterator[Floats]:
        return iter(())

    def start_from(self, totals: Floats) -> Floats:
        return np.full(1, 0.5)  # not estimated, as in XGBoost

    @property
    def numbers(self) -> tuple[float, ...]:
        p = self.parameters
        distribution = survival.DISTRIBUTIONS[p.aft_loss_distribution]
        return distribution, p.aft_loss_distribution_scale
