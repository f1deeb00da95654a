"""Objectives of classification: logistic, focal, hinge, softmax and ordinal losses."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.meta_info import MetaInfo
from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.kernels import maths
from hornbeam.kernels.gradient_writer import GradientWriter
from hornbeam.kernels.gradients import LossRows, focal, hinge, ordinal, softmax
from hornbeam.kernels.team import Team
from hornbeam.kernels.transform import cumulative_rows, focal_rows, softmax_rows
from hornbeam.objectives.base import (
    REACH_OF_LOGARITHMS,
    Floats,
    Link,
    Objective,
    register,
)
from hornbeam.objectives.config import ConfigGroup
from hornbeam.objectives.regression import BoundedBaseScore, LogisticLoss, NewtonStart
from hornbeam.objectives.totals import totals_of
from hornbeam.params import Parameters

__all__ = [
    "BinaryLogistic",
    "BinaryMargin",
    "ClassProbabilities",
    "Focal",
    "Hinge",
    "MostLikelyClass",
    "OrdinalLogistic",
]

_SMALLEST_SHARE = 1e-6
#: The least gap between two thresholds in the base score, so that margins are finite.
_LEAST_GAP = 1e-3
#: The bound on margins of the focal loss in a bisection, and its number of steps.
_HIGHEST_FOCAL = 16.0
_HALVINGS = 60
#: The cost of the probability of a row, as a number of histogram updates.
_COST_PER_PROBABILITY = 24


@register
class BinaryLogistic(BoundedBaseScore):
    """Logistic regression of two classes; predictions are P(label = 1)."""

    name = "binary:logistic"
    task = "binary"
    default_metric = "logloss"


@register
class BinaryMargin(LogisticLoss):
    """Like binary:logistic, but predictions and the base score are margins."""

    name = "binary:logitraw"
    task = "binary"
    prediction = "margin"
    default_metric = "logloss"
    link = Link("identity")
    probability_link = Link("sigmoid")

    def to_margin(self, base_score: Floats) -> Floats:
        return base_score

    def transform(self, team: Team, margins: NDArray[Any]) -> NDArray[Any]:
        return margins

    def class_probabilities(self, team: Team, margins: NDArray[Any]) -> NDArray[Any]:
        return super().transform(team, margins)


class TwoClasses(NewtonStart):
    """Base of objectives whose labels are 0 or 1."""

    def check_labels(self, labels: Floats) -> None:
        super().check_labels(labels)
        self.refuse(
            labels,
            (labels != 0.0) & (labels != 1.0),
            f"is not a class of {self.name}; encode the two classes as 0 and 1",
        )


@register
class Focal(TwoClasses, BoundedBaseScore):
    """Focal loss of two classes (Lin and others 2017); predictions are P(label = 1).

    The loss reduces the weight of rows that are predicted well, so sigmoid(margin) is
    nearer to one half than the fraction of rows with label 1. Predictions are that
    fraction.
    """

    name = "binary:focal"
    task = "binary"
    config_group = ConfigGroup("focal_loss_param", ("scale_pos_weight", "focal_gamma"))
    default_metric = "logloss"
    kernel = staticmethod(focal)
    reach = REACH_OF_LOGARITHMS

    @property
    def numbers(self) -> tuple[float, ...]:
        return (self.positive_weight, self.parameters.focal_gamma)

    @property
    def link(self) -> Link:  # type: ignore[override]
        return Link("focal", self.parameters.focal_gamma)

    def to_margin(self, base_score: Floats) -> Floats:
        return np.array([self._margin_of(float(share)) for share in base_score])

    def _margin_of(self, share: float) -> float:
        """Return the inverse of `transform`, by bisection."""
        low, high = -_HIGHEST_FOCAL, _HIGHEST_FOCAL
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            if maths.focal_share(middle, self.parameters.focal_gamma) > share:
                high = middle
            else:
                low = middle
        return low

    def transform(self, team: Team, margins: NDArray[Any]) -> NDArray[Any]:
        n_threads = team.threads_for(_COST_PER_PROBABILITY * margins.size)
        team.run(focal_rows, n_threads, margins, self.parameters.focal_gamma)
        return margins


@register
class Hinge(TwoClasses):
    """Hinge loss of two classes; predictions are the class, 0 or 1."""

    name = "binary:hinge"
    task = "binary"
    config_group = ConfigGroup()
    prediction = "class"
    default_metric = "error"
    link = Link("step")
    kernel = staticmethod(hinge)
    reach = math.inf

    def transform(self, team: Team, margins: NDArray[Any]) -> NDArray[Any]:
        return (margins > 0.0).astype(margins.dtype)


class SeveralClasses(Objective):
    """Base of objectives whose labels are indices of several classes."""

    task = "classes"
    has_probabilities = True
    default_metric = "mlogloss"

    def __init__(self, parameters: Parameters) -> None:
        super().__init__(parameters)
        if parameters.num_class < 2:
            raise ParameterError(
                f"{self.name} requires num_class, the number of classes, of 2 or more; "
                f"it is {parameters.num_class}",
                code=ErrorCode.INVALID_NUM_CLASS,
                value=parameters.num_class,
            )

    def check_labels(self, labels: Floats) -> None:
        classes = self.n_outputs
        self.refuse(
            labels,
            (labels < 0) | (labels >= classes) | (labels != np.floor(labels)),
            f"is not a class of {self.name} with num_class={classes}; labels must be "
            f"integers from 0 to {classes - 1}",
            ErrorCode.LABEL_NOT_A_CLASS,
        )

    def start_columns(
        self, targets: Floats, weights: Floats | None
    ) -> Iterator[Floats]:
        (labels,) = targets
        for k in range(self.n_outputs):
            hits = (labels == k).astype(np.float64)
            yield hits if weights is None else hits * weights
        yield np.broadcast_to(1.0, labels.size) if weights is None else weights


class SoftmaxLoss(SeveralClasses):
    """Base of the objectives with the softmax cross-entropy of several classes."""

    config_group = ConfigGroup("softmax_multiclass_param", ("num_class",))
    kernel = staticmethod(softmax)
    reach = REACH_OF_LOGARITHMS

    def start_from(self, totals: Floats) -> Floats:
        shares = totals[:-1] / totals[-1]
        margins = np.array([maths.log(share + _SMALLEST_SHARE) for share in shares])
        return margins - margins.sum() / margins.size

    def transform(self, team: Team, margins: NDArray[Any]) -> NDArray[Any]:
        team.run(softmax_rows, team.threads_for(8 * margins.size), margins)
        return margins


@register
class ClassProbabilities(SoftmaxLoss):
    """Softmax loss; predictions are the probabilities of the classes."""

    name = "multi:softprob"
    prediction = "probability"
    link = Link("softmax")


@register
class MostLikelyClass(SoftmaxLoss):
    """Softmax loss; the prediction is the index of the most likely class."""

    name = "multi:softmax"
    prediction = "class"
    link = Link("most_likely")
    probability_link = Link("softmax")

    def to_output(self, team: Team, margins: NDArray[Any]) -> NDArray[Any]:
        return margins.argmax(axis=1).astype(margins.dtype)[:, np.newaxis]


@register
class OrdinalLogistic(SeveralClasses):
    """Cumulative logits of ordered classes (proportional odds; McCullagh 1980).

    P(label <= k) is the sigmoid of threshold k minus the location, so predictions are
    probabilities of classes. The first margin is the location. The second is the middle
    of the first and the last threshold, which stays at the base score; the softplus of
    each other margin is the gap between two thresholds. A gap is the same for all rows:
    its gradient is the mean of all rows, so that its trees have one leaf.
    """

    name = "ordinal:logistic"
    config_group = ConfigGroup("ordinal_param", ("num_class",))
    prediction = "probability"
    link = Link("cumulative")
    kernel = staticmethod(ordinal)
    by_row = False
    is_argmax = False

    @property
    def margin_names(self) -> list[str]:
        """Names of the margins: no margin is that of a class."""
        gaps = range(1, self.n_outputs - 1)
        return [
            "location",
            "middle of the thresholds",
            *(f"gap of thresholds {k} and {k + 1}" for k in gaps),
        ]

    def start_from(self, totals: Floats) -> Floats:
        shares = totals[:-1] / totals[-1] + _SMALLEST_SHARE
        below = np.cumsum(shares)[:-1] / shares.sum()
        thresholds = [maths.log(share) - maths.log(1.0 - share) for share in below]
        margins = np.zeros(self.n_outputs)
        margins[1] = 0.5 * (thresholds[0] + thresholds[-1])
        for k, gap in enumerate(np.diff(thresholds), 2):
            # The inverse of softplus, log(exp(x) - 1).
            x = max(float(gap), _LEAST_GAP)
            margins[k] = x + maths.log(1.0 - maths.exp(-x))
        return margins

    def gradients(
        self, team: Team, margins: Floats, info: MetaInfo, iteration: int
    ) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]:
        weights = info.row_weights
        dtype = np.float32 if weights is None else np.float64
        gradients, hessians = np.empty((2, *margins.shape), dtype)
        rows = LossRows.of(margins, self.targets_of(info), weights)
        writer = GradientWriter(team, gradients, hessians)
        writer.write(type(self).kernel, rows, np.ones(1))
        n_rows = margins.shape[1]
        total = n_rows if weights is None else totals_of([weights], n_rows)[0]
        for values in (gradients, hessians):
            columns = values[2:].astype(np.float64)
            means = totals_of(columns, n_rows)[:, np.newaxis] / total
            values[2:] = means if weights is None else means * weights
        return gradients, hessians

    def transform(self, team: Team, margins: NDArray[Any]) -> NDArray[Any]:
        n_threads = team.threads_for(_COST_PER_PROBABILITY * margins.size)
        team.run(cumulative_rows, n_threads, margins)
        return margins
