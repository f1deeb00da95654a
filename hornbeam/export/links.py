"""What makes predictions of margins, by names for which each language has a formula."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.objectives.base import Objective
from hornbeam.objectives.classification import Focal
from hornbeam.objectives.compiled import OWNER
from hornbeam.objectives.distributions import Distribution
from hornbeam.objectives.quantiles import QuantileError

__all__ = ["FORMULAS", "HIGHEST_LOG", "LEAST_STEP", "LINKS", "Link", "link_of"]

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

#: The name of the link of each objective.
LINKS: Mapping[str, str] = {
    "reg:squarederror": "identity",
    "reg:squaredlogerror": "identity",
    "reg:pseudohubererror": "identity",
    "reg:absoluteerror": "identity",
    "reg:logistic": "sigmoid",
    "reg:gamma": "exponential",
    "reg:tweedie": "exponential",
    "reg:quantileerror": "rising",
    "reg:expectileerror": "climbing",
    "count:poisson": "exponential",
    "binary:logistic": "sigmoid",
    "binary:logitraw": "identity",
    "binary:hinge": "step",
    "binary:focal": "focal",
    "multi:softprob": "softmax",
    "multi:softmax": "most_likely",
    "rank:map": "identity",
    "rank:ndcg": "identity",
    "rank:pairwise": "identity",
    "rank:xendcg": "identity",
    "survival:aft": "exponential",
    "survival:cox": "exponential",
    "dist:normal": "distribution",
    "dist:lognormal": "distribution",
    "dist:negbinomial": "distribution",
}

#: Those that say how likely classes are, instead of what their objectives predict.
_OF_CLASSES = {
    "reg:squarederror": "shares",
    "binary:logitraw": "sigmoid",
    "multi:softmax": "softmax",
}

#: Logarithms of the parameters of distributions are held within it.
HIGHEST_LOG = 69.0
#: Between two expectiles there is this at least (see `hornbeam.kernels.maths.climb`).
LEAST_STEP = 1e-6


@dataclass(frozen=True, slots=True)
class Link:
    """A formula by its name, and its one number, if it has any.

    That is gamma of the focal loss, and the first parameter of a distribution whose
    logarithm is a margin.
    """

    name: str
    number: float = 0.0


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
    if isinstance(objective, Focal):
        return Link("focal", objective.parameters.focal_gamma)
    if isinstance(objective, Distribution):
        return Link("distribution", objective.first_positive)
    if isinstance(objective, QuantileError) and not objective.rises:
        return Link("identity")
    name = LINKS[objective.name]
    return Link(_OF_CLASSES.get(objective.name, name) if of_classes else name)
