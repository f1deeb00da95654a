"""What makes predictions of margins, by names for which each language has a formula."""

from __future__ import annotations

from collections.abc import Mapping

from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.objectives.base import Link, Objective
from hornbeam.objectives.compiled import OWNER

__all__ = ["FORMULAS", "HIGHEST_LOG", "LEAST_STEP", "link_of"]

#: The names, and what a row's margins m become.
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

#: Logarithms of the parameters of distributions are held within it.
HIGHEST_LOG = 69.0
#: Between two expectiles there is this at least (see `hornbeam.kernels.maths.climb`).
LEAST_STEP = 1e-6


def link_of(
    objective: Objective, attributes: Mapping[str, str], of_classes: bool
) -> Link:
    """Return the link of a trained model.

    Parameters
    ----------
    objective
        Its objective.
    attributes
        What is attached to it: whether predictions take a formula of the caller's.
    of_classes
        Whether predictions are to be probabilities of classes.
    """
    owner = attributes.get(OWNER)
    if owner is not None:
        raise ParameterError(
            f"the predictions of this model take {owner}.transform, which cannot be "
            "exported; export margins, output_margin=True, and transform those",
            code=ErrorCode.NOT_EXPORTABLE,
        )
    if of_classes and objective.probability_link is not None:
        return objective.probability_link
    return objective.link
