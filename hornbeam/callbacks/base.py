"""The base class of callbacks, and the container that calls them."""

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
    "latest_scores",
    "mean_of",
]

#: The value of a metric in a round; in cross-validation mean and standard deviation.
Score: TypeAlias = float | tuple[float, float]
#: Metric values by data set, then by metric, one per round.
EvalsLog: TypeAlias = dict[str, dict[str, list[Score]]]


class TrainingCallback:
    """Base of all callbacks; subclasses override the methods that they need.

    Examples
    --------
    >>> import hornbeam
    >>> import numpy as np
    >>> class StopAt(hornbeam.TrainingCallback):
    ...     def after_iteration(self, model, epoch, evals_log):
    ...         return evals_log["train"]["rmse"][-1] < 0.1  # True ends the training
    ...
    >>> X = np.random.default_rng(0).random((500, 3))
    >>> data = hornbeam.DMatrix(X, X @ [1, 2, 3])
    >>> booster = hornbeam.train(
    ...     {},
    ...     data,
    ...     100,
    ...     evals=[(data, "train")],
    ...     callbacks=[StopAt()],
    ...     verbose_eval=False,
    ... )
    >>> booster.num_boosted_rounds()
    9
    """

    EvalsLog: ClassVar[TypeAlias] = EvalsLog
    #: Whether it runs after other callbacks, because it stores their state.
    runs_last: ClassVar[bool] = False

    def join(self, container: CallbackContainer) -> None:
        """Receive the container of the training; called before all other methods."""
        return

    def before_training(self, model: Booster) -> Booster:
        """Run before the first round, and return the model to train."""
        return model

    def after_training(self, model: Booster) -> Booster:
        """Run after the last round, and return the model that training returns."""
        return model

    def before_iteration(self, model: Booster, epoch: int, evals_log: EvalsLog) -> bool:
        """Run before a round, and return True to stop training."""
        return False

    def after_iteration(self, model: Booster, epoch: int, evals_log: EvalsLog) -> bool:
        """Run after a round, and return True to stop training.

        Parameters
        ----------
        model
            The model after the round.
        epoch
            The index of the round, from 0 in this call of training.
        evals_log
            The metric values of all rounds: ``{"valid": {"rmse": [0.5, 0.4]}}``.
        """
        return False

    def break_off(self) -> None:
        """Run instead of `after_training` if an exception ends training."""
        return

    def state(self) -> Any:
        """Return the state that a checkpoint stores for `resume`, as JSON values."""
        return None

    def resume(self, model: Booster, state: Any) -> None:
        """Restore the `state` that a checkpoint stored.

        Called after `before_training`, in a training that resumes from a checkpoint.
        """
        return


class CallbackContainer:
    """The callbacks of a training, and the history of metric values.

    Parameters
    ----------
    callbacks
        The callbacks in the order of their calls; those with `runs_last` are moved to
        the end, and duplicates are removed.
    metric
        A custom metric, evaluated in addition to eval_metric.
    output_margin
        Whether the custom metric takes margins instead of predictions.
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
        #: Whether a callback has stopped training.
        self.stopped = False
        #: The first epoch; above 0 if training resumes from a checkpoint.
        self.first_epoch = 0
        #: Whether the objective or the metric is a function of margins.
        self.output_margin = output_margin
        #: The training data, set in the first round.
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
        """Return whether a callback stops training; those after it are not called."""
        self.dtrain = dtrain
        for callback in self.callbacks:
            if callback.before_iteration(model, epoch, self.history):
                self.stopped = True
                break
        return self.stopped

    def after_iteration(
        self,
        model: Booster,
        epoch: int,
        dtrain: DMatrix,
        evals: Sequence[tuple[DMatrix, str]] | None,
    ) -> bool:
        """Evaluate the round, then return whether a callback stops training."""
        for _, name in evals or ():
            if "-" in name:
                raise DataError(
                    f"the name {name!r} in evals contains '-', which separates the "
                    "names of data and metric; choose another name",
                    code=ErrorCode.INVALID_EVALS,
                )
        scores = model.measure(evals or (), self.metric, self.output_margin)
        if scores:
            self._remember(scores)
        if self.callbacks:
            self.stopped |= self._ask_all(model, epoch)
        return self.stopped

    def _ask_all(self, model: Booster, epoch: int) -> bool:
        """Return whether a callback stops training; all are called in every round."""
        asked = [c.after_iteration(model, epoch, self.history) for c in self.callbacks]
        return any(asked)

    def state(self) -> dict[str, Any]:
        """Return the state for `resume`, as JSON values."""
        states = [[type(c).__name__, c.state()] for c in self.callbacks]
        return {
            "history": self.history,
            "stopped": self.stopped,
            "callbacks": states,
        }

    def resume(self, model: Booster, epoch: int, state: dict[str, Any]) -> None:
        """Restore the `state` of a training after this epoch.

        The states of callbacks are matched by class, in their order.
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
        """Add values such as ``("valid-rmse", 0.5)`` to the history."""
        names = [name for name, _ in scores]
        if len(set(names)) < len(names):
            raise DataError(
                f"two metric values of a round have the same name: {', '.join(names)}; "
                "give data in evals, and metrics, distinct names",
                code=ErrorCode.INVALID_EVALS,
            )
        for name, score in scores:
            data, _, metric = name.partition("-")
            self.history.setdefault(data, {}).setdefault(metric, []).append(score)


def _returned(callback: TrainingCallback, method: str, model: Booster) -> Booster:
    # By name, as XGBoost does.
    returned: Booster | None = getattr(callback, method)(model=model)
    if not isinstance(returned, type(model)):
        raise ParameterError(
            f"{type(callback).__name__}.{method} must return the model, "
            f"not {described(returned)}",
            code=ErrorCode.INVALID_CALLBACK,
        )
    return returned


def described(value: object) -> str:
    """Return the type of a value that is not a callback, for messages."""
    if isinstance(value, type):
        return f"the class {value.__name__} itself; call it"
    return f"a {type(value).__name__}"


def latest_scores(evals_log: EvalsLog) -> dict[str, Score]:
    """Return the scores of the last round, by names such as ``"valid-rmse"``."""
    return {
        f"{data}-{metric}": scores[-1]
        for data, metrics in evals_log.items()
        for metric, scores in metrics.items()
    }


def mean_of(score: Score) -> float:
    """Return a metric value, without the standard deviation over folds."""
    return score[0] if isinstance(score, tuple) else score
