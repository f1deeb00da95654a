"""The registry of objectives by name."""

from __future__ import annotations

from importlib import import_module

from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.lazy import look_up
from hornbeam.objectives.base import OBJECTIVES, Objective
from hornbeam.params import Parameters

__all__ = ["config_groups", "create", "find", "names", "registered"]


#: The modules, which register their classes when they are imported. They are imported
#: in this order until a name is found: most trainings start with the first ones alone.
_MODULES = (
    "hornbeam.objectives.regression",
    "hornbeam.objectives.classification",
    "hornbeam.objectives.counts",
    "hornbeam.objectives.quantiles",
    "hornbeam.objectives.ranking",
    "hornbeam.objectives.survival",
    "hornbeam.objectives.distributions",
)


def registered() -> list[type[Objective]]:
    """Return the classes of all objectives."""
    for module in _MODULES:
        import_module(module)
    return list(OBJECTIVES.values())


def config_groups() -> dict[str, tuple[str, ...]]:
    """Return the parameters of each group that objectives have in model files."""
    groups = [objective.config_group for objective in registered()]
    return {group.name: group.parameters for group in groups if group.name}


def find(name: str) -> type[Objective] | None:
    """Return the class of an objective, None if no objective has this name."""
    return look_up(OBJECTIVES, name, _MODULES)


def names() -> list[str]:
    """Return the names of all objectives, in alphabetical order."""
    return sorted(objective.name for objective in registered())


#: Deprecated names that XGBoost still accepts.
_FORMER = {"reg:linear": "reg:squarederror"}


def create(parameters: Parameters) -> Objective:
    """Return the objective of the parameter `objective`."""
    name = _FORMER.get(parameters.objective, parameters.objective)
    objective = find(name)
    if objective is not None:
        return objective(parameters)
    import difflib  # for this error alone

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
