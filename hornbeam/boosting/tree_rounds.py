"""Rounds of new trees, with or without dropout of old ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

import numpy as np

from hornbeam.backends.interface import GradientRows
from hornbeam.boosting.dart import contributions_in
from hornbeam.boosting.gbtree import boost_round
from hornbeam.boosting.line_search import LineSearch
from hornbeam.boosting.margin_cache import TrainingSession
from hornbeam.boosting.rounds import Rounds
from hornbeam.boosting.tree_methods import prepare
from hornbeam.data.dmatrix import DMatrix
from hornbeam.errors import ErrorCode, ParameterError

if TYPE_CHECKING:
    from hornbeam.boosting.learner import Learner

__all__ = ["TreeRounds"]


class TreeRounds(Rounds):
    """Rounds of booster=gbtree and of booster=dart."""

    @contextmanager
    def lend(
        self, learner: Learner, data: DMatrix, estimate: bool
    ) -> Iterator[GradientRows]:
        by_line = learner.params.leaf_solver == "line_search"
        if by_line and not estimate:
            raise ParameterError(
                "leaf_solver='line_search' needs the loss itself, and these are "
                "gradients of your own; pass the objective as formulas "
                "(docs/custom-objectives.md), or leave leaf_solver out",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )
        session = _training_session(learner, data, estimate)
        aligned, model = learner._aligned(data), learner.model
        dropout = learner._next_dropout()
        weights, known = model.weights, len(model.trees)
        try:
            if dropout is not None:
                learner._follow(session, aligned, dropout.during(weights))
            yield session.backend
            with ExitStack() as stack:
                constants = None
                if by_line:
                    search = stack.enter_context(closing(_search(learner, session)))
                    constants = search.constants
                boost_round(
                    session.backend,
                    session.cuts,
                    learner.params,
                    model,
                    aligned.feature_weights,
                    contributions_in(dropout, session.scale),
                    constants,
                )
        except BaseException:
            # Some trees of the round may be in the margins, and none in the model.
            learner._sessions.pop(data, None)
            session.close()
            raise
        if dropout is None:
            session.weights = model.weights
        else:
            model.tree_weights = dropout.after(weights, len(model.trees) - known)
            session.weights = np.concatenate(
                [session.weights, model.tree_weights[known:]]
            )
            learner._rescale(session, aligned, model.trees[known:])
        learner._end_round()


def _search(learner: Learner, session: TrainingSession) -> LineSearch:
    """Return the search for leaves from the margins that the round begins with."""
    assert session.targets is not None
    return LineSearch(
        learner.objective,
        session.targets,
        session.row_weights,
        session.backend.margins(),
        learner.params,
    )


def _training_session(
    learner: Learner, data: DMatrix, estimate: bool
) -> TrainingSession:
    """Return the rows of `data` ready for another round of trees."""
    aligned = learner._aligned(data)
    session = learner._sessions.get(data)
    by_row = estimate and learner.objective.by_row
    if (
        isinstance(session, TrainingSession)
        and session.weights.size == len(learner.model.trees)
        and session.suits(data, learner.params, by_row)
    ):
        return session
    targets = learner._targets_of(data) if estimate else None
    # Rows that cannot be binned are found before they have changed the model.
    prepared = prepare(aligned, learner.params)
    if not learner.model.trees:
        learner._begin_model(data, targets)
        learner.model.exact_features = not prepared.is_float32
    session = TrainingSession(
        aligned,
        prepared,
        targets if by_row else None,
        learner.params,
        *learner._margins_of(aligned),
    )
    learner._sessions[data] = session
    return session
