"""The base class of metrics, and their registry."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from hornbeam.data.meta_info import MetaInfo
from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.params import Parameters

__all__ = [
    "Floats",
    "Metric",
    "number_after_at",
    "register",
]

Floats = npt.NDArray[np.float64]

#: The weights that kernels take if rows have no weights.
UNWEIGHTED: Floats = np.empty(0)


class Metric(ABC):
    """Base of metrics, which compare predictions with labels.

    Parameters
    ----------
    parameter
        The text after the ``@`` in the metric's name, None without one.
    n_outputs
        The number of outputs of a prediction: 1, or the number of classes.
    settings
        The training parameters, for metrics of a loss that has parameters.

    Attributes
    ----------
    name
        The name under which values are reported.
    maximize
        Whether larger values are better; early stopping reads it.
    is_root
        Whether the metric is the square root of a mean loss.
    needs
        The fields of the meta info that the metric requires.
    many_targets
        Whether labels may have several columns, each with a prediction.
    takes_minus
        Whether the name may end in ``-``, which is then part of the parameter.
    """

    #: The name before an ``@``.
    base_name: ClassVar[str]
    maximize: ClassVar[bool] = False
    is_root: ClassVar[bool] = False
    needs: ClassVar[tuple[str, ...]] = ("label",)
    many_targets: ClassVar[bool] = False
    takes_minus: ClassVar[bool] = False

    def __init__(
        self,
        parameter: str | None = None,
        n_outputs: int = 1,
        settings: Parameters | None = None,
    ) -> None:
        self.name: str = self.base_name
        self.n_outputs = n_outputs
        self.settings = Parameters() if settings is None else settings
        self.take(parameter)

    def take(self, parameter: str | None) -> None:
        """Read the text after the ``@``; raise a ParameterError if it is not valid."""
        if parameter is not None:
            raise ParameterError(
                f"the metric {self.base_name!r} takes no parameter; "
                f"drop the '@{parameter}'",
                code=ErrorCode.INVALID_METRIC_PARAMETER,
            )

    def of(self, predictions: Floats, info: MetaInfo) -> float:
        """Return the metric of predictions for the rows of `info`."""
        labels = info["label"]
        assert labels is not None
        return self(predictions, labels, info.row_weights)

    def __call__(
        self, predictions: Floats, labels: Floats, weights: Floats | None = None
    ) -> float:
        """Return the metric of predictions, which are not margins.

        Parameters
        ----------
        predictions
            (rows,) or (rows, outputs), contiguous.
        labels
            (rows,) or (rows, targets).
        weights
            (rows,); None: all rows have weight 1.
        """
        self.check_rows(predictions, labels)
        if weights is None:
            weights = UNWEIGHTED
        elif len(weights) != len(labels):
            raise DataError(
                f"{self.name} got {len(weights)} weights for {len(labels)} labels; "
                f"give one weight for each label",
                code=ErrorCode.EVALUATION_SIZE_MISMATCH,
            )
        return float(self.measure(predictions, labels, weights))

    def check_rows(self, predictions: Floats, labels: Floats) -> None:
        """Raise an error unless labels and predictions have rows, as many of each."""
        n_rows = len(labels)
        if n_rows == 0:
            raise DataError(
                f"{self.name} is not defined for 0 rows; give it rows",
                code=ErrorCode.EMPTY_DATA,
            )
        if labels.ndim > 1 and labels.shape[1] > 1:
            self._check_targets(predictions, labels.shape[1])
        if len(predictions) != n_rows:
            raise DataError(
                f"{self.name} got {len(predictions)} predictions for {n_rows} labels; "
                f"give one prediction for each label",
                code=ErrorCode.EVALUATION_SIZE_MISMATCH,
            )

    def _check_targets(self, predictions: Floats, n_targets: int) -> None:
        if not self.many_targets:
            raise DataError(
                f"{self.name} is a metric of one label per row, and there are "
                f"{n_targets}; choose another eval_metric",
                code=ErrorCode.METRIC_OBJECTIVE_MISMATCH,
            )
        outputs = 1 if predictions.ndim == 1 else predictions.shape[1]
        if outputs != n_targets:
            raise DataError(
                f"the labels have {n_targets} columns, and predictions {outputs}; "
                "measure against the targets that the model learned",
                code=ErrorCode.METRIC_OBJECTIVE_MISMATCH,
            )

    @abstractmethod
    def measure(self, predictions: Floats, labels: Floats, weights: Floats) -> float:
        """Return the metric; `weights` is empty if all rows have weight 1."""


def number_after_at(base_name: str, parameter: str | None, example: str) -> float:
    """Return the number in a metric's name, such as 0.7 of ``error@0.7``."""
    try:
        number = float(parameter or "")
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        given = base_name if parameter is None else f"{base_name}@{parameter}"
        raise ParameterError(
            f"eval_metric {given!r} needs a number after the '@', "
            f"such as '{base_name}@{example}'",
            code=ErrorCode.INVALID_METRIC_PARAMETER,
        )
    return number


METRICS: dict[str, type[Metric]] = {}

AnyMetric = TypeVar("AnyMetric", bound=type[Metric])


def register(metric: AnyMetric) -> AnyMetric:
    """Return `metric`, after entering it in the registry under its `base_name`."""
    METRICS[metric.base_name] = metric
    return metric
