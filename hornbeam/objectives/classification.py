"""Two classes by the logistic loss, several by the softmax."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.kernels import maths
from hornbeam.kernels.gradients import focal, hinge, softmax
from hornbeam.kernels.team import Team
from hornbeam.kernels.transform import focal_rows, softmax_rows
from hornbeam.objectives.base import (
    REACH_OF_LOGARITHMS,
    Floats,
    Link,
    Objective,
    register,
)
from hornbeam.objectives.config import ConfigGroup
from hornbeam.objectives.regression import BoundedBaseScore, LogisticLoss, NewtonStart
from hornbeam.params import Parameters

__all__ = [
    "BinaryLogistic",
    "BinaryMargin",
    "ClassProbabilities",
    "Focal",
    "Hinge",
    "MostLikelyClass",
]

_SMALLEST_SHARE = 1e-6
#: Margins of the focal loss are sought within it, and found after so many halvings.
_HIGHEST_FOCAL = 16.0
_HALVINGS = 60
#: The cost of a share of ones, in cells of a histogram.
_CELLS_PER_SHARE = 24


@register
class BinaryLogistic(BoundedBaseScore):
    """P(label = 1) of two classes."""

    name = "binary:logistic"
    task = "binary"
    default_metric = "logloss"


@register
class BinaryMargin(LogisticLoss):
    """As binary:logistic, but predictions are margins, the base score too."""

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
    """An objective whose labels are 0 or 1, and nothing between."""

    def check_labels(self, labels: Floats) -> None:
        super().check_labels(labels)
        self.refuse(
            labels,
            (labels != 0.0) & (labels != 1.0),
            f"is not a class of {self.name}; code the two classes as 0 and 1",
        )


@register
class Focal(TwoClasses, BoundedBaseScore):
    """P(label = 1), from a loss in which rows that are right already hardly count.

    sigmoid(margin) is nearer to one half than the share of ones it is learned from
    (Lin and others 2017); predictions are that share.
    """

    name = "binary:focal"
    task = "binary"
    config_group = ConfigGroup("focal_loss_param", ("scale_pos_weight", "focal_gamma"))
    default_metric = "logloss"
    warm_up_cases = ({},)
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
        """Return the inverse of `transform`, by halving."""
        low, high = -_HIGHEST_FOCAL, _HIGHEST_FOCAL
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            if maths.focal_share(middle, self.parameters.focal_gamma) > share:
                high = middle
            else:
                low = middle
        return low

    def transform(self, team: Team, margins: NDArray[Any]) -> NDArray[Any]:
        members = team.members_for(_CELLS_PER_SHARE * margins.size)
        team.run(focal_rows, members, margins, self.parameters.focal_gamma)
        return margins


@register
class Hinge(TwoClasses):
    """The class, 0 or 1, by the largest margin between them."""

    name = "binary:hinge"
    task = "binary"
    config_group = ConfigGroup()
    prediction = "class"
    default_metric = "error"
    link = Link("step")
    warm_up_cases = ({"eval_metric": "ams@0.1"},)
    kernel = staticmethod(hinge)
    reach = math.inf

    def transform(self, team: Team, margins: NDArray[Any]) -> NDArray[Any]:
        return (margins > 0.0).astype(margins.dtype)


class SoftmaxLoss(Objective):
    """The negative log-likelihood of a class under the softmax of its margins."""

    task = "classes"
    config_group = ConfigGroup("softmax_multiclass_param", ("num_class",))
    has_probabilities = True
    kernel = staticmethod(softmax)
    reach = REACH_OF_LOGARITHMS
    default_metric = "mlogloss"

    def __init__(self, parameters: Parameters) -> None:
        super().__init__(parameters)
        if parameters.num_class < 2:
            raise ParameterError(
                f"{self.name} needs num_class, the number of classes, as 2 or more; "
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
            f"whole numbers from 0 to {classes - 1}",
            ErrorCode.LABEL_NOT_A_CLASS,
        )

    def start_columns(
        self, targets: Floats, weights: Floats | None
    ) -> Iterator[Floats]:
        (labels,) = targets
        for k in range(self.n_outputs):
            hits = (labels == k).astype(np.float64)
            yield hits if weights is None else hits * weights
        yield np.ones(labels.size) if weights is None else weights

    def start_from(self, totals: Floats) -> Floats:
        shares = totals[:-1] / totals[-1]
        margins = np.array([maths.log(share + _SMALLEST_SHARE) for share in shares])
        return margins - margins.sum() / margins.size

    def transform(self, team: Team, margins: NDArray[Any]) -> NDArray[Any]:
        team.run(softmax_rows, team.members_for(8 * margins.size), margins)
        return margins


@register
class ClassProbabilities(SoftmaxLoss):
    """The probability of each class."""

    name = "multi:softprob"
    prediction = "probability"
    link = Link("softmax")
    warm_up_cases = ({"num_class": 3, "eval_metric": ["merror", "auc"]},)


@register
class MostLikelyClass(SoftmaxLoss):
    """The number of the most likely class."""

    name = "multi:softmax"
    prediction = "class"
    link = Link("most_likely")
    probability_link = Link("softmax")
    warm_up_cases = ({"num_class": 3},)

    def to_output(self, team: Team, margins: NDArray[Any]) -> NDArray[Any]:
        return margins.argmax(axis=1).astype(margins.dtype)[:, np.newaxis]
