"""The registry of metrics by name."""

from __future__ import annotations

from importlib import import_module

from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.lazy import look_up
from hornbeam.metrics.base import METRICS, Metric
from hornbeam.params import Parameters

__all__ = ["create", "maximize_of", "names"]

#: The modules, which register their classes when they are imported. They are imported
#: in this order until a name is found: most trainings start with the first ones alone.
_MODULES = (
    "hornbeam.metrics.regression",
    "hornbeam.metrics.classification",
    "hornbeam.metrics.ranking",
    "hornbeam.metrics.survival",
    "hornbeam.metrics.distributions",
)
#: How names of custom metrics begin that XGBoost's early stopping maximises.
_MAXIMIZED_PREFIXES = ("auc", "pre", "map", "ndcg")


def names() -> list[str]:
    """Return the names of all metrics, in alphabetical order."""
    for module in _MODULES:
        import_module(module)
    return sorted(METRICS)


def _find(name: str) -> type[Metric] | None:
    """Return the class of a metric, None if no metric has this name."""
    return look_up(METRICS, name, _MODULES)


def create(name: str, n_outputs: int = 1, settings: Parameters | None = None) -> Metric:
    """Return the metric of a name, such as ``"error@0.7"``.

    Parameters
    ----------
    name
        A name of `names`, with ``@`` and a parameter if the metric has one.
    n_outputs
        The number of outputs of a prediction: 1, or the number of classes.
    settings
        The training parameters; defaults if None.
    """
    base_name, parameter = _split_name(name)
    metric = _find(base_name)
    if metric is not None:
        return metric(parameter, n_outputs, settings)
    import difflib  # for this error alone

    nearest = difflib.get_close_matches(base_name, names(), n=1)
    hint = f"did you mean {nearest[0]!r}? " if nearest else ""
    raise ParameterError(
        f"unknown eval_metric {name!r}; {hint}the metrics are {', '.join(names())}",
        code=ErrorCode.UNKNOWN_METRIC,
        name=name,
    )


def maximize_of(name: str) -> bool:
    """Return whether larger values of a metric are better.

    The class of a registered metric declares it. Of any other name, which a custom
    metric function returned, XGBoost's rule decides by how the name begins.

    Parameters
    ----------
    name
        The name under which values are reported, such as ``"ndcg@5-"``.
    """
    base_name, _ = _split_name(name)
    metric = _find(base_name)
    if metric is not None:
        return metric.maximize
    return name.startswith(_MAXIMIZED_PREFIXES)


def _split_name(name: str) -> tuple[str, str | None]:
    """Return the name before an ``@`` and the parameter after it, None without one."""
    base_name, at, parameter = name.partition("@")
    plain = base_name.removesuffix("-")
    if plain != base_name:
        metric = _find(plain)
        if metric is not None and metric.takes_minus:
            return plain, "-"
    return base_name, parameter if at else None
