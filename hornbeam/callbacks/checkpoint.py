"""The callback that saves checkpoints of the model, and resumes from them."""

from __future__ import annotations

import json
import os
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hornbeam.callbacks.base import CallbackContainer, EvalsLog, TrainingCallback
from hornbeam.distributed import joined_group
from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.files import naming, replace_file

if TYPE_CHECKING:
    from hornbeam.boosting.booster import Booster

__all__ = ["TrainingCheckPoint"]

#: Parameters that do not change the model.
_WITHOUT_EFFECT = {"nthread", "verbosity", "max_cached_hist_node"}


class TrainingCheckPoint(TrainingCallback):
    """Save the model every `interval` rounds; in a group only the first process does.

    The file of a round is ``name_round.ubj`` in `directory`.

    Parameters
    ----------
    directory
        An existing folder.
    name
        The prefix of file names.
    as_pickle
        Whether to pickle the booster, with its parameters, to ``.pkl``.
    interval
        The number of rounds between two files.
    resume
        Whether training resumes from the last file, if there is one. The model is then
        the same as without an interruption. For that a file ``name_round.run`` is
        saved with each model; it holds the metric values and the states of all
        callbacks. ``num_boost_round`` counts from the first round of the interrupted
        training.

    Examples
    --------
    >>> import hornbeam
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_diabetes
    >>> data = hornbeam.DMatrix(*load_diabetes(return_X_y=True))
    >>> Path("checkpoints").mkdir()
    >>> checkpoint = hornbeam.TrainingCheckPoint("checkpoints", interval=5)
    >>> booster = hornbeam.train({}, data, 12, callbacks=[checkpoint])
    >>> sorted(path.name for path in Path("checkpoints").iterdir())
    ['model_10.ubj', 'model_5.ubj']
    """

    default_format = "ubj"
    runs_last = True

    def __init__(
        self,
        directory: str | os.PathLike[str],
        name: str = "model",
        as_pickle: bool = False,
        interval: int = 100,
        *,
        resume: bool = False,
    ) -> None:
        if interval < 1:
            raise ParameterError(
                f"interval of TrainingCheckPoint must be 1 or more: {interval}",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
        self._directory = Path(directory)
        self._name = name
        self._as_pickle = as_pickle
        self._interval = interval
        self._resume = resume
        self._start = 0
        self._container: CallbackContainer | None = None
        #: The file that was saved last.
        self.latest: Path | None = None

    def join(self, container: CallbackContainer) -> None:
        self._container = container

    def before_training(self, model: Booster) -> Booster:
        if not self._directory.is_dir():
            raise ParameterError(
                f"the directory of checkpoints {str(self._directory)!r} is not a "
                "directory; create it first",
                code=ErrorCode.FOLDER_NOT_FOUND,
            )
        if not hasattr(model, "save_model"):
            raise ParameterError(
                "a checkpoint holds one model, and cross-validation trains several; "
                "leave TrainingCheckPoint out",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )
        self._start = model.num_boosted_rounds()
        if self._resume:
            self._given = _identity(model)
            last = self._last_checkpoint()
            if last is not None:
                self._resume_from(model, last)
        return model

    def after_iteration(self, model: Booster, epoch: int, evals_log: EvalsLog) -> bool:
        if self._saves() and epoch > 0 and epoch % self._interval == 0:
            path = self._path(epoch)
            if self._resume:
                # First, since a model without this file is not a whole checkpoint.
                replace_file(
                    path.with_suffix(".run"), [self._training_state(model, epoch)]
                )
            if self._as_pickle:
                replace_file(path, [pickle.dumps(model)])
            else:
                model.save_model(path)
            self.latest = path
        return False

    def after_training(self, model: Booster) -> Booster:
        self._container = None
        return model

    def break_off(self) -> None:
        self._container = None

    def _saves(self) -> bool:
        """Return whether this process saves checkpoints."""
        group = joined_group()
        return group is None or group.rank == 0

    def _path(self, epoch: int) -> Path:
        ending = "pkl" if self._as_pickle else self.default_format
        return self._directory / f"{self._name}_{self._start + epoch}.{ending}"

    def _training_state(self, model: Booster, epoch: int) -> bytes:
        """Return the state of the training that is not in the model file."""
        assert self._container is not None
        before, now = self._given["parameters"], model.params.to_dict()
        run = {
            **self._given,
            "epoch": epoch,
            "changed": {k: v for k, v in now.items() if v != before[k]},
            **self._container.state(),
        }
        try:
            return json.dumps(run).encode()
        except (TypeError, ValueError) as error:
            raise ParameterError(
                f"the state of a callback cannot be stored as JSON ({error}); return "
                "numbers, strings, lists and dicts from its state()",
                code=ErrorCode.INVALID_CALLBACK,
            ) from None

    def _last_checkpoint(self) -> Path | None:
        """Return the model file of the last complete checkpoint."""
        pattern = re.compile(re.escape(self._name) + r"_(\d+)\.run")
        found = [pattern.fullmatch(path.name) for path in self._directory.iterdir()]
        epochs = sorted(int(match[1]) - self._start for match in found if match)
        paths = [self._path(epoch) for epoch in epochs]
        return next((path for path in reversed(paths) if path.exists()), None)

    def _resume_from(self, model: Booster, path: Path) -> None:
        assert self._container is not None
        with naming(path.with_suffix(".run")):
            run = json.loads(path.with_suffix(".run").read_text())
        for what, before, now in _differences(run, self._given):
            raise ParameterError(
                f"the checkpoint {str(path)!r} is of a training with {what}={before!r},"
                f" and this training has {now!r}; resume with the same value, or set "
                "another directory or name",
                code=ErrorCode.MODEL_PARAMETER_MISMATCH,
            )
        with naming(path):
            model.resume(pickle.loads(path.read_bytes()) if self._as_pickle else path)
        model.set_param(run["changed"])
        self._container.resume(model, run["epoch"], run)


def _identity(model: Booster) -> dict[str, Any]:
    """Return the values that must be the same in a training that resumes."""
    start = model.digest() if model.num_boosted_rounds() else None
    return {"xgb_model": start, "parameters": model.params.to_dict()}


def _differences(run: Any, given: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the differences between two trainings that change the model."""
    if run["xgb_model"] != given["xgb_model"]:
        yield "xgb_model", run["xgb_model"], given["xgb_model"]
    # As JSON stores them.
    now = json.loads(json.dumps(given["parameters"]))
    for name in sorted((run["parameters"].keys() | now.keys()) - _WITHOUT_EFFECT):
        before, own = run["parameters"].get(name), now.get(name)
        if before != own:
            yield name, before, own
