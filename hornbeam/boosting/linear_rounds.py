"""Rounds of the linear model: each moves its weights."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import numpy as np

from hornbeam.backends.factory import create_linear_rows
from hornbeam.backends.interface import GradientRows
from hornbeam.binning.layout import SparseColumns
from hornbeam.boosting.gblinear import (
    begin_linear,
    check_features,
    descend_round,
    fill_columns,
)
from hornbeam.boosting.rounds import Rounds
from hornbeam.data.dmatrix import DMatrix
from hornbeam.objectives.totals import totals_of

if TYPE_CHECKING:
    from hornbeam.boosting.learner import Learner

__all__ = ["LinearRounds"]


class LinearRounds(Rounds):
    """Rounds of booster=gblinear."""

    def __init__(self) -> None:
        self._columns: weakref.WeakKeyDictionary[DMatrix, SparseColumns] = (
            weakref.WeakKeyDictionary()
        )

    def let_go(self) -> None:
        self._columns.clear()

    @contextmanager
    def lend(
        self, learner: Learner, data: DMatrix, estimate: bool
    ) -> Iterator[GradientRows]:
        check_features(data)
        aligned = learner._aligned(data)
        columns = self._columns.get(data)
        if columns is None:
            columns = self._columns[data] = fill_columns(aligned.table)
        targets = learner._targets_of(data) if estimate else None
        model = learner.model
        if model.n_rounds == 0:
            learner._begin_model(data, targets)
            model.exact_features = data.dtype == np.float64
            model.linear = begin_linear(learner._base(), data.n_features)
            model.base_score = np.full_like(model.base_score, model.base_score[0])
        rows = create_linear_rows(
            columns,
            np.empty((1, 0)) if targets is None else targets,
            data.row_weights,
            np.ascontiguousarray(learner._margins_of(aligned)[0].T),
            threads=learner.params.nthread,
        )
        with closing(rows):
            yield rows
            total = float(data.n_rows)
            if data.row_weights is not None:
                total = float(totals_of([data.row_weights], data.n_rows)[0])
            assert model.linear is not None
            model.linear = descend_round(rows, learner.params, model.linear, total)
