"""The base class of objectives, and their registry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.meta_info import MetaInfo
from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.kernels.gradient_writer import GradientWriter
from hornbeam.kernels.gradients import LossRows
from hornbeam.kernels.team import Team
from hornbeam.objectives.config import ConfigGroup, spelled
from hornbeam.objectives.totals import totals_of
from hornbeam.params import Parameters

__all__ = [
    "REACH_OF_LOGARITHMS",
    "Floats",
    "Link",
    "Objective",
    "Prediction",
    "Task",
    "register",
]

Floats = NDArray[np.float64]
Arrays = Mapping[str, NDArray[np.float32]]

#: The `reach` of objectives whose margins are logarithms: the Newton step from even
#: odds for rows of one class.
REACH_OF_LOGARITHMS = 2.0


#: The kind of problem that an objective solves.
Task: TypeAlias = Literal[
    "regression",
    "quantiles",
    "binary",
    "classes",
    "ranking",
    "survival",
    "distribution",
]


#: What predictions are: probabilities of classes, classes, margins, or other values.
Prediction: TypeAlias = Literal["probability", "class", "margin", "value"]


class Link(NamedTuple):
    """The function from margins to predictions, for exported models.

    Attributes
    ----------
    name
        A name of `hornbeam.export.links.FORMULAS`.
    number
        The parameter of the formula: gamma of the focal loss, or the index of the first
        distribution parameter whose margin is its logarithm.
    """

    name: str
    number: float = 0.0


class Objective(ABC):
    """A loss of margins and labels.

    A class declares `name`, `task` and `config_group`, and its instances have `link`
    and `default_metric`; nothing else in the package lists objectives.

    Parameters
    ----------
    parameters
        The training parameters; each objective reads its own.
    """

    name: ClassVar[str]
    #: The kind of problem; reports choose their metrics and plots by it.
    task: ClassVar[Task]
    #: The parameters of the objective that model files hold.
    config_group: ClassVar[ConfigGroup]
    #: Parameters of the fits by which `hornbeam.warmup` compiles the kernels of a class
    #: that a program registered.
    warm_up_cases: ClassVar[tuple[Mapping[str, Any], ...]] = ({},)
    #: What `to_output` returns.
    prediction: ClassVar[Prediction] = "value"
    #: Whether `class_probabilities` returns probabilities.
    has_probabilities: ClassVar[bool] = False
    #: The link to the probabilities of classes in models of classifiers, where it is
    #: not `link`.
    probability_link: ClassVar[Link | None] = None
    #: Whether the most probable class is that of the largest margin; of one margin
    #: whether it is the second class where the margin is above 0.
    is_argmax: ClassVar[bool] = True
    #: The kernel of `hornbeam.kernels.gradients` that computes the gradients.
    kernel: Callable[..., None]
    #: Whether the gradients of a row depend on the margins, targets and weight of that
    #: row only. Then `write_gradients` computes them on the worker that has the rows;
    #: otherwise `gradients` computes them from all rows.
    by_row: bool = True
    #: The largest magnitude of a leaf value in the line search for the least loss,
    #: which has no minimum for rows of one class if margins are logarithms. None: the
    #: gradients are not the derivatives of a loss per row, so there is no line search.
    reach: ClassVar[float | None] = None
    #: Whether one Newton step reaches the minimum of the loss.
    is_quadratic: ClassVar[bool] = False
    #: Whether labels may have several columns, each a target with its output.
    many_targets: ClassVar[bool] = False

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        #: Arrays that a round updates for the next ones, by their names in model
        #: files; and their values after the round of the last `gradients`.
        self.state: Arrays = {}
        self.next_state: Arrays = {}
        #: Labels, and the targets that they were rounded to.
        self._rounded: tuple[NDArray[Any], Floats] | None = None

    @property
    def margin_names(self) -> list[str]:
        """Names of the margins; empty if they are those of classes or outputs."""
        return []

    @property
    @abstractmethod
    def default_metric(self) -> str:
        """The metric that is evaluated if eval_metric is not given."""

    @property
    @abstractmethod
    def link(self) -> Link:
        """The link from margins to predictions in exported models."""

    @property
    def n_outputs(self) -> int:
        """The number of margins of a row; by default one for each target or class."""
        return max(self.parameters.num_class, self.parameters.num_target)

    # Targets

    def targets_of(self, info: MetaInfo) -> Floats:
        """Return the targets of the loss, (columns, rows) float64.

        Parameters
        ----------
        info
            The meta info of the rows.

        Raises
        ------
        DataError
            If a field that the objective needs is missing.
        """
        labels = info["label"]
        if labels is None:
            raise DataError(
                "the training data has no labels; pass them: DMatrix(data, label)",
                code=ErrorCode.LABEL_MISSING,
            )
        columns = 1 if labels.ndim == 1 else labels.shape[1]
        targets = np.ascontiguousarray(labels.T).reshape(columns, info.n_rows)
        if len(targets) > 1 and not self.many_targets:
            raise DataError(
                f"the labels have {len(targets)} columns, and {self.name} supports one "
                "target; train a model for each",
                code=ErrorCode.LABEL_TARGETS_MISMATCH,
            )
        if self.parameters.margin_type == "float32":
            if self._rounded is None or self._rounded[0] is not labels:
                self._rounded = labels, self._round(targets)
            return self._rounded[1]
        return targets

    def _round(self, targets: Floats) -> Floats:
        """Return the targets rounded to float32."""
        with np.errstate(over="ignore"):
            rounded = targets.astype(np.float32).astype(np.float64)
        for labels, own in zip(targets, rounded, strict=True):
            self.refuse(
                labels,
                np.isinf(own),
                "is beyond the range of float32; scale the labels down",
                ErrorCode.LABEL_NOT_FINITE,
            )
        return rounded

    def check_targets(self, targets: Floats) -> None:
        """Raise a DataError if a target is outside the domain of the objective."""
        for labels in targets:
            self.check_labels(labels)

    def check_labels(self, labels: Floats) -> None:
        """Raise a DataError if a label, (rows,), is outside the domain."""
        if self.parameters.num_class > 1:
            raise ParameterError(
                f"num_class={self.parameters.num_class} is for the objectives "
                f"multi:softmax and multi:softprob, not for {self.name}; change one "
                "of them",
                code=ErrorCode.CONFLICTING_PARAMETERS,
            )

    def refuse(
        self,
        labels: Floats,
        wrong: NDArray[np.bool_],
        need: str,
        code: ErrorCode = ErrorCode.LABEL_OUT_OF_DOMAIN,
    ) -> None:
        """Raise a DataError that shows the first wrong label, if there is one."""
        rows = np.flatnonzero(wrong)
        if rows.size > 0:
            row = int(rows[0])
            raise DataError(f"label {labels[row]:g} in row {row} {need}", code=code)

    # The base score

    def estimate_base_score(self, targets: Floats, weights: Floats | None) -> Floats:
        """Return the prediction before the first tree, (outputs,)."""
        columns = self.start_columns(targets, weights)
        return self.start_from(totals_of(columns, targets.shape[1]))

    def start_columns(
        self, targets: Floats, weights: Floats | None
    ) -> Iterator[Floats]:
        """Yield columns, (rows,) each, whose sums determine the base score.

        Objectives that are not `by_row` may override `estimate_base_score` instead.
        """
        raise NotImplementedError

    def start_from(self, totals: Floats) -> Floats:
        """Return the base score from the sums of `start_columns` over all rows."""
        raise NotImplementedError

    def to_margin(self, base_score: Floats) -> Floats:
        """Return the margins of predictions, the inverse of `transform`."""
        return base_score

    def transform(self, team: Team, margins: NDArray[Any]) -> NDArray[Any]:
        """Return the predictions of margins, (rows, outputs); may overwrite them."""
        return margins

    def to_output(self, team: Team, margins: NDArray[Any]) -> NDArray[Any]:
        """Return the predictions for users; by default those of `transform`."""
        return self.transform(team, margins)

    def class_probabilities(self, team: Team, margins: NDArray[Any]) -> NDArray[Any]:
        """Return the class probabilities of margins, (rows, outputs).

        Only objectives with `has_probabilities` have them. The margins may be
        overwritten.
        """
        return self.transform(team, margins)

    def config(self) -> dict[str, dict[str, str]]:
        """Return the parameters of the objective as text, in their group."""
        group, names, _ = self.config_group
        if not names:
            return {}
        return {
            group: {name: spelled(getattr(self.parameters, name)) for name in names}
        }

    @classmethod
    def warm_up_fields(cls, classes: NDArray[Any]) -> dict[str, Any]:
        """Return the fields of a `DMatrix` for a warm-up fit.

        Parameters
        ----------
        classes
            (rows,): integers from 0, below the number of classes.
        """
        return {"label": classes}

    def known(self, state: Arrays) -> Arrays:
        """Return the arrays of a model's state that belong to this objective."""
        return {name: state[name] for name in self.config_group.state if name in state}

    # Gradients

    @property
    def numbers(self) -> tuple[float, ...]:
        """The scalar arguments of the kernel, of which `positive_weight` is first."""
        return (self.positive_weight,)

    @cached_property
    def kernel_numbers(self) -> Floats:
        """The `numbers` as the kernel takes them."""
        return np.array(self.numbers, np.float64)

    @property
    def leaf_levels(self) -> tuple[float, ...] | None:
        """The level of each output, if quantiles of residuals minimise the loss."""
        return None

    @property
    def positive_weight(self) -> float:
        """The factor on the weight of rows with label 1."""
        takes_it = "scale_pos_weight" in self.config_group.parameters
        return self.parameters.scale_pos_weight if takes_it else 1.0

    def gradients(
        self, team: Team, margins: Floats, info: MetaInfo, iteration: int
    ) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]:
        """Return gradients and hessians at `margins`, all (outputs, rows).

        Objectives that are not `by_row` implement it.

        Parameters
        ----------
        team
            The threads.
        margins
            The margins of all rows.
        info
            The meta info of all rows.
        iteration
            The number of rounds of the model.
        """
        raise NotImplementedError

    def write_gradients(self, rows: LossRows, writer: GradientWriter) -> Floats:
        """Write gradients and hessians of the rows to the arrays of the writer.

        The rows may be any part of the data. Leaf values that they lack are added to
        their margins first.

        Returns
        -------
        (outputs, 2) float64: the largest |g| and |h|. Infinite or NaN where one is.
        """
        return writer.write(self.kernel, rows, self.kernel_numbers)


OBJECTIVES: dict[str, type[Objective]] = {}
#: The attributes without a default that a class has to declare.
_DECLARED = ("name", "task", "config_group", "link", "default_metric")

AnyObjective = TypeVar("AnyObjective", bound=type[Objective])


def register(objective: AnyObjective) -> AnyObjective:
    """Return `objective`, after entering it in the registry under its name."""
    missing = [name for name in _DECLARED if not hasattr(objective, name)]
    if missing:
        raise TypeError(f"{objective.__name__} does not declare {', '.join(missing)}")
    OBJECTIVES[objective.name] = objective
    return objective
