"""Metrics between rounds, and the out-of-bag improvement of a round."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.row_numbers import RowNumbers
from hornbeam.boosting.custom import MetricFunction, metric_pairs
from hornbeam.boosting.gbtree import row_sample
from hornbeam.boosting.learner import Learner
from hornbeam.boosting.margin_cache import MarginCache
from hornbeam.boosting.predictor import Predictor
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.meta_info import MetaInfo
from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.kernels.team import Team, lease
from hornbeam.metrics.base import Metric
from hornbeam.metrics.registry import create as create_metric
from hornbeam.params import Parameters

__all__ = ["Evaluator"]


class Evaluator:
    """Evaluates the model of a learner on data whose margins are cached.

    Parameters
    ----------
    learner, predictor
        Of the model.
    cache
        The margins of its matrices.
    """

    def __init__(
        self, learner: Learner, predictor: Predictor, cache: MarginCache
    ) -> None:
        self._learner, self._predictor, self._cache = learner, predictor, cache

    def measure(
        self,
        evals: Sequence[tuple[Any, str]],
        feval: MetricFunction | None,
        output_margin: bool,
    ) -> list[tuple[str, float]]:
        """Return what `Booster.measure` documents."""
        metrics = self._learner.metrics
        scores = []
        for data, name in evals:
            margins, labelled = self._cache.margins(data), self._cache.labelled(data)
            for field in dict.fromkeys(f for m in metrics for f in m.needs):
                if labelled.info[field] is None:
                    raise DataError(
                        f"the data {name!r} in evals has no {field}s to measure "
                        f"against; pass them: DMatrix(data, {field}=...)",
                        code=ErrorCode.EVAL_LABEL_MISSING
                        if field == "label"
                        else ErrorCode.META_INFO_MISSING,
                    )
            custom = margins if feval is None else margins.copy()
            values = self._values(data, self._predictor.transform(margins), labelled)
            for metric, value in zip(metrics, values, strict=True):
                scores.append((f"{name}-{metric.name}", value))
            if feval is not None:
                result = feval(self._predictor.output(custom, output_margin), labelled)
                for metric_name, value in self._custom_values(result):
                    scores.append((f"{name}-{metric_name}", value))
        return scores

    def _values(
        self, data: Any, predictions: NDArray[np.float64], labelled: Any
    ) -> list[float]:
        """Return the values of all metrics for the predictions of `data`."""
        return self._values_of(predictions, labelled.info)

    def _values_of(
        self, predictions: NDArray[np.float64], info: MetaInfo
    ) -> list[float]:
        """Return the values of all metrics for the predictions of these rows.

        Rows with keys are summed in the order of these: then the last bits do not
        depend on the order of the rows. Those of query groups stay together.
        """
        if info.row_key is not None and info.group_ptr is None:
            order, info = info.by_key()
            predictions = predictions[order]
        with warnings.catch_warnings():
            if self._learner.params.verbosity == 0:
                warnings.simplefilter("ignore")
            return [metric.of(predictions, info) for metric in self._learner.metrics]

    def _custom_values(self, result: Any) -> Iterable[tuple[str, float]]:
        """Return the names and values in the result of a custom metric."""
        return metric_pairs(result)

    def predictions(self, data: Any) -> NDArray[np.float64]:
        """Return predictions as metrics take them; see `Predictor.transform`."""
        return self._predictor.transform(self._cache.margins(data))

    # Out-of-bag rows: the loss of rows that the trees of a round were not grown on is
    # an honest estimate of what the round improves (Friedman 2002; Ridgeway's gbm).

    def check_out_of_bag(self) -> None:
        """Raise a `ParameterError` if no rows are out of the bag, or have no loss."""
        p = self._learner.params
        without = {
            "subsample": p.subsample == 1.0,
            "sampling_method": p.sampling_method != "uniform",
            "booster": p.booster != "gbtree",
            "process_type": p.process_type != "default",
        }
        for name, is_without in without.items():
            if is_without:
                raise ParameterError(
                    "out-of-bag rows are those that a uniform sample leaves out of new "
                    f"trees, and there are none with {name}={getattr(p, name)!r}; set "
                    "subsample below 1, with booster='gbtree'",
                    code=ErrorCode.UNSUPPORTED_COMBINATION,
                )
        if self._loss_metric().maximize:
            raise ParameterError(
                f"{self._learner.objective.name} has no loss of single rows to "
                "evaluate out of the bag; evaluate on other data, with evals",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )

    def out_of_bag_improvement(self, data: Any) -> float:
        """Return how far the last round lowered the mean loss of out-of-bag rows.

        0 if there are no such rows.
        """
        if not isinstance(data, DMatrix):
            raise DataError(
                "out-of-bag rows are evaluated on one machine only; train with "
                "hornbeam.train on a DMatrix",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )
        self.check_out_of_bag()
        learner = self._learner
        begin, end = learner.model.round_starts[-2:]
        with lease(learner.params.nthread) as team:
            numbers = RowNumbers(data.n_rows, keys=data.info.row_key)
            drawn = _drawn_rows(team, learner.params, range(begin, end), numbers)
        rows = np.flatnonzero(drawn == 0)
        if rows.size == 0:
            return 0.0
        info = data.info.take(rows)
        before, after = self._cache.margins_of_last_round(data)
        return self._loss(before[rows], info) - self._loss(after[rows], info)

    def _loss_metric(self) -> Metric:
        objective = self._learner.objective
        name, outputs = objective.default_metric, objective.n_outputs
        return create_metric(name, outputs, self._learner.params)

    def _loss(self, margins: NDArray[np.float64], info: MetaInfo) -> float:
        """Return the mean loss: the default metric of the objective without a root."""
        metric = self._loss_metric()
        value = metric.of(self._predictor.transform(margins), info)
        return value * value if metric.is_root else value


def _drawn_rows(
    team: Team, parameters: Parameters, trees: range, numbers: RowNumbers
) -> NDArray[np.uint8]:
    """Return 1 for each row, (rows,), that was drawn for any of these trees."""
    samples = [row_sample(parameters, tree) for tree in trees]
    drawn = [numbers.draw(team, own.limit, own.key) for own in samples if own]
    return np.bitwise_or.reduce(drawn)
