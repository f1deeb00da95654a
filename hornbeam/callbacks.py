"""Callbacks: what may watch training, steer it and stop it, as in XGBoost."""

from __future__ import annotations

import os
import pickle
import sys
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TextIO, TypeAlias

from hornbeam.errors import DataError, ParameterError, require
from hornbeam.files import replace_file

if TYPE_CHECKING:
    from hornbeam.boosting.booster import Booster
    from hornbeam.data.dmatrix import DMatrix

__all__ = [
    "CallbackContainer",
    "EarlyStopping",
    "EvaluationMonitor",
    "LearningRateScheduler",
    "ProgressBar",
    "TimeLimit",
    "TrainingCallback",
    "TrainingCheckPoint",
]

#: A score of one round; with its standard deviation where folds were averaged.
Score: TypeAlias = float | tuple[float, float]
#: Scores by data set, then by metric, one a round.
EvalsLog: TypeAlias = dict[str, dict[str, list[Score]]]


class TrainingCallback:
    """Base of every callback; each method may be overridden."""

    EvalsLog: ClassVar[TypeAlias] = EvalsLog

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


class CallbackContainer:
    """The callbacks of one training, and the history of scores that they see.

    Parameters
    ----------
    callbacks
        Run in this order; one that is given twice runs once.
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
                    f"not {_described(callback)}"
                )
        if metric is not None and not callable(metric):
            raise ParameterError(
                f"custom_metric must be a function, not {metric!r}; "
                "name a metric of Hornbeam's in the parameter eval_metric"
            )
        self.callbacks = list(dict.fromkeys(callbacks))
        self.metric = metric
        self.history: EvalsLog = {}
        #: Whether a callback has ended training.
        self.stopped = False
        self._output_margin = output_margin

    def before_training(self, model: Booster) -> Booster:
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
                    "of data and metric; choose another name"
                )
        self._remember(model.measure(evals or (), self.metric, self._output_margin))
        # Every callback sees the round, also the one that ends training.
        stops = [
            callback.after_iteration(model, epoch, self.history)
            for callback in self.callbacks
        ]
        self.stopped = any(stops)
        return self.stopped

    def _remember(self, scores: Sequence[tuple[str, Score]]) -> None:
        """Add scores such as ``("valid-rmse", 0.5)`` to the history."""
        names = [name for name, _ in scores]
        if len(set(names)) < len(names):
            raise DataError(
                f"two scores of a round have the same name among {', '.join(names)}; "
                "give data in evals, and metrics, names of their own"
            )
        for name, score in scores:
            data, _, metric = name.partition("-")
            self.history.setdefault(data, {}).setdefault(metric, []).append(score)


def _returned(callback: TrainingCallback, method: str, model: Booster) -> Booster:
    returned: Booster | None = getattr(callback, method)(model)
    if not isinstance(returned, type(model)):
        raise ParameterError(
            f"{type(callback).__name__}.{method} must return the model, "
            f"not {_described(returned)}"
        )
    return returned


def _described(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__} itself; call it"
    return f"a {type(value).__name__}"


class _BestRound(TrainingCallback):
    """Knows which round was the best so far, and writes it into the model."""

    def __init__(
        self,
        metric_name: str | None,
        data_name: str | None,
        maximize: bool | None,
        save_best: bool,
        min_delta: float,
    ) -> None:
        self.metric_name = metric_name
        self.data = data_name
        self.maximize = maximize
        self.save_best = save_best
        self.min_delta = min_delta
        self._start_over(0)

    def _start_over(self, starting_round: int) -> None:
        self.starting_round = starting_round
        self.stopping_history: EvalsLog = {}
        self.best_iteration: int | None = None
        self.best_score: float | None = None
        self._best: Booster | None = None

    def before_training(self, model: Booster) -> Booster:
        self._start_over(model.num_boosted_rounds())
        return model

    def _look(self, model: Booster, epoch: int, evals_log: EvalsLog) -> bool:
        """Return whether this round is the best so far; then the model knows it."""
        data = _chosen(evals_log, self.data, "data set", "evals")
        metric = _chosen(evals_log[data], self.metric_name, "metric", "eval_metric")
        latest = evals_log[data][metric][-1]
        self.stopping_history.setdefault(data, {}).setdefault(metric, []).append(latest)

        score = _mean(latest)
        if not self._improves(score, metric):
            return False
        self.best_score = score
        self.best_iteration = self.starting_round + epoch
        model.set_attr(
            best_score=str(self.best_score), best_iteration=str(self.best_iteration)
        )
        if self.save_best:
            # Later rounds may change what is there, as DART's do; trees are shared.
            self._best = model.copy()
        return True

    def _improves(self, score: float, metric: str) -> bool:
        if self.best_score is None:
            return True
        maximize = self.maximize
        if maximize is None:
            maximize = _larger_is_better(metric)
        if maximize:
            return score - self.min_delta > self.best_score
        return self.best_score - self.min_delta > score

    def after_training(self, model: Booster) -> Booster:
        return model if self._best is None else self._best


class EarlyStopping(_BestRound):
    """Stop when a metric has not improved for a number of rounds.

    The model gets the attributes ``best_iteration`` and ``best_score``.

    Parameters
    ----------
    rounds
        Rounds without improvement after which training stops.
    metric_name, data_name
        What to watch, as in the history of scores; the last of each if not given.
    maximize
        Whether larger is better; told from the metric's name if not given.
    save_best
        Whether training returns the model up to its best round instead of the last.
    min_delta
        A change that is not larger than this is no improvement.
    """

    def __init__(
        self,
        *,
        rounds: int,
        metric_name: str | None = None,
        data_name: str | None = None,
        maximize: bool | None = None,
        save_best: bool = False,
        min_delta: float = 0.0,
    ) -> None:
        if rounds < 1:
            raise ParameterError(f"rounds of EarlyStopping must be 1 or more: {rounds}")
        if not min_delta >= 0:
            raise ParameterError(
                f"min_delta of EarlyStopping must be 0 or more: {min_delta}"
            )
        self.rounds = rounds
        super().__init__(metric_name, data_name, maximize, save_best, min_delta)

    def _start_over(self, starting_round: int) -> None:
        super()._start_over(starting_round)
        self.current_rounds = 0

    def after_iteration(self, model: Booster, epoch: int, evals_log: EvalsLog) -> bool:
        if not evals_log:
            raise DataError(
                "early stopping needs data to evaluate on: pass evals to train, or "
                "eval_set to fit"
            )
        improved = self._look(model, epoch, evals_log)
        self.current_rounds = 0 if improved else self.current_rounds + 1
        return self.current_rounds >= self.rounds


class TimeLimit(_BestRound):
    """Stop when training has taken as long as it may, and keep the best model so far.

    The first round is always trained. Another one is not begun if it would end too
    late, were it to take as long as the last.

    Parameters
    ----------
    seconds
        How long training may take, from its first round on.
    metric_name, data_name, maximize
        What to watch, as for `EarlyStopping`; without `evals` nothing is.
    save_best
        Whether training returns the model up to its best round instead of the last,
        also where it ends in time.
    """

    def __init__(
        self,
        seconds: float,
        *,
        metric_name: str | None = None,
        data_name: str | None = None,
        maximize: bool | None = None,
        save_best: bool = True,
    ) -> None:
        if not seconds > 0:
            raise ParameterError(f"seconds of TimeLimit must be above 0: {seconds}")
        self.seconds = seconds
        super().__init__(metric_name, data_name, maximize, save_best, 0.0)

    def before_training(self, model: Booster) -> Booster:
        self._started = self._latest = time.monotonic()
        return super().before_training(model)

    def after_iteration(self, model: Booster, epoch: int, evals_log: EvalsLog) -> bool:
        if evals_log:
            self._look(model, epoch, evals_log)
        before, self._latest = self._latest, time.monotonic()
        next_end = self._latest + (self._latest - before)
        return next_end - self._started > self.seconds


def _chosen(log: dict[str, Any], name: str | None, kind: str, source: str) -> str:
    """Return `name` if the log has it, or the last name of the log."""
    if name is None:
        return list(log)[-1]
    if name not in log:
        raise ParameterError(
            f"a callback watches the {kind} {name!r}, which is not among "
            f"{list(log)}; see {source}"
        )
    return name


def _larger_is_better(metric: str) -> bool:
    """Return XGBoost's guess, which serves custom metrics too.

    That of its own interval-regression-accuracy, which is better the larger, is mended.
    """
    larger = ("auc", "pre", "map", "ndcg", "interval-regression-accuracy")
    return metric.startswith(larger) and metric != "mape"


def _mean(score: Score) -> float:
    return score[0] if isinstance(score, tuple) else score


class EvaluationMonitor(TrainingCallback):
    """Print the scores of a round on one line.

    Parameters
    ----------
    rank
        Which worker prints; training has one, so 0.
    period
        Print every so many rounds, and the last.
    show_stdv
        Whether to print the standard deviation over folds, where there is one.
    logger
        Takes the line.
    """

    def __init__(
        self,
        rank: int = 0,
        period: int = 1,
        show_stdv: bool = False,
        logger: Callable[[str], Any] = print,
    ) -> None:
        if rank != 0:
            raise ParameterError(f"rank must be 0, there is one worker: {rank}")
        if period < 1:
            raise ParameterError(
                f"period of EvaluationMonitor must be 1 or more: {period}"
            )
        self.period = period
        self.show_stdv = show_stdv
        self._logger = logger
        self._unprinted: str | None = None

    def before_training(self, model: Booster) -> Booster:
        self._unprinted = None
        return model

    def after_iteration(self, model: Booster, epoch: int, evals_log: EvalsLog) -> bool:
        if not evals_log:
            return False
        line = f"[{epoch}]\t" + "\t".join(_latest(evals_log, self.show_stdv))
        if epoch % self.period == 0:
            self._logger(line)
            self._unprinted = None
        else:
            self._unprinted = line
        return False

    def after_training(self, model: Booster) -> Booster:
        if self._unprinted is not None:
            self._logger(self._unprinted)
        return model


def _latest(evals_log: EvalsLog, show_stdv: bool = False) -> list[str]:
    """Return the scores of the last round, as in ``valid-rmse:0.12345``."""
    texts = []
    for data, metrics in evals_log.items():
        for metric, scores in metrics.items():
            score = scores[-1]
            text = f"{data}-{metric}:{_mean(score):.5f}"
            if show_stdv and isinstance(score, tuple):
                text += f"+{score[1]:.5f}"
            texts.append(text)
    return texts


class LearningRateScheduler(TrainingCallback):
    """Change the learning rate from round to round.

    As in XGBoost the rate of `epoch` is set after that round, and so is the one that
    the next round uses; the first round uses the parameter ``learning_rate``.

    Parameters
    ----------
    learning_rates
        A function of the epoch, or one rate a round.
    """

    def __init__(
        self, learning_rates: Callable[[int], float] | Sequence[float]
    ) -> None:
        if not callable(learning_rates) and not isinstance(learning_rates, Sequence):
            raise ParameterError(
                "learning_rates must be a function of the epoch or a list of rates, "
                f"not {_described(learning_rates)}"
            )
        self.learning_rates = learning_rates

    def after_iteration(self, model: Booster, epoch: int, evals_log: EvalsLog) -> bool:
        model.set_param("learning_rate", self._rate(epoch))
        return False

    def _rate(self, epoch: int) -> float:
        rates = self.learning_rates
        if callable(rates):
            return rates(epoch)
        if epoch >= len(rates):
            raise ParameterError(
                f"learning_rates holds {len(rates)} rates, too few for round {epoch}; "
                "give one a round"
            )
        return rates[epoch]


class TrainingCheckPoint(TrainingCallback):
    """Save the model now and then.

    The file of a round is ``name_round.ubj`` in `directory`.

    Parameters
    ----------
    directory
        Where to save; it has to be there.
    name
        How the files' names begin.
    as_pickle
        Whether to pickle the whole booster, with its parameters, to ``.pkl``.
    interval
        Save after every so many rounds, counted from the first.
    """

    default_format = "ubj"

    def __init__(
        self,
        directory: str | os.PathLike[str],
        name: str = "model",
        as_pickle: bool = False,
        interval: int = 100,
    ) -> None:
        if interval < 1:
            raise ParameterError(
                f"interval of TrainingCheckPoint must be 1 or more: {interval}"
            )
        self._directory = Path(directory)
        self._name = name
        self._as_pickle = as_pickle
        self._interval = interval
        self._start = 0
        #: The file that was saved last.
        self.latest: Path | None = None

    def before_training(self, model: Booster) -> Booster:
        if not self._directory.is_dir():
            raise ParameterError(
                f"checkpoints go to {str(self._directory)!r}, which is no directory; "
                "make it first"
            )
        self._start = model.num_boosted_rounds()
        return model

    def after_iteration(self, model: Booster, epoch: int, evals_log: EvalsLog) -> bool:
        if epoch > 0 and epoch % self._interval == 0:
            ending = "pkl" if self._as_pickle else self.default_format
            path = self._directory / f"{self._name}_{self._start + epoch}.{ending}"
            if self._as_pickle:
                replace_file(path, [pickle.dumps(model)])
            else:
                model.save_model(path)
            self.latest = path
        return False


class ProgressBar(TrainingCallback):
    """Show how far training is, with the latest scores.

    On a terminal it is a bar (and needs the extra ``cli``); elsewhere, such as in a
    pipe or a log, a line every `period` rounds.

    Parameters
    ----------
    rounds
        How many rounds training is asked for; the bar has no end if not given.
    period
        Rounds from one line to the next where there is no terminal; 0 prints none.
    stream
        Where to show it; standard error if not given.
    """

    def __init__(
        self,
        rounds: int | None = None,
        *,
        period: int = 10,
        stream: TextIO | None = None,
    ) -> None:
        if period < 0:
            raise ParameterError(f"period of ProgressBar must be 0 or more: {period}")
        self.rounds = rounds
        self.period = period
        self._stream = stream
        self._show: Callable[[int, str], None] = self._print
        self._stop: Callable[[], Any] = lambda: None
        self._unprinted: tuple[int, str] | None = None

    def before_training(self, model: Booster) -> Booster:
        stream = self._stream or sys.stderr
        self._unprinted = None
        self._show = self._draw(stream) if stream.isatty() else self._print
        return model

    def after_iteration(self, model: Booster, epoch: int, evals_log: EvalsLog) -> bool:
        self._show(epoch + 1, "  ".join(_latest(evals_log)))
        return False

    def after_training(self, model: Booster) -> Booster:
        self._stop()
        if self._unprinted is not None and self.period:
            self._write(*self._unprinted)
        return model

    def break_off(self) -> None:
        # An error in training must not leave the terminal without its cursor.
        self._stop()

    def _print(self, done: int, scores: str) -> None:
        if self.period and (done % self.period == 0 or done == self.rounds):
            self._write(done, scores)
            self._unprinted = None
        else:
            self._unprinted = (done, scores)

    def _write(self, done: int, scores: str) -> None:
        total = f"/{self.rounds}" if self.rounds else ""
        line = f"round {done}{total}  {scores}".rstrip()
        print(line, file=self._stream or sys.stderr, flush=True)

    def _draw(self, stream: TextIO) -> Callable[[int, str], None]:
        """Start a bar on `stream` and return what moves it."""
        require("rich", "cli", "a progress bar")
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        progress = Progress(
            BarColumn(bar_width=12),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[scores]}"),
            console=Console(file=stream),
        )
        task = progress.add_task("training", total=self.rounds, scores="")
        progress.start()
        # Also where somebody else's loop of rounds calls no more.
        self._stop = weakref.finalize(self, progress.stop)

        def show(done: int, scores: str) -> None:
            progress.update(task, completed=done, scores=scores)

        return show
