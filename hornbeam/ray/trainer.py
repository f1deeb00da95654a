"""Ray Train and Ray Tune: a trainer whose workers form a group, with a range of the
rows each, and callbacks that report metrics and checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import ray
import ray.train
import ray.tune
from ray.data import Dataset
from ray.train.backend import Backend, BackendConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

from hornbeam.callbacks.round_report import RoundReport
from hornbeam.distributed.connection import Address
from hornbeam.distributed.group import member
from hornbeam.distributed.tracker import Tracker
from hornbeam.ray.datasets import split_rows
from hornbeam.ray.training import check_resources

__all__ = [
    "HornbeamConfig",
    "HornbeamTrainer",
    "RayTrainReportCallback",
    "RowRanges",
    "TuneReportCheckpointCallback",
]

#: In a worker: the tracker of its training, and the time-out of the group.
_addresses: list[tuple[Address, float | None]] = []


@dataclass
class HornbeamConfig(BackendConfig):
    """How the workers of a `HornbeamTrainer` communicate.

    Attributes
    ----------
    timeout
        Seconds without a message from a worker that others wait for, after which the
        training fails; None: no limit.
    """

    timeout: float | None = 300.0

    @property
    def backend_cls(self) -> type[Backend]:
        return _GroupBackend

    @property
    def train_func_context(self) -> Callable[[], AbstractContextManager[None]]:
        return _in_group

    def to_dict(self) -> dict[str, Any]:
        return {"timeout": self.timeout}


class _GroupBackend(Backend):
    """Starts a tracker where Ray Train's controller runs, and tells the workers."""

    _tracker: Tracker | None = None

    def on_training_start(self, worker_group: Any, backend_config: Any) -> None:
        self.on_shutdown(worker_group, backend_config)
        host = ray.util.get_node_ip_address()
        self._tracker = tracker = Tracker(len(worker_group), host, by_task=True)
        tracker.start()
        worker_group.execute(_keep_address, tracker.address, backend_config.timeout)

    def on_shutdown(self, worker_group: Any, backend_config: Any) -> None:
        if self._tracker is not None:
            self._tracker.close("the training has ended")


def _keep_address(address: Address, timeout: float | None) -> None:
    _addresses[:] = [(address, timeout)]


@contextmanager
def _in_group() -> Iterator[None]:
    """Join the group of the training, and leave it at the end of the loop."""
    if not _addresses:
        yield
        return
    address, timeout = _addresses[-1]
    task = f"{ray.train.get_context().get_world_rank():08}"
    with member(*address, task=task, timeout=timeout):
        yield


class RowRanges(ray.train.DataConfig):
    """Give each worker a range of rows, in their order, and all rows to some worker.

    Ray's own `DataConfig` drops the rows by which workers would have more than others,
    in an order that changes, and so does the model.

    Parameters
    ----------
    qid
        The column of query groups, which stay on one worker each.
    datasets_to_split
        The names of the datasets that are split; workers get all rows of the others.
    """

    def __init__(
        self, *, qid: str | None = None, datasets_to_split: str | list[str] = "all"
    ) -> None:
        super().__init__(datasets_to_split=datasets_to_split)
        self._qid = qid
        self._parts: dict[str, list[Dataset]] = {}

    def prepare(self, datasets: Mapping[str, Any], n_workers: int) -> None:
        """Compute and split datasets, before the workers take the CPUs."""
        split = self._datasets_to_split
        for name, given in datasets.items():
            if split == "all" or name in split:
                dataset = given() if callable(given) else given
                rows = split_rows(dataset, name, n_workers, self._qid)
                *parts, _ = rows.dataset.split_at_indices(rows.bounds[1:])
                self._parts[name] = parts

    def configure(
        self,
        datasets: dict[str, Dataset],
        world_size: int,
        worker_handles: Any,
        worker_node_ids: Any,
        **options: Any,
    ) -> list[dict[str, Any]]:
        """Return the shards of each worker, by the name of the dataset.

        `options` are those that later versions of Ray pass.
        """
        if any(len(parts) != world_size for parts in self._parts.values()):
            self._parts = {}  # the number of workers has changed
        missing = {n: data for n, data in datasets.items() if n not in self._parts}
        self.prepare(missing, world_size)
        whole = {name: [data] * world_size for name, data in datasets.items()}
        parts = (whole | self._parts).items()
        return [
            {name: own[rank].iterator() for name, own in parts if name in datasets}
            for rank in range(world_size)
        ]


class HornbeamTrainer(DataParallelTrainer):
    """Run a training loop on workers of Ray Train, which train one model together.

    In the loop, `hornbeam.train` (or that of `hornbeam.xgboost`) trains on the rows of
    all workers; each gets the model.

    Parameters
    ----------
    train_loop_per_worker
        The loop: a function of no arguments, or of a dict, ``train_loop_config``.
    hornbeam_config
        How workers communicate.
    datasets
        Datasets of Ray by name; the loop gets its part by
        ``ray.train.get_dataset_shard(name)``, and a matrix of it by `to_dmatrix`.
    dataset_config
        How datasets are split; by default as `RowRanges` does.
    options
        As for `ray.train.xgboost.XGBoostTrainer`: ``train_loop_config``,
        ``scaling_config``, ``run_config``, ``validation_config``, and
        ``resume_from_checkpoint``, a checkpoint that the loop reads from
        ``ray.train.get_checkpoint()``.
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[[], Any] | Callable[[dict[str, Any]], Any],
        *,
        hornbeam_config: HornbeamConfig | None = None,
        datasets: Mapping[str, Any] | None = None,
        dataset_config: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(
            train_loop_per_worker,
            backend_config=hornbeam_config or HornbeamConfig(),
            datasets=dict(datasets or {}),
            dataset_config=dataset_config or RowRanges(),
            **options,
        )

    def fit(self) -> Any:
        """Run the loop on all workers; return the `ray.train.Result`.

        Raises a `ClusterError` if the cluster has fewer CPUs than the workers need,
        which Ray would wait for.
        """
        n_workers = self.scaling_config.num_workers
        if isinstance(n_workers, int):
            if not ray.is_initialized():
                ray.init()
            check_resources(
                n_workers,
                self.scaling_config.total_resources,
                "lower num_workers or resources_per_worker of the ScalingConfig, or "
                "add machines",
            )
            if isinstance(self.data_config, RowRanges):
                self.data_config.prepare(self.datasets, n_workers)
        return super().fit()


class RayTrainReportCallback(RoundReport):
    __doc__ = (RoundReport.__doc__ or "").replace(
        "Report each round to an engine.",
        "Report each round to Ray Train; the first worker saves the checkpoints.",
    )
    _report = staticmethod(ray.train.report)
    _checkpoint = ray.train.Checkpoint


class TuneReportCheckpointCallback(RoundReport):
    __doc__ = (RoundReport.__doc__ or "").replace(
        "Report each round to an engine.",
        "Report each round to Ray Tune, whose scheduler may stop the trial.",
    )
    _report = staticmethod(ray.tune.report)
    _checkpoint = ray.train.Checkpoint
