"""What a round gains for the rows that its trees were not grown on.

The loss of such rows before and after the round is an honest estimate of what the round
is worth (Friedman 2002; Ridgeway's gbm): none of its trees has seen them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hornbeam.boosting.gbtree import sample_of
from hornbeam.boosting.prediction import squeezed
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.meta_info import MetaInfo
from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.kernels.sampling import draw_rows
from hornbeam.kernels.team import Team, lease
from hornbeam.metrics.base import Metric
from hornbeam.metrics.base import create as create_metric
from hornbeam.params import Parameters

if TYPE_CHECKING:
    from hornbeam.boosting.learner import Learner

__all__ = ["check_out_of_bag", "out_of_bag_improvement"]

#: The cost of drawing a row, in cells of a histogram.
_CELLS_PER_ROW = 8


def check_out_of_bag(learner: Learner) -> None:
    """Raise a `ParameterError` where no rows are left out, or have no loss."""
    p = learner.params
    without = {
        "subsample": p.subsample == 1.0,
        "sampling_method": p.sampling_method != "uniform",
        "booster": p.booster != "gbtree",
        "process_type": p.process_type != "default",
    }
    for name, is_without in without.items():
        if is_without:
            raise ParameterError(
                "rows out of the bag are those that uniform samples leave out of new "
                f"trees, and there are none with {name}={getattr(p, name)!r}; set "
                "subsample below 1, with booster='gbtree'",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )
    if _metric(learner).maximize:
        raise ParameterError(
            f"{learner.objective.name} has no loss of single rows to look at out of "
            "the bag; measure on data of its own, by evals",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )


def out_of_bag_improvement(learner: Learner, data: DMatrix) -> float:
    """Return by how much the last round lowered the mean loss of rows it left out.

    0 if it left out none.
    """
    if not isinstance(data, DMatrix):
        raise DataError(
            "rows out of the bag are looked at on one machine; train with "
            "hornbeam.train on a DMatrix",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )
    check_out_of_bag(learner)
    model = learner.model
    begin, end = model.round_starts[-2:]
    with lease(learner.params.nthread) as team:
        taken = _drawn(team, learner.params, range(begin, end), data.n_rows)
    rows = np.flatnonzero(taken == 0)
    if rows.size == 0:
        return 0.0
    info = data.info.take(rows)
    before, after = learner.margins_of_last_round(data)
    return _loss(learner, before[rows], info) - _loss(learner, after[rows], info)


def _drawn(
    team: Team, parameters: Parameters, trees: range, n_rows: int
) -> NDArray[np.uint8]:
    """Return whether each row was drawn for any of these trees."""
    taken = np.zeros(n_rows, np.uint8)
    members = team.members_for(_CELLS_PER_ROW * n_rows)
    for tree in trees:
        sample = sample_of(parameters, tree)
        assert sample is not None
        own = np.empty(n_rows, np.uint8)
        team.run(draw_rows, members, 0, sample.limit, sample.key, own)
        taken |= own
    return taken


def _metric(learner: Learner) -> Metric:
    objective = learner.objective
    name, outputs = objective.default_metric, objective.n_outputs
    return create_metric(name, outputs, learner.params)


def _loss(learner: Learner, margins: NDArray[np.float64], info: MetaInfo) -> float:
    """Return the mean loss, which is the objective's metric without a root."""
    metric = _metric(learner)
    with lease(learner.params.nthread) as team:
        predictions = learner.objective.transform(team, margins)
    value = metric.of(squeezed(predictions), info)
    return value * value if metric.is_root else value
