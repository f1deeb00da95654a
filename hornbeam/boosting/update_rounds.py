"""Rounds that a model has already, revised one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import numpy as np

from hornbeam.backends.factory import create_leaf_rows
from hornbeam.backends.interface import GradientRows
from hornbeam.boosting.prediction import leaves_of
from hornbeam.boosting.refresh import Revision
from hornbeam.boosting.rounds import Rounds
from hornbeam.data.dmatrix import DMatrix
from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.forest.layout import Layout
from hornbeam.forest.model import Model
from hornbeam.forest.tree import Tree
from hornbeam.kernels.team import lease

if TYPE_CHECKING:
    from hornbeam.boosting.learner import Learner

__all__ = ["UpdateRounds"]


class UpdateRounds(Rounds):
    """Rounds of process_type=update, and of `refit`.

    Parameters
    ----------
    grown
        The model whose rounds are revised; None: the learner's own, which then goes on
        as it was before its first round.
    revision
        How; None: as the parameters say.
    """

    def __init__(
        self, grown: Model | None = None, revision: Revision | None = None
    ) -> None:
        self._grown, self._revision = grown, revision

    def resumed(self, begun: Model) -> UpdateRounds:
        return UpdateRounds(self._grown or begun, self._revision)

    @contextmanager
    def lend(
        self, learner: Learner, data: DMatrix, estimate: bool
    ) -> Iterator[GradientRows]:
        if self._grown is None:
            self._grown = self._taken_back(learner)
        grown, model = self._grown, learner.model
        number = model.n_rounds
        if number == grown.n_rounds:
            raise ParameterError(
                f"all {number} rounds of the model have been updated; lower "
                "num_boost_round",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
        aligned, session = learner._aligned(data), learner._session(data)
        targets = np.empty((1, 0))
        if estimate:
            targets = learner.objective.targets_of(data.info)
            learner.objective.check_targets(targets)
            if learner.objective.many_targets and len(targets) != model.n_outputs:
                raise DataError(
                    f"the labels have {len(targets)} columns, but the model has "
                    f"{model.n_outputs} targets; give a column for each",
                    code=ErrorCode.LABEL_TARGETS_MISMATCH,
                )
        rows = create_leaf_rows(
            targets,
            data.row_weights,
            np.ascontiguousarray(session.margins().T),
            threads=learner.params.nthread,
        )
        revision = self._revision or Revision.by(learner.params)
        with closing(rows):
            yield rows
            begin, end = grown.round_starts[number : number + 2]
            kind = learner._feature_type(data.dtype)
            trees, outputs = grown.trees[begin:end], grown.tree_output[begin:end]
            layout = Layout.of(trees, outputs, kind, grown.num_feature)
            with lease(learner.params.nthread) as team:
                leaves = leaves_of(team, aligned, layout).astype(np.uint32)
            revised = [
                revision.of(tree, rows.sums(_outputs(tree, first), nodes, tree.n_nodes))
                for tree, first, nodes in zip(trees, outputs, leaves.T, strict=True)
            ]
        model.append_round(revised, outputs, grown.weights[begin:end])
        learner._layouts.clear()

    def _taken_back(self, learner: Learner) -> Model:
        """Return the learner's model, which goes on as before its first round."""
        grown = learner.model
        if not grown.trees:
            raise ParameterError(
                "process_type='update' updates the rounds of a model, and there are "
                "none; pass the model as xgb_model",
                code=ErrorCode.MISSING_PARAMETER,
            )
        learner.model = grown.without_rounds()
        learner.reset()
        return grown


def _outputs(tree: Tree, first: int) -> range:
    """Return the outputs that a tree has values for."""
    return range(first, first + tree.leaf_size)
