"""A trainer for Ray Train whose workers form a group of processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import ray
import ray.train
from ray.train.backend import Backend, BackendConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

from hornbeam.distributed.connection import Address
from hornbeam.distributed.group import member
from hornbeam.distributed.tracker import Tracker
from hornbeam.errors import ClusterError, ErrorCode
from hornbeam.ray.shards import RowRanges

__all__ = ["HornbeamConfig", "HornbeamTrainer"]

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
        self._stop()
        tracker = Tracker(
            len(worker_group), ray.util.get_node_ip_address(), by_task=True
        )
        tracker.start()
        self._tracker = tracker
        worker_group.execute(_keep_address, tracker.address, backend_config.timeout)

    def on_shutdown(self, worker_group: Any, backend_config: Any) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._tracker is not None:
            self._tracker.close("the training has ended")
        self._tracker = None


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


class HornbeamTrainer(DataParallelTrainer):
    """Run a training loop on workers of Ray Train, which train one model together.

    In the loop, `hornbeam.train` (or that of `hornbeam.xgboost`) trains on the rows of
    all workers; each gets the model.

    Parameters
    ----------
    train_loop_per_worker
        The loop: a function of no arguments, or of `train_loop_config`.
    train_loop_config
        A dict.
    hornbeam_config
        How workers communicate.
    scaling_config, run_config
        As for `ray.train.xgboost.XGBoostTrainer`.
    datasets
        Datasets of Ray by name; the loop gets its part by
        ``ray.train.get_dataset_shard(name)``, and a matrix of it by `to_dmatrix`.
    dataset_config
        How datasets are split; by default as `RowRanges` does.
    validation_config, resume_from_checkpoint
        As for `ray.train.xgboost.XGBoostTrainer`; the loop reads the checkpoint from
        ``ray.train.get_checkpoint()``.
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[[], Any] | Callable[[dict[str, Any]], Any],
        *,
        train_loop_config: dict[str, Any] | None = None,
        hornbeam_config: HornbeamConfig | None = None,
        scaling_config: Any = None,
        run_config: Any = None,
        datasets: Mapping[str, Any] | None = None,
        dataset_config: Any = None,
        validation_config: Any = None,
        resume_from_checkpoint: Any = None,
    ) -> None:
        super().__init__(
            train_loop_per_worker,
            train_loop_config=train_loop_config,
            backend_config=hornbeam_config or HornbeamConfig(),
            scaling_config=scaling_config,
            run_config=run_config,
            datasets=dict(datasets or {}),
            dataset_config=dataset_config or RowRanges(),
            validation_config=validation_config,
            resume_from_checkpoint=resume_from_checkpoint,
        )

    def fit(self) -> Any:
        """Run the loop on all workers; return the `ray.train.Result`.

        Raises a `ClusterError` if the cluster has fewer CPUs than the workers need,
        which Ray would wait for.
        """
        n_workers = self.scaling_config.num_workers
        if isinstance(n_workers, int):
            _check_resources(self.scaling_config)
            if isinstance(self.data_config, RowRanges):
                self.data_config.prepare(self.datasets, n_workers)
        return super().fit()


def _check_resources(scaling: Any) -> None:
    if not ray.is_initialized():
        ray.init()
    total = ray.cluster_resources()
    for name, needed in scaling.total_resources.items():
        if needed > total.get(name, 0):
            raise ClusterError(
                f"{scaling.num_workers} workers need {needed:g} {name}, and the Ray "
                f"cluster has {total.get(name, 0):g}; lower num_workers or "
                "resources_per_worker of the ScalingConfig, or add machines",
                code=ErrorCode.TOO_FEW_SLOTS,
            )
