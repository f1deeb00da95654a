"""The link functions from margins to predictions that exporters implement."""

from __future__ import annotations

from collections.abc import Mapping

from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.objectives.base import Link, Objective
from hornbeam.objectives.compiled import OWNER

__all__ = ["CALIBRATION", "FORMULAS", "MAX_LOG", "MIN_STEP", "link_of"]

#: The attribute of a classifier's model that holds its calibrator.
CALIBRATION = "hornbeam_calibration"

#: The name of each link function, and its formula for the margins m of a row.
FORMULAS: Mapping[str, str] = {
    "identity": "m, the margins themselves",
    "sigmoid": "1 / (1 + exp(-m))",
    "exponential": "exp(m)",
    "step": "1 where m is above 0, and 0 elsewhere",
    "softmax": "exp(m) over the sum of the exp(m) of all outputs",
    "most_likely": "the number of the largest m, the first of equal ones",
    "rising": "m in rising order",
    "climbing": "m[0], and from there up by softplus(m[1]), softplus(m[2]), and so on",
    "distribution": "m, or exp(m) of the parameters that must be above 0",
    "focal": "the share of ones that the focal loss learns m from",
    "cumulative": "differences of 1 / (1 + exp(m[0] - t)) at thresholds t with the "
    "middle m[1], apart by softplus(m[2]), softplus(m[3]), and so on",
    "shares": "m over the sum of the m of all outputs",
}

#: Logarithms of distribution parameters are clipped to [-MAX_LOG, MAX_LOG].
MAX_LOG = 69.0
#: The minimum difference of two expectiles (see `hornbeam.kernels.maths.climb`).
MIN_STEP = 1e-6


def link_of(
    objective: Objective, attributes: Mapping[str, str], of_classes: bool
) -> Link:
    """Return the link function of a trained model.

    Parameters
    ----------
    objective
        The objective of the model.
    attributes
        The attributes of the model, which tell whether its transformation is custom.
    of_classes
        Whether predictions must be class probabilities.
    """
    owner = attributes.get(OWNER)
    if owner is not None:
        raise ParameterError(
            f"the predictions of this model need {owner}.transform, which cannot be "
            "exported; export margins with output_margin=True, and transform them",
            code=ErrorCode.NOT_EXPORTABLE,
        )
    if of_classes and CALIBRATION in attributes:
        raise ParameterError(
            "calibrated probabilities cannot be exported; export margins with "
            "output_margin=True, or the booster, whose probabilities are as before "
            "calibration",
            code=ErrorCode.NOT_EXPORTABLE,
        )
    if of_classes and objective.probability_link is not None:
        return objective.probability_link
    return objective.link
