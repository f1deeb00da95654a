"""Callbacks that print metric values and show progress."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

from hornbeam.callbacks.base import EvalsLog, TrainingCallback, mean_of
from hornbeam.distributed import joined_group
from hornbeam.errors import ErrorCode, ParameterError, require

if TYPE_CHECKING:
    from hornbeam.boosting.booster import Booster

__all__ = ["EvaluationMonitor", "ProgressBar"]


def print_once(line: str) -> None:
    """Print a line; in a group, that of the first process, where the tracker is."""
    group = joined_group()
    if group is None:
        print(line)  # noqa: T201
    elif group.rank == 0:
        group.print(f"{line}\n")


class EvaluationMonitor(TrainingCallback):
    """Print the metric values of a round on one line.

    Parameters
    ----------
    rank
        The worker that prints; training has one, so 0.
    period
        The number of rounds between two lines; the last round is always printed.
    show_stdv
        Whether to print the standard deviation over folds in cross-validation.
    logger
        The function that is called with each line. By default it is printed; in a
        group of processes once, where the tracker is.

    Examples
    --------
    >>> import hornbeam
    >>> from sklearn.datasets import load_diabetes
    >>> data = hornbeam.DMatrix(*load_diabetes(return_X_y=True))
    >>> monitor = hornbeam.EvaluationMonitor(period=5)
    >>> booster = hornbeam.train(
    ...     {},
    ...     data,
    ...     10,
    ...     evals=[(data, "train")],
    ...     callbacks=[monitor],
    ...     verbose_eval=False,
    ... )
    [0]	train-rmse:62.18011
    [5]	train-rmse:30.96880
    [9]	train-rmse:23.40625
    """

    def __init__(
        self,
        rank: int = 0,
        period: int = 1,
        show_stdv: bool = False,
        logger: Callable[[str], Any] = print_once,
    ) -> None:
        if rank != 0:
            raise ParameterError(
                f"rank must be 0, since there is one worker: {rank}",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
        if period < 1:
            raise ParameterError(
                f"period of EvaluationMonitor must be 1 or more: {period}",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
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


class ProgressBar(TrainingCallback):
    """Show the progress of training, with the latest metric values.

    On a terminal it is a bar (and needs the extra ``cli``); elsewhere, such as in a
    pipe or a log, a line every `period` rounds.

    Parameters
    ----------
    rounds
        The number of rounds of the training; without it the bar has no end.
    period
        The number of rounds between two lines without a terminal; 0 prints none.
    stream
        The output; standard error if not given.
    unit
        The name of a round in lines.

    Examples
    --------
    >>> import hornbeam
    >>> from sklearn.datasets import load_diabetes
    >>> data = hornbeam.DMatrix(*load_diabetes(return_X_y=True))
    >>> booster = hornbeam.train({}, data, 50, callbacks=[hornbeam.ProgressBar()])
    """

    def __init__(
        self,
        rounds: int | None = None,
        *,
        period: int = 10,
        stream: TextIO | None = None,
        unit: str = "round",
    ) -> None:
        if period < 0:
            raise ParameterError(
                f"period of ProgressBar must be 0 or more: {period}",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
        self.rounds = rounds
        self.period = period
        self.unit = unit
        self._stream = stream
        self._show: Callable[[int, str], None] = self._print
        self._stop: Callable[[], Any] = lambda: None
        self._unprinted: tuple[int, str] | None = None

    def begin(self) -> None:
        """Start to show progress, at 0 rounds."""
        stream = self._stream or sys.stderr
        self._unprinted = None
        self._show = self._draw(stream) if stream.isatty() else self._print

    def show(self, done: int, evals_log: EvalsLog) -> None:
        """Show the number of rounds that are done, and the latest metric values."""
        self._show(done, "  ".join(_latest(evals_log)))

    def end(self) -> None:
        """Show the last round, and stop the bar."""
        self._stop()
        if self._unprinted is not None and self.period:
            self._write(*self._unprinted)

    def before_training(self, model: Booster) -> Booster:
        self.begin()
        return model

    def after_iteration(self, model: Booster, epoch: int, evals_log: EvalsLog) -> bool:
        self.show(epoch + 1, evals_log)
        return False

    def after_training(self, model: Booster) -> Booster:
        self.end()
        return model

    def break_off(self) -> None:
        # The bar hides the cursor of the terminal, and restores it when it stops.
        self._stop()

    def _print(self, done: int, scores: str) -> None:
        if self.period and (done % self.period == 0 or done == self.rounds):
            self._write(done, scores)
            self._unprinted = None
        else:
            self._unprinted = (done, scores)

    def _write(self, done: int, scores: str) -> None:
        total = f"/{self.rounds}" if self.rounds else ""
        line = f"{self.unit} {done}{total}  {scores}".rstrip()
        print(line, file=self._stream or sys.stderr, flush=True)

    def _draw(self, stream: TextIO) -> Callable[[int, str], None]:
        """Start a bar on `stream`, and return the function that updates it."""
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
        # Also stops the bar if a caller's own training loop ends early.
        self._stop = weakref.finalize(self, progress.stop)

        def show(done: int, scores: str) -> None:
            progress.update(task, completed=done, scores=scores)

        return show


def _latest(evals_log: EvalsLog, show_stdv: bool = False) -> list[str]:
    """Return the metric values of the last round, as in ``valid-rmse:0.12345``."""
    texts = []
    for data, metrics in evals_log.items():
        for metric, scores in metrics.items():
            score = scores[-1]
            text = f"{data}-{metric}:{mean_of(score):.5f}"
            if show_stdv and isinstance(score, tuple):
                text += f"+{score[1]:.5f}"
            texts.append(text)
    return texts
