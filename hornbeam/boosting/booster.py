"""The model as a user holds it: it trains, predicts, is saved and loaded."""

from __future__ import annotations

import importlib
import operator
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hornbeam.backends.interface import GradientRows
from hornbeam.boosting.custom import (
    ObjectiveFunction,
    set_gradients,
    set_gradients_of,
)
from hornbeam.boosting.learner import Learner
from hornbeam.boosting.line_search import PseudoResiduals
from hornbeam.boosting.out_of_bag import check_out_of_bag, out_of_bag_improvement
from hornbeam.boosting.prediction import squeezed
from hornbeam.boosting.refresh import Revision
from hornbeam.boosting.sync_model import settings_of
from hornbeam.boosting.update_rounds import UpdateRounds
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.meta_info import MetaInfo
from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.forest.model import Model, merge_models
from hornbeam.forest.model_file import decode, encode, load
from hornbeam.forest.tree import Tree
from hornbeam.kernels.team import lease
from hornbeam.objectives.compiled import ScalarLoss
from hornbeam.params import Parameters, ParameterSource

__all__ = ["Booster", "merge"]


class Booster(Learner):
    """Gradient boosted trees with their parameters.

    Parameters
    ----------
    params
        Parameters of training, as a mapping or as pairs of name and value.
    cache
        Taken for XGBoost's sake: matrices that training will use.
    model_file
        A model to begin with: a path, the bytes of a file, or another booster.
    """

    def __init__(
        self,
        params: ParameterSource | None = None,
        cache: Sequence[DMatrix] | None = None,
        model_file: Booster | str | os.PathLike[str] | bytes | bytearray | None = None,
    ) -> None:
        for data in cache or ():
            if not isinstance(data, DMatrix):
                raise DataError(
                    f"cache must hold DMatrix objects, not {type(data).__name__}",
                    code=ErrorCode.NOT_A_DMATRIX,
                )
        self._begin(Parameters.resolve(params))
        if isinstance(model_file, Booster):
            self._take(model_file.model.copy(), model_file.params, model_file._loss)
            self.set_param(params or {})
        elif model_file is not None:
            self.load_model(model_file)
            self.set_param(params or {})
        else:
            self._configure(self.params, None)
            if cache:
                self._take_columns(cache[0])

    # Training

    @classmethod
    def of_trees(
        cls, trees: Sequence[Tree], data: DMatrix, params: ParameterSource
    ) -> Booster:
        """Return a booster of one round of trees that were grown by other means.

        Parameters
        ----------
        trees
            Those of the round, in the order of outputs.
        data
            What they were grown on, for the names and types of its columns.
        params
            Parameters that make such a round; `base_score` is among them.
        """
        booster = cls(params)
        booster._take_columns(data)
        per_output = max(1, len(trees) // booster.params.num_parallel_tree)
        outputs = np.repeat(np.arange(per_output), len(trees) // per_output).tolist()
        booster.model.append_round(trees, outputs, np.ones(len(trees), np.float32))
        return booster

    def update(
        self,
        dtrain: DMatrix,
        iteration: int,
        fobj: ObjectiveFunction | ScalarLoss | None = None,
    ) -> None:
        """Add one round of trees.

        Parameters
        ----------
        dtrain
            Data with labels.
        iteration
            Number of the round in the caller's count; it changes nothing.
        fobj
            An objective of your own, instead of the parameter's: formulas, or a
            function of (predictions, data) that returns gradients and hessians, each
            (rows,) or (rows, outputs). In trees of all outputs the leaves are weighed
            by these, and splits are searched by them, too, unless two more follow,
            of fewer columns or as many.
        """
        fobj = self._function_in(fobj)
        with self._rounds.lend(self, dtrain, estimate=fobj is None) as rows:
            if fobj is None:
                self._compute_gradients(rows, dtrain.info)
            else:
                margins = squeezed(np.ascontiguousarray(rows.margins().T))
                set_gradients_of(rows, fobj, margins, dtrain)

    def _function_in(
        self, own: ObjectiveFunction | ScalarLoss | None
    ) -> ObjectiveFunction | None:
        """Return an objective that is a function; take one that is formulas."""
        if isinstance(own, ScalarLoss):
            self.set_objective(own)
            return None
        return own

    def _compute_gradients(self, backend: GradientRows, info: MetaInfo | None) -> None:
        """Have the backend take new gradients, where `info` is of all its rows.

        It is not needed where each row has all that its gradient needs.
        """
        if self.params.leaf_solver == "line_search":
            backend.compute_gradients(PseudoResiduals(self.objective))
            return
        if self.objective.by_row:
            backend.compute_gradients(self.objective)
            return
        assert info is not None
        with lease(self.params.nthread) as team:
            pair = self.objective.gradients(
                team, backend.margins(), info, self.model.n_rounds
            )
        backend.set_gradients(*pair)

    def check_out_of_bag(self) -> None:
        """Raise a `ParameterError` unless `out_of_bag_improvement` has an answer."""
        check_out_of_bag(self)

    def out_of_bag_improvement(self, dtrain: DMatrix) -> float:
        """Return by how much the last round lowered the loss of rows it has not seen.

        Those are the rows of `dtrain` that none of the trees of the round was grown on,
        as `subsample` drew them; the loss is their mean one. `OutOfBag` notes it for
        all rounds.
        """
        self._need_model()
        return out_of_bag_improvement(self, dtrain)

    def boost(
        self,
        dtrain: DMatrix,
        iteration: int,
        *,
        grad: Any = None,
        hess: Any = None,
        fobj: ObjectiveFunction | None = None,
    ) -> None:
        """Add one round of trees from your own gradients and hessians.

        Parameters
        ----------
        dtrain
            Data; its labels are not looked at.
        iteration
            Number of the round in the caller's count; it changes nothing.
        grad, hess
            (rows,) or (rows, outputs).
        fobj
            A function that gives both, instead.
        """
        if fobj is not None:
            if grad is not None or hess is not None:
                raise ParameterError(
                    "give either fobj, or grad and hess, not both",
                    code=ErrorCode.CONFLICTING_PARAMETERS,
                )
            self.update(dtrain, iteration, fobj)
            return
        with self._rounds.lend(self, dtrain, estimate=False) as rows:
            set_gradients(rows, grad, hess)

    def load_model(self, fname: str | os.PathLike[str] | bytes | bytearray) -> None:
        """Replace this model by that of a file, or of the bytes of one."""
        model = _read(fname)
        self._take(model, settings_of(model, self.params), None)

    def resume(
        self, model_file: Booster | str | os.PathLike[str] | bytes | bytearray
    ) -> None:
        """Go on from a checkpoint of the training that this booster was made for.

        The parameters stay, and so do the formulas of an objective, and the model
        whose rounds are updated with process_type='update'.

        Parameters
        ----------
        model_file
            A path, the bytes of a file, or another booster.
        """
        if isinstance(model_file, Booster):
            model = model_file.model.copy()
        else:
            model = _read(model_file)
        parameters = self.params
        if self.objective.many_targets:
            parameters = parameters.updated({"num_target": model.num_target})
        self._take(model, parameters, self._loss, self._rounds.resumed(self.model))

    def refit(self, data: DMatrix, decay: float = 0.9) -> Booster:
        """Return a booster of the same trees with leaf values for other data.

        Round after round each leaf value becomes `decay` times the old one and the rest
        times the one that the rows of `data` would give it now. Leaves that no row
        falls into keep theirs. The learning rate is that of the parameters, which
        files do not hold.

        Parameters
        ----------
        data
            With labels.
        decay
            The share of the old values, from 0 to 1.
        """
        self._need_model()
        if not 0.0 <= decay <= 1.0:
            raise ParameterError(
                f"decay must be from 0 to 1, not {decay!r}",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
        if self.model.linear is not None:
            raise ParameterError(
                "a linear model has no leaves to refit; train it on with xgb_model",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )
        if self.params.leaf_solver != "newton":
            raise ParameterError(
                "refit gives leaves a step of Newton's, and leaf_solver is "
                f"{self.params.leaf_solver!r}; set_param('leaf_solver', 'newton') "
                "first",
                code=ErrorCode.CONFLICTING_PARAMETERS,
            )
        fitted = self.copy()
        fitted.set_param({"process_type": "update", "updater": "refresh"})
        revision = replace(Revision.by(fitted.params), decay=decay)
        rounds = UpdateRounds(self.model, revision)
        fitted.model = self.model.without_rounds()
        for _ in range(self.model.n_rounds):
            with rounds.lend(fitted, data, estimate=True) as rows:
                fitted._compute_gradients(rows, data.info)
        fitted.model.attributes = dict(self.model.attributes)
        fitted._configure(self.params, self._loss)
        return fitted.reset()

    def report(
        self,
        data: DMatrix,
        train: DMatrix | None = None,
        *,
        path: str | os.PathLike[str] | None = None,
        evals_result: Mapping[str, Mapping[str, Sequence[float]]] | None = None,
        class_names: Sequence[str] | None = None,
        title: str | None = None,
        rows: int | None = None,
        seed: int = 0,
    ) -> str | os.PathLike[str]:
        """Return a report of this model on data: HTML, or the path of its file.

        It tells what the data was, how good the model is and with which certainty, what
        it goes by, where it is worst, and what is odd, and it has the trees to click
        through. The page needs nothing beside itself. It takes the extra ``report``.

        Parameters
        ----------
        data
            Rows with labels to judge the model by, best ones that it has not seen.
        train
            What it was trained on, to compare with.
        path
            Where to write the page, as a whole or not at all. None: it is returned.
        evals_result
            What `train` has noted of the metrics after each round, to be drawn, too.
        class_names
            A name for each class or output.
        title
            Of the page.
        rows
            The most rows of each data to look at, 400,000 if None.
        seed
            Of all draws. The same model, data and seed give the same page.
        """
        # From a room above, and so by its name: nothing here needs it but this.
        reporting = importlib.import_module("hornbeam.explain.report")
        return reporting.report(
            self,
            data,
            train,
            path=path,
            evals_result=evals_result,
            class_names=class_names,
            title=title,
            rows=rows,
            seed=seed,
        )

    def copy(self) -> Booster:
        """Return a booster of the same model that goes its own way."""
        return Booster(model_file=self)

    def __copy__(self) -> Booster:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Booster:
        return self.copy()

    def __getstate__(self) -> dict[str, Any]:
        return {
            "params": self.params.changed(),
            "model": encode(self.model, "ubj"),
            "loss": self._loss,
        }

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]
        parameters = Parameters.resolve(state["params"])
        self._take(decode(state["model"]), parameters, state["loss"])

    def __getitem__(self, rounds: int | slice) -> Booster:
        """Return a booster of some rounds; it shares their trees."""
        n_rounds = self.model.n_rounds
        if isinstance(rounds, slice):
            if rounds.step is not None and operator.index(rounds.step) < 1:
                raise IndexError(f"the step is {rounds.step}; give 1 or more")
            begin, end, step = rounds.indices(n_rounds)
        else:
            number = operator.index(rounds)
            begin = number + n_rounds if number < 0 else number
            end, step = begin + 1, 1
        part = self.copy()
        part.model = self.model.slice(begin, end, step)
        return part

    def __add__(self, other: Booster) -> Booster:
        """Return a booster of the rounds of both; see `merge`."""
        if not isinstance(other, Booster):
            return NotImplemented
        return merge([self, other])

    def __iter__(self) -> Iterator[Booster]:
        for number in range(self.model.n_rounds):
            yield self[number]


def merge(boosters: Sequence[Booster]) -> Booster:
    """Return a booster of the rounds of all boosters, one after the other.

    Its margins are those of the first, and what the others add to their base score. So
    all must have the same base score, and the same columns, objective and outputs. Of
    their parameters and attributes it has the first's.
    """
    if not boosters or not all(isinstance(part, Booster) for part in boosters):
        raise ParameterError(
            "merge takes a list of boosters, one at least",
            code=ErrorCode.INVALID_PARAMETER_TYPE,
        )
    merged = boosters[0].copy()
    merged.model = merge_models([part.model for part in boosters])
    if merged.model.tree_weights is not None:
        merged.set_param("booster", "dart")
    return merged


def _read(source: str | os.PathLike[str] | bytes | bytearray) -> Model:
    """Return the model of a file, or of the bytes of one."""
    if isinstance(source, bytes | bytearray):
        return decode(source)
    if isinstance(source, str | os.PathLike):
        return load(source)
    raise ParameterError(
        "a model comes from a path, the bytes of a model file, or a Booster, not from "
        f"{source!r}",
        code=ErrorCode.NOT_A_MODEL,
    )
