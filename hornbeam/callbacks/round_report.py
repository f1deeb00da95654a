"""Callbacks that report metrics and checkpoints of each round to an engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hornbeam.boosting.booster import Booster
from hornbeam.callbacks.base import EvalsLog, TrainingCallback, latest_scores, mean_of
from hornbeam.distributed import joined_group
from hornbeam.errors import ErrorCode, ParameterError

__all__ = ["RoundReport"]


class RoundReport(TrainingCallback):
    """Report each round to an engine.

    Parameters
    ----------
    metrics
        Which metrics to report, such as ``"valid-rmse"``: one, several, or a mapping of
        names to report to metrics; None: all.
    filename
        Of the model in a checkpoint; its ending is the format.
    frequency
        The number of rounds between two checkpoints; 0: none before the end.
    checkpoint_at_end
        Whether the model that training returns is a checkpoint, too.
    results_postprocessing_fn
        A function of the metrics of a round that returns those to report.
    """

    CHECKPOINT_NAME = "model.ubj"
    runs_last = True
    #: Reports a dict of metrics, and perhaps a ``checkpoint``.
    _report: Callable[..., None]
    #: Makes a checkpoint of a folder, whose path its method ``as_directory`` gives.
    _checkpoint: Callable[[str], Any]

    def __init__(
        self,
        metrics: str | Sequence[str] | Mapping[str, str] | None = None,
        filename: str = CHECKPOINT_NAME,
        frequency: int = 0,
        checkpoint_at_end: bool = True,
        results_postprocessing_fn: Callable[[dict[str, float]], dict[str, Any]]
        | None = None,
    ) -> None:
        if frequency < 0:
            raise ParameterError(
                f"frequency must be 0 or more, not {frequency}",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
        names = [metrics] if isinstance(metrics, str) else metrics
        if names is not None and not isinstance(names, Mapping):
            names = {name: name for name in names}
        self._names = names
        self._filename = filename
        self._frequency = frequency
        self._checkpoint_at_end = checkpoint_at_end
        self._postprocess = results_postprocessing_fn
        self._latest: dict[str, Any] = {}
        #: The rounds of the model, if it was saved after the last one.
        self._saved: int | None = None

    @classmethod
    def get_model(cls, checkpoint: Any, filename: str = CHECKPOINT_NAME) -> Booster:
        """Return the model of a checkpoint."""
        with checkpoint.as_directory() as folder:
            return Booster(model_file=os.path.join(folder, filename))

    def after_iteration(self, model: Booster, epoch: int, evals_log: EvalsLog) -> bool:
        self._latest = self._chosen(evals_log)
        is_saved = self._frequency > 0 and (epoch + 1) % self._frequency == 0
        self._saved = model.num_boosted_rounds() if is_saved else None
        self._send(model if is_saved else None)
        return False

    def after_training(self, model: Booster) -> Booster:
        # Early stopping may return another model than that of the last round.
        if self._checkpoint_at_end and model.num_boosted_rounds() != self._saved:
            self._send(model)
        return model

    def _send(self, model: Booster | None) -> None:
        """Report the latest metrics, and a model as a checkpoint."""
        group = joined_group()
        if model is None or (group is not None and group.rank > 0):
            self._report(self._latest)
            return
        with TemporaryDirectory() as folder:
            model.save_model(Path(folder, self._filename))
            self._report(self._latest, checkpoint=self._checkpoint(folder))

    def _chosen(self, evals_log: EvalsLog) -> dict[str, Any]:
        latest = latest_scores(evals_log)
        found: dict[str, Any] = {name: mean_of(one) for name, one in latest.items()}
        for name in (self._names or {}).values():
            if name not in found:
                raise ParameterError(
                    f"a callback is to report the metric {name!r}, and there are "
                    f"{list(found)}; see evals and eval_metric",
                    code=ErrorCode.UNKNOWN_EVAL_METRIC,
                    name=name,
                )
        if self._names is not None:
            found = {shown: found[name] for shown, name in self._names.items()}
        return found if self._postprocess is None else self._postprocess(found)
