"""What a callback is, and how a training calls all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from hornbeam.errors import DataError, ErrorCode, ParameterError

if TYPE_CHECKING:
    from hornbeam.boosting.booster import Booster
    from hornbeam.data.dmatrix import DMatrix

__all__ = [
    "CallbackContainer",
    "EvalsLog",
    "Score",
    "TrainingCallback",
    "described",
    "mean_of",
]

#: A score of one round; with its standard deviation where folds were averaged.
Score: TypeAlias = float | tuple[float, float]
#: Scores by data set, then by metric, one a round.
EvalsLog: TypeAlias = dict[str, dict[str, list[Score]]]


class TrainingCallback:
    """Base of every callback; each method may be overridden."""

    EvalsLog: ClassVar[TypeAlias] = EvalsLog
    #: Whether it runs after those that do not say so, because it keeps what they know.
    runs_last: ClassVar[bool] = False

    def join(self, container: CallbackContainer) -> None:
        """Learn, before all else, of the training that it is a part of."""
        return

    def before_training(self, model: Booster) -> Booster:
        """Run before the first round; return the model to train."""
        return model

    def after_training(self, model: Booster) -> Booster:
        """Run after the last round; return the model that training gives back."""
        return model

    def before_iteration(self, model: Booster, epoch: int, evals_log: EvalsLog) -> bool:
        """Run before a round; return True to stop training."""
        return False

    def after_iteration(self, model: Booster, epoch: int, evals_log: EvalsLog) -> bool:
        """Run after a round; return True to stop training.

        Parameters
        ----------
        model
            The model so far.
        epoch
            The round, counted from 0 in this call of training.
        evals_log
            The scores so far: ``{"valid": {"rmse": [0.5, 0.4]}}``.
        """
        return False

    def break_off(self) -> None:
        """Run in place of `after_training` where an error ends training."""
        return

    def state(self) -> Any:
        """Return what a checkpoint has to hold for `resume`, such that JSON can."""
        return None

    def resume(self, model: Booster, state: Any) -> None:
        """Go on after the round in which `state` was asked for.

        Runs after `before_training`, in the training that goes on from a checkpoint.
        """
        return


class CallbackContainer:
    """The callbacks of one training, and the history of scores that they see.

    Parameters
    ----------
    callbacks
        Run in this order, checkpoints at last; one that is given twice runs once.
    metric
        A custom metric, evaluated beside the named ones.
    output_margin
        Whether the custom metric gets margins instead of predictions.
    """

    def __init__(
        self,
        callbacks: Sequence[TrainingCallback],
        metric: Callable[..., Any] | None = None,
        output_margin: bool = True,
    ) -> None:
        for callback in callbacks:
            if not isinstance(callback, TrainingCallback):
                raise ParameterError(
                    "a callback must be an instance of TrainingCallback, "
                    f"not {described(callback)}",
                    code=ErrorCode.INVALID_CALLBACK,
                )
        if metric is not None and not callable(metric):
            raise ParameterError(
                f"custom_metric must be a function, not {metric!r}; "
                "name a metric of Hornbeam's in the parameter eval_metric",
                code=ErrorCode.INVALID_CUSTOM_METRIC,
            )
        once = dict.fromkeys(callbacks)
        self.callbacks = sorted(once, key=lambda callback: callback.runs_last)
        self.metric = metric
        self.history: EvalsLog = {}
        #: Whether a callback has ended training.
        self.stopped = False
        #: The epoch that training begins with: not 0 if it goes on from a checkpoint.
        self.first_epoch = 0
        #: Whether the objective is a function of margins, or the metric is one.
        self.output_margin = output_margin
        #: What is trained on, once there is a round.
        self.dtrain: Any = None

    def before_training(self, model: Booster) -> Booster:
        for callback in self.callbacks:
            callback.join(self)
        for callback in self.callbacks:
            model = _returned(callback, "before_training", model)
        return model

    def after_training(self, model: Booster) -> Booster:
        for callback in self.callbacks:
            model = _returned(callback, "after_training", model)
        return model

    def break_off(self) -> None:
        for callback in self.callbacks:
            callback.break_off()

    def before_iteration(
        self,
        model: Booster,
        epoch: int,
        dtrain: DMatrix,
        evals: Sequence[tuple[DMatrix, str]] | None,
    ) -> bool:
        """Return whether a callback asks to stop; those after it are not asked."""
        self.dtrain = dtrain
        self.stopped = any(
            callback.before_iteration(model, epoch, self.history)
            for callback in self.callbacks
        )
        return self.stopped

    def after_iteration(
        self,
        model: Booster,
        epoch: int,
        dtrain: DMatrix,
        evals: Sequence[tuple[DMatrix, str]] | None,
    ) -> bool:
        """Evaluate the round, then return whether a callback asks to stop."""
        for _, name in evals or ():
            if "-" in name:
                raise DataError(
                    f"the name {name!r} in evals holds '-', which separates the names "
                    "of data and metric; choose another name",
                    code=ErrorCode.INVALID_EVALS,
                )
        self._remember(model.measure(evals or (), self.metric, self.output_margin))
        self.stopped |= self._ask_all(model, epoch)
        return self.stopped

    def _ask_all(self, model: Booster, epoch: int) -> bool:
        """Return whether a callback asks to stop; each sees also the last round."""
        asked = [c.after_iteration(model, epoch, self.history) for c in self.callbacks]
        return any(asked)

    def state(self) -> dict[str, Any]:
        """Return what `resume` needs, which JSON can hold."""
        states = [[type(c).__name__, c.state()] for c in self.callbacks]
        return {
            "history": self.history,
            "stopped": self.stopped,
            "callbacks": states,
        }

    def resume(self, model: Booster, epoch: int, state: dict[str, Any]) -> None:
        """Go on after this epoch of a training, of which this was the `state`.

        States go to the callbacks of the same class, in their order.
        """
        self.first_epoch = epoch + 1
        self.history.update(state["history"])
        self.stopped = state["stopped"]
        left = list(state["callbacks"])
        for callback in self.callbacks:
            names = [name for name, _ in left]
            if type(callback).__name__ in names:
                _, own = left.pop(names.index(type(callback).__name__))
                callback.resume(model, own)

    def _remember(self, scores: Sequence[tuple[str, Score]]) -> None:
        """Add scores such as ``("valid-rmse", 0.5)`` to the history."""
        names = [name for name, _ in scores]
        if len(set(names)) < len(names):
            raise DataError(
                f"two scores of a round have the same name among {', '.join(names)}; "
                "give data in evals, and metrics, names of their own",
                code=ErrorCode.INVALID_EVALS,
            )
        for name, score in scores:
            data, _, metric = name.partition("-")
            self.history.setdefault(data, {}).setdefault(metric, []).append(score)


def _returned(callback: TrainingCallback, method: str, model: Booster) -> Booster:
    returned: Booster | None = getattr(callback, method)(model)
    if not isinstance(returned, type(model)):
        raise ParameterError(
            f"{type(callback).__name__}.{method} must return the model, "
            f"not {described(returned)}",
            code=ErrorCode.INVALID_CALLBACK,
        )
    return returned


def described(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__} itself; call it"
    return f"a {type(value).__name__}"


def mean_of(score: Score) -> float:
    return score[0] if isinstance(score, tuple) else score
