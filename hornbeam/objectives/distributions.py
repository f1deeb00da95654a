"""Distributional objectives: two parameters of a distribution for each row."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.meta_info import MetaInfo
from hornbeam.errors import ErrorCode, ParameterError, require
from hornbeam.kernels import maths
from hornbeam.kernels.gradient_writer import GradientWriter
from hornbeam.kernels.gradients import LossRows, lognormal, negative_binomial, normal
from hornbeam.kernels.team import Team
from hornbeam.kernels.transform import log_rows, positive_columns
from hornbeam.objectives.base import Floats, Link, Objective, register
from hornbeam.objectives.config import ConfigGroup
from hornbeam.objectives.totals import totals_of
from hornbeam.params import Parameters

__all__ = ["Distribution", "LogNormal", "NegativeBinomial", "Normal"]

#: Lower bounds of the scale in the base score, relative to the mean and absolute.
_LEAST_SHARE = 1e-6
_LEAST_SCALE = 1e-12
#: Lower bounds in the base score of the mean of counts, and of their variance relative
#: to it.
_LEAST_MEAN = 1e-16
_LEAST_EXCESS = 1.05


class Distribution(Objective):
    """The negative log-likelihood of labels under a distribution of two parameters.

    The margins of parameters above 0 are their logarithms. The gradients are natural
    gradients: they are multiplied by the inverse Fisher information of the margin.
    """

    task = "distribution"
    config_group = ConfigGroup()
    #: The index of the first parameter that must be above 0, as must those after it.
    first_positive: ClassVar[int]
    #: The names of the parameters in messages and plots.
    parameter_names: ClassVar[tuple[str, str]]
    #: Whether the first parameter is the mean of the labels.
    first_is_mean: ClassVar[bool] = True

    def __init__(self, parameters: Parameters) -> None:
        super().__init__(parameters)
        given = parameters.base_score
        if given is None:
            return
        values = np.broadcast_to(given, 2) if np.size(given) in (1, 2) else np.ones(2)
        for k in range(self.first_positive, 2):
            if not values[k] > 0.0:
                raise ParameterError(
                    f"base_score={values[k]:g} must be above 0 for the "
                    f"{self.parameter_names[k]} of {self.name}; give both parameters, "
                    f"the {' and the '.join(self.parameter_names)}",
                    code=ErrorCode.BASE_SCORE_NOT_POSITIVE,
                )

    @property
    def link(self) -> Link:
        return Link("distribution", self.first_positive)

    @property
    def n_outputs(self) -> int:
        return 2

    def start_columns(
        self, targets: Floats, weights: Floats | None
    ) -> Iterator[Floats]:
        values = self.values(targets)[0]
        for column in (values, values * values, np.broadcast_to(1.0, values.size)):
            yield column if weights is None else column * weights

    def start_from(self, totals: Floats) -> Floats:
        mean, square = (totals[:2] / totals[2]).tolist()
        return np.array(self.from_moments(mean, max(square - mean * mean, 0.0)))

    def values(self, targets: Floats) -> Floats:
        """Return the values whose moments determine the base score, same shape."""
        return targets

    @abstractmethod
    def from_moments(self, mean: float, variance: float) -> tuple[float, float]:
        """Return the parameters of the distribution with these moments."""

    def to_margin(self, base_score: Floats) -> Floats:
        margins = base_score.copy()
        for k in range(self.first_positive, 2):
            margins[k] = maths.log(float(base_score[k]))
        return margins

    def transform(self, team: Team, margins: NDArray[Any]) -> NDArray[Any]:
        n_threads = team.threads_for(8 * margins.size)
        team.run(positive_columns, n_threads, margins, self.first_positive)
        return margins

    def point_predictions(self, predictions: NDArray[Any]) -> NDArray[Any]:
        """Return the mean of each predicted distribution, (rows,), of (rows, 2).

        For ``dist:lognormal`` it is the median.
        """
        return predictions[:, 0]

    @abstractmethod
    def quantiles(
        self, predictions: NDArray[Any], shares: Sequence[float]
    ) -> NDArray[Any]:
        """Return the quantiles of predicted distributions at the levels `shares`.

        They are (rows, levels) for (rows, 2) predictions.
        """


@register
class Normal(Distribution):
    """The normal distribution; predictions are the mean and the standard deviation.

    The gradients of a row are scaled by the geometric mean of all predicted variances
    over its own.
    """

    name = "dist:normal"
    default_metric = "normal-nll"
    kernel = staticmethod(normal)
    by_row = False
    first_positive = 1
    parameter_names = ("mean", "standard deviation")

    def from_moments(self, mean: float, variance: float) -> tuple[float, float]:
        least = max(_LEAST_SHARE * abs(mean), _LEAST_SCALE)
        return mean, max(float(np.sqrt(variance)), least)

    def gradients(
        self, team: Team, scores: Floats, info: MetaInfo, iteration: int
    ) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]:
        weights = info.row_weights
        dtype = np.float32 if weights is None else np.float64
        gradients, hessians = np.empty((2, *scores.shape), dtype)
        rows = LossRows.of(scores, self.targets_of(info), weights)
        numbers = np.array([1.0, _mean_of(scores[1], weights)])
        writer = GradientWriter(team, gradients, hessians)
        writer.write(type(self).kernel, rows, numbers)
        return gradients, hessians

    def quantiles(
        self, predictions: NDArray[Any], shares: Sequence[float]
    ) -> NDArray[Any]:
        scores = np.array([NormalDist().inv_cdf(share) for share in shares])
        return predictions[:, :1] + predictions[:, 1:] * scores


@register
class LogNormal(Normal):
    """The log-normal distribution; predictions are those of the log label."""

    name = "dist:lognormal"
    default_metric = "lognormal-nll"
    kernel = staticmethod(lognormal)
    parameter_names = ("mean", "standard deviation of the logarithm")
    first_is_mean = False

    @classmethod
    def warm_up_fields(cls, classes: NDArray[Any]) -> dict[str, Any]:
        return {"label": classes + 1}

    def check_labels(self, labels: Floats) -> None:
        super().check_labels(labels)
        self.refuse(
            labels,
            labels <= 0.0,
            f"is not above 0, and {self.name} fits the distribution of its "
            "logarithm; correct the label, or choose 'dist:normal'",
        )

    def values(self, targets: Floats) -> Floats:
        logarithms = targets.copy()
        Team(1).run(log_rows, 1, logarithms)
        return logarithms

    def point_predictions(self, predictions: NDArray[Any]) -> NDArray[Any]:
        return np.exp(predictions[:, 0])

    def quantiles(
        self, predictions: NDArray[Any], shares: Sequence[float]
    ) -> NDArray[Any]:
        return np.exp(super().quantiles(predictions, shares))


@register
class NegativeBinomial(Distribution):
    """The negative binomial distribution of counts.

    Predictions are the mean and the dispersion; the variance is mean + dispersion *
    mean**2.
    """

    name = "dist:negbinomial"
    default_metric = "negbinomial-nll"
    kernel = staticmethod(negative_binomial)
    first_positive = 0
    parameter_names = ("mean", "dispersion")

    def check_labels(self, labels: Floats) -> None:
        super().check_labels(labels)
        self.refuse(
            labels,
            (labels < 0.0) | (labels != np.floor(labels)),
            f"is not a count, as {self.name} requires; correct the label, or choose "
            "'dist:lognormal' or 'dist:normal' for amounts",
        )

    @property
    def numbers(self) -> tuple[float, ...]:
        return (1.0, 0.0)

    def from_moments(self, mean: float, variance: float) -> tuple[float, float]:
        mean = max(mean, _LEAST_MEAN)
        return mean, (max(variance, _LEAST_EXCESS * mean) - mean) / (mean * mean)

    def quantiles(
        self, predictions: NDArray[Any], shares: Sequence[float]
    ) -> NDArray[Any]:
        stats = require("scipy.stats", "frames", f"an interval of {self.name}")
        mean, dispersion = predictions.astype(np.float64).T[:, :, np.newaxis]
        of = stats.nbinom(1.0 / dispersion, 1.0 / (1.0 + dispersion * mean))
        return np.asarray(of.ppf(np.array(shares)))


def _mean_of(column: Floats, weights: Floats | None) -> float:
    """Return the weighted mean, which does not depend on the order of the rows."""
    columns = [column] if weights is None else [column * weights, weights]
    totals = totals_of(columns, column.size)
    return float(totals[0] / (column.size if weights is None else totals[1]))
