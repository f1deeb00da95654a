"""The registry of objectives by name."""

from __future__ import annotations

import difflib

# The modules register their classes when they are imported.
import hornbeam.objectives.classification
import hornbeam.objectives.counts
import hornbeam.objectives.distributions
import hornbeam.objectives.quantiles
import hornbeam.objectives.ranking
import hornbeam.objectives.regression
import hornbeam.objectives.survival  # noqa: F401
from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.objectives.base import OBJECTIVES, Objective
from hornbeam.params import Parameters

__all__ = ["config_groups", "create", "find", "names", "registered"]


def registered() -> list[type[Objective]]:
    """Return the classes of all objectives, in the order of their registration."""
    return list(OBJECTIVES.values())


def config_groups() -> dict[str, tuple[str, ...]]:
    """Return the parameters of each group that objectives have in model files."""
    groups = [objective.config_group for objective in registered()]
    return {group.name: group.parameters for group in groups if group.name}


def find(name: str) -> type[Objective] | None:
    """Return the class of an objective, None if no objective has this name."""
    return OBJECTIVES.get(name)


def names() -> list[str]:
    """Return the names of all objectives, in alphabetical order."""
    return sorted(OBJECTIVES)


#: Deprecated names that XGBoost still accepts.
_FORMER = {"reg:linear": "reg:squarederror"}


def create(parameters: Parameters) -> Objective:
    """Return the objective of the parameter `objective`."""
    name = _FORMER.get(parameters.objective, parameters.objective)
    objective = find(name)
    if objective is not None:
        return objective(parameters)
    near = difflib.get_close_matches(name, names(), 1)
    hint = (
        f"did you mean {near[0]!r}?"
        if near
        else f"the objectives are {', '.join(names())}"
    )
    raise ParameterError(
        f"unknown objective {name!r}; {hint}",
        code=ErrorCode.UNKNOWN_OBJECTIVE,
        name=name,
    )
