"""The registry of metrics by name."""

from __future__ import annotations

import difflib

# The modules register their classes when they are imported.
import hornbeam.metrics.classification
import hornbeam.metrics.distributions
import hornbeam.metrics.ranking
import hornbeam.metrics.regression
import hornbeam.metrics.survival  # noqa: F401
from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.metrics.base import METRICS, Metric
from hornbeam.params import Parameters

__all__ = ["create", "maximize_of", "names"]

#: How names of custom metrics begin that XGBoost's early stopping maximises.
_MAXIMIZED_PREFIXES = ("auc", "pre", "map", "ndcg")


def names() -> list[str]:
    """Return the names of all metrics, in alphabetical order."""
    return sorted(METRICS)


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
    if base_name in METRICS:
        return METRICS[base_name](parameter, n_outputs, settings)
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
    if base_name in METRICS:
        return METRICS[base_name].maximize
    return name.startswith(_MAXIMIZED_PREFIXES)


def _split_name(name: str) -> tuple[str, str | None]:
    """Return the name before an ``@`` and the parameter after it, None without one."""
    base_name, at, parameter = name.partition("@")
    plain = base_name.removesuffix("-")
    if plain != base_name and plain in METRICS and METRICS[plain].takes_minus:
        return plain, "-"
    return base_name, parameter if at else None
