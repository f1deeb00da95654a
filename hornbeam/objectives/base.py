"""The contract of an objective, and the table of those there are."""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from hornbeam.errors import ParameterError
from hornbeam.kernels.team import Team
from hornbeam.objectives.totals import totals_of
from hornbeam.params import Parameters

__all__ = ["Floats", "Objective", "create", "names", "register"]

Floats = NDArray[np.float64]

_UNWEIGHTED: Floats = np.empty(0)
#: Rows that a kernel of several outputs works on at once.
_LANE = 256
#: The cost of one row of one output, in cells of a histogram.
_CELLS_PER_ROW = 8


class Objective(ABC):
    """A loss of margins and labels.

    Parameters
    ----------
    parameters
        Those of the training; each objective reads its own.
    """

    name: ClassVar[str]
    default_metric: ClassVar[str]
    #: The kernel of `hornbeam.kernels.gradients` that fills in its gradients.
    kernel: ClassVar[Callable[..., None]]

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters

    @property
    def n_outputs(self) -> int:
        """Margins of a row; more than one only for softmax, or a caller's gradients."""
        return max(1, self.parameters.num_class)

    def check_labels(self, labels: Floats) -> None:
        """Raise an error if a label is outside the objective's domain."""
        if self.n_outputs > 1:
            raise ParameterError(
                f"num_class={self.n_outputs} goes with the objectives multi:softmax "
                f"and multi:softprob, not with {self.name}; change one of them"
            )

    def estimate_base_score(self, labels: Floats, weights: Floats | None) -> Floats:
        """Return what to predict before the first tree, (outputs,)."""
        columns = self.start_columns(labels, weights)
        return self.start_from(totals_of(columns, len(labels)))

    @abstractmethod
    def start_columns(self, labels: Floats, weights: Floats | None) -> Iterator[Floats]:
        """Yield columns of one value a row, whose totals decide the base score."""

    @abstractmethod
    def start_from(self, totals: Floats) -> Floats:
        """Return the base score from the totals of `start_columns` over all rows."""

    def to_margin(self, base_score: Floats) -> Floats:
        """Return the margins of predictions; the inverse of `transform`."""
        return base_score

    def transform(self, team: Team, margins: NDArray[Any]) -> NDArray[Any]:
        """Return the predictions of margins, (rows, outputs), and may reuse them."""
        return margins

    def to_output(self, team: Team, margins: NDArray[Any]) -> NDArray[Any]:
        """Return what a user gets to see; as `transform` unless said otherwise."""
        return self.transform(team, margins)

    def config(self) -> dict[str, dict[str, str]]:
        """Return the objective's parameters as model files hold them."""
        return {
            "reg_loss_param": {
                "scale_pos_weight": f"{self.parameters.scale_pos_weight:.9g}"
            }
        }

    def write_gradients(
        self,
        team: Team,
        scores: Floats,
        labels: Floats,
        weights: Floats | None,
        gradients: NDArray[np.floating[Any]],
        hessians: NDArray[np.floating[Any]],
    ) -> None:
        """Write the gradients and hessians at `scores`, all (outputs, rows)."""
        members = team.members_for(_CELLS_PER_ROW * scores.size)
        team.run(
            type(self).kernel,
            members,
            scores,
            labels,
            _UNWEIGHTED if weights is None else weights,
            self.parameters.scale_pos_weight,
            gradients,
            hessians,
            np.empty((members, 2, _LANE)),
        )


_OBJECTIVES: dict[str, type[Objective]] = {}

# Objectives of XGBoost 3.2 to come, so that an error can tell "not yet" from a typo.
_LATER = frozenset(
    {
        "binary:hinge",
        "count:poisson",
        "rank:map",
        "rank:ndcg",
        "rank:pairwise",
        "reg:absoluteerror",
        "reg:expectileerror",
        "reg:gamma",
        "reg:pseudohubererror",
        "reg:quantileerror",
        "reg:squaredlogerror",
        "reg:tweedie",
        "survival:aft",
        "survival:cox",
    }
)

AnyObjective = TypeVar("AnyObjective", bound=type[Objective])


def register(objective: AnyObjective) -> AnyObjective:
    """Return `objective`, after entering it in the table under its name."""
    _OBJECTIVES[objective.name] = objective
    return objective


def names() -> list[str]:
    """Return the names of all objectives, in alphabetical order."""
    _load_all()
    return sorted(_OBJECTIVES)


def create(parameters: Parameters) -> Objective:
    """Return the objective that `parameters` name."""
    _load_all()
    name = parameters.objective
    if name in _OBJECTIVES:
        return _OBJECTIVES[name](parameters)
    if name in _LATER:
        raise ParameterError(
            f"objective={name!r} of XGBoost is not in Hornbeam yet; "
            f"there are: {', '.join(names())}"
        )
    near = difflib.get_close_matches(name, names(), 1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(names())}"
    raise ParameterError(f"there is no objective {name!r}; {hint}")


def _load_all() -> None:
    """Import the modules whose classes register themselves."""
    import hornbeam.objectives.classification
    import hornbeam.objectives.regression  # noqa: F401
