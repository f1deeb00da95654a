"""The links from margins to predictions, which each exported language implements."""

from __future__ import annotations

from collections.abc import Mapping

from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.objectives.base import Link, Objective
from hornbeam.objectives.compiled import OWNER

__all__ = ["FORMULAS", "HIGHEST_LOG", "LEAST_STEP", "link_of"]

#: The predictions of a row with margins m, by the name of the link.
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
    "shares": "m over the sum of the m of all outputs",
}

#: The bound on the magnitude of logarithms of distribution parameters.
HIGHEST_LOG = 69.0
#: The least step between two expectiles (see `hornbeam.kernels.maths.climb`).
LEAST_STEP = 1e-6


def link_of(
    objective: Objective, attributes: Mapping[str, str], of_classes: bool
) -> Link:
    """Return the link of a trained model.

    Parameters
    ----------
    objective
        The objective of the model.
    attributes
        The attributes of the model, by which a custom transform is recognised.
    of_classes
        Whether predictions are class probabilities.
    """
    owner = attributes.get(OWNER)
    if owner is not None:
        raise ParameterError(
            f"the predictions of this model need {owner}.transform, which cannot be "
            "exported; export margins, output_margin=True, and transform them",
            code=ErrorCode.NOT_EXPORTABLE,
        )
    if of_classes and objective.probability_link is not None:
        return objective.probability_link
    return objective.link
