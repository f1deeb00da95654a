"""The callback that logs a training to MLflow."""

from __future__ import annotations

import re
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from hornbeam.callbacks.base import (
    CallbackContainer,
    EvalsLog,
    TrainingCallback,
    latest_scores,
    mean_of,
)
from hornbeam.errors import ErrorCode, ParameterError, require

if TYPE_CHECKING:
    from hornbeam.boosting.booster import Booster

__all__ = ["MLflowLogger"]

#: The maximum delay of metric values in seconds, and MLflow's limit on a batch.
_LONGEST_WAIT, _MOST_SCORES = 1.0, 1000


class MLflowLogger(TrainingCallback):
    """Log parameters, metrics, feature importances and the model to MLflow.

    They are logged to the active run. If there is none, a run is started, and ended
    with the training, as failed if an exception ends it. Of a cross-validation only
    metrics are logged: the means over folds, and their standard deviations as
    ``test-rmse-std``.

    Parameters
    ----------
    model_file
        The name of the artifact with the model, ``.ubj`` or ``.json``; None: no model.
    importance_type
        The type of ``feature_importance_<type>.json``, as for `Booster.get_score`;
        None: ``"gain"``, or ``"weight"`` for a linear model.
    """

    runs_last = True

    def __init__(
        self, model_file: str | None = "model.ubj", importance_type: str | None = None
    ) -> None:
        if model_file is not None and Path(model_file).name != model_file:
            raise ParameterError(
                f"model_file is the name of an artifact, without a folder, not "
                f"{model_file!r}",
                code=ErrorCode.INVALID_NAME,
            )
        self._mlflow = require("mlflow", "mlflow", "MLflowLogger")
        self._model_file = model_file
        self._importance_type = importance_type
        #: The run of the last training.
        self.run_id: str | None = None

    def join(self, container: CallbackContainer) -> None:
        self.run_id = None

    def before_training(self, model: Booster) -> Booster:
        active = self._mlflow.active_run()
        self._is_own = active is None
        run = self._mlflow.start_run() if active is None else active
        self._waiting: list[Any] = []
        self._written = time.monotonic()
        self.run_id = run.info.run_id
        self._mlflow.log_params(_first_of(model).params.to_dict())
        return model

    def after_iteration(self, model: Booster, epoch: int, evals_log: EvalsLog) -> bool:
        for name, score in latest_scores(evals_log).items():
            self._note(name, mean_of(score), epoch)
            if isinstance(score, tuple):
                self._note(f"{name}-std", score[1], epoch)
        if time.monotonic() - self._written > _LONGEST_WAIT:
            self._write()
        return False

    def after_training(self, model: Booster) -> Booster:
        last = model.num_boosted_rounds() - 1
        for name in ("best_iteration", "best_score"):
            found = model.attr(name)
            if found is not None:
                self._note(name, float(found), last)
        self._write()
        if _first_of(model) is model:
            self._mlflow.set_tag("hornbeam.digest", model.digest())
            self._keep_model(model)
        if self._is_own:
            self._mlflow.end_run()
        return model

    def break_off(self) -> None:
        if self.run_id is None:
            return
        self._write()
        if self._is_own:
            self._mlflow.end_run("FAILED")

    def _keep_model(self, model: Booster) -> None:
        """Log the feature importances and the model."""
        usual = "gain" if model.model.linear is None else "weight"
        kind = self._importance_type or usual
        scores = model.get_score(importance_type=kind)
        self._mlflow.log_dict(scores, f"feature_importance_{kind}.json")
        if self._model_file is not None:
            with TemporaryDirectory() as folder:
                path = Path(folder) / self._model_file
                model.save_model(path)
                self._mlflow.log_artifact(path)

    def _note(self, name: str, value: float, step: int) -> None:
        """Queue a metric value, under a name that MLflow accepts."""
        plain = re.sub(r"[^\w\-./: ]", "_", name.replace("@", "_at_"))
        now = int(1000 * time.time())
        self._waiting.append(self._mlflow.entities.Metric(plain, value, now, step))

    def _write(self) -> None:
        client = self._mlflow.MlflowClient()
        for start in range(0, len(self._waiting), _MOST_SCORES):
            client.log_batch(self.run_id, self._waiting[start : start + _MOST_SCORES])
        self._waiting.clear()
        self._written = time.monotonic()


def _first_of(model: Any) -> Any:
    """Return the model, or that of the first fold of a cross-validation."""
    folds = getattr(model, "cvfolds", None)
    return model if folds is None else folds[0].bst
