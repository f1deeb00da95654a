"""The step of boosting: gradients, new trees, model, margins.

The modules of boosters other than trees are imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hornbeam.backends.interface import GradientRows
from hornbeam.boosting.gbtree import Dart, GBTree
from hornbeam.boosting.gradient_booster import GradientBooster, Round
from hornbeam.boosting.learner import Learner
from hornbeam.boosting.margin_cache import MarginCache
from hornbeam.boosting.predictor import Predictor
from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.forest.model import Model
from hornbeam.kernels.team import lease
from hornbeam.params import Parameters

if TYPE_CHECKING:
    from hornbeam.boosting.refresh import Revision

__all__ = ["Trainer"]


class Trainer:
    """Adds rounds to the model of a learner.

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
        self._booster: GradientBooster = self._create(GBTree)

    def step(
        self, data: Any, set_gradients: Callable[[GradientRows], None] | None = None
    ) -> None:
        """Add one round to the model.

        Parameters
        ----------
        data
            The training matrix.
        set_gradients
            Sets custom gradients on the training rows; None: the gradients are those
            of the objective.
        """
        if set_gradients is not None:
            self._check_custom_gradients()
        current = self._booster.new_round(data, use_objective=set_gradients is None)
        try:
            current.begin()
            if set_gradients is None:
                self._compute_gradients(current)
            else:
                set_gradients(current.rows)
            current.grow()
            current.update_model()
            current.update_margins()
        except BaseException:
            current.abort()
            raise
        current.close()

    def steps(self, data: Any, rounds: int) -> None:
        """Add rounds of the objective to the model, at once where they are alike."""
        while rounds > 0:
            self.step(data)
            rounds -= 1
            if rounds > 1:
                rounds -= self._booster.add_rounds(data, rounds)

    def _compute_gradients(self, current: Round) -> None:
        """Compute the gradients of the objective at the margins of the rows."""
        learner, rows = self._learner, current.rows
        objective = learner.objective
        if learner.params.leaf_solver == "line_search":
            from hornbeam.boosting.line_search import PseudoResiduals

            rows.compute_gradients(PseudoResiduals(objective))
        elif objective.by_row:
            rows.compute_gradients(objective)
        else:
            with lease(learner.params.nthread) as team:
                pair = objective.gradients(
                    team, rows.margins(), current.info, learner.model.n_rounds
                )
            rows.set_gradients(*pair)

    def _check_custom_gradients(self) -> None:
        """Raise a `ParameterError` where leaves need the loss itself."""
        if self._learner.params.leaf_solver == "line_search":
            raise ParameterError(
                "leaf_solver='line_search' needs the loss itself, not only its "
                "gradients; pass the objective as formulas "
                "(docs/custom-objectives.md), or leave leaf_solver out",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )

    def configure(self) -> None:
        """Use the booster that the parameters select; the present one if it is that."""
        kind = _booster_type(self._learner.params)
        if type(self._booster) is not kind:
            self._booster = self._create(kind)

    def restart(self) -> None:
        """Forget the rounds of another model."""
        self._booster = self._create(GBTree)

    def resume(self, before: Model) -> None:
        """Continue from a checkpoint of the training that began with model `before`."""
        self._booster = self._booster.resumed(before)

    def refresh(self, grown: Model, revision: Revision) -> None:
        """Update the trees of the model `grown` by this revision from now on."""
        from hornbeam.boosting.refresh import Refresh

        parts = self._learner, self._predictor, self._cache
        self._booster = Refresh(*parts, grown, revision)

    def clear(self) -> None:
        """Drop training data, margins and trees laid out for prediction."""
        self._cache.clear()
        self._booster.clear()
        self._predictor.clear()

    def _create(self, kind: type[GradientBooster]) -> GradientBooster:
        return kind(self._learner, self._predictor, self._cache)


def _booster_type(parameters: Parameters) -> type[GradientBooster]:
    if parameters.booster == "gblinear":
        from hornbeam.boosting.gblinear import GBLinear

        return GBLinear
    if parameters.process_type == "update":
        from hornbeam.boosting.refresh import Refresh

        return Refresh
    return Dart if parameters.booster == "dart" else GBTree
