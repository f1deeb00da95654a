"""`train` on a dataset of Ray: actors, one for each worker, which may die."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError
from ray.util.placement_group import (
    PlacementGroup,
    placement_group,
    remove_placement_group,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from hornbeam.boosting.booster import Booster
from hornbeam.boosting.custom import MetricFunction, ObjectiveFunction
from hornbeam.callbacks import TrainingCallback
from hornbeam.data.containers.frame import check_dates_option
from hornbeam.distributed.group import error_of_workers
from hornbeam.distributed.parameter_checks import check_cluster_training
from hornbeam.distributed.run_state import RunState, latest
from hornbeam.distributed.tracker import Tracker
from hornbeam.distributed.transport import check_version
from hornbeam.errors import (
    ClusterError,
    DataError,
    ErrorCode,
    HornbeamError,
    ParameterError,
)
from hornbeam.objectives.compiled import ScalarLoss
from hornbeam.params import Parameters, ParameterSource
from hornbeam.ray.blocks import Blocks, Columns
from hornbeam.ray.worker import HornbeamWorker, Job, Part

__all__ = ["train"]

#: Seconds in which all workers must be there to begin.
_START_TIMEOUT = 60.0
#: Seconds by which a worker may fail later than the first one before it is given up.
_LAST_WORDS = 10.0


def train(
    params: ParameterSource,
    dataset: Any,
    num_boost_round: int = 10,
    *,
    label: str | Sequence[str] | None = None,
    weight: str | None = None,
    base_margin: str | Sequence[str] | None = None,
    qid: str | None = None,
    label_lower_bound: str | None = None,
    label_upper_bound: str | None = None,
    row_key: str | None = None,
    dates: str = "error",
    evals: Sequence[tuple[Any, str]] | None = None,
    num_workers: int = 2,
    cpus_per_worker: int = 1,
    obj: ObjectiveFunction | ScalarLoss | None = None,
    maximize: bool | None = None,
    early_stopping_rounds: int | None = None,
    verbose_eval: bool | int | None = True,
    xgb_model: Booster | str | os.PathLike[str] | bytes | bytearray | None = None,
    callbacks: Sequence[TrainingCallback] | None = None,
    custom_metric: MetricFunction | None = None,
    max_failures: int = 3,
    patience: float | None = 300.0,
) -> Booster:
    """Return a booster trained by actors on a dataset of Ray.

    It equals that of `hornbeam.train` on the same rows, byte for byte, for any number
    of workers, and whether or not workers are lost during training.

    Parameters
    ----------
    params
        Parameters, as a mapping or as pairs of name and value. ``nthread`` is by
        default `cpus_per_worker`.
    dataset
        A Dataset of Ray. Columns that no argument names are the features.
    num_boost_round
        The number of rounds to add.
    label, weight, base_margin, qid, label_lower_bound, label_upper_bound, row_key
        The names of columns; see `DMatrix`. Rows of a query group stay on one worker.
    dates
        As for `DMatrix`: with ``"expand"`` trees split on the parts of dates and times,
        those that vary in the rows of all workers.
    evals
        Pairs of a Dataset with the same columns and its name, evaluated after every
        round. It may be the training data.
    num_workers, cpus_per_worker
        The number of actors, and of CPUs for each. All must be free at the same time.
    obj
        A custom objective: formulas (a `ScalarLoss`), or a function of (margins, data)
        to (gradients, hessians), which each worker calls with its rows.
    maximize, early_stopping_rounds, xgb_model
        As for `hornbeam.train`.
    verbose_eval
        Whether to print the metrics of every round, or the period in rounds. A round
        is one line, in this process.
    callbacks
        See `hornbeam.callbacks`; each worker has copies of them.
    custom_metric
        A function of (predictions, data) to (name, value), which each worker calls with
        its rows; the mean is reported.
    max_failures
        How often workers may be lost. Training then goes on from the last round that
        a remaining worker has, or from the first one.
    patience
        Seconds without a message from a worker that others wait for, after which it is
        lost; None: no limit.

    Raises
    ------
    ClusterError
        If there are not enough free CPUs, if a worker has another version of Hornbeam,
        or if workers were lost too often.
    """
    columns = {
        "label": label,
        "weight": weight,
        "base_margin": base_margin,
        "qid": qid,
        "label_lower_bound": label_lower_bound,
        "label_upper_bound": label_upper_bound,
        "row_key": row_key,
    }
    check_dates_option(dates)
    given = Parameters.resolve(params)
    check_cluster_training(given)
    datasets, evaluated = _datasets(dataset, evals)
    blocks = [Blocks.of(data, name) for data, name in datasets]
    start = None if xgb_model is None else Booster(model_file=xgb_model)
    options = {
        "obj": obj,
        "maximize": maximize,
        "early_stopping_rounds": early_stopping_rounds,
        "verbose_eval": verbose_eval,
        "xgb_model": start,
        "callbacks": list(callbacks or ()),
        "custom_metric": custom_metric,
    }
    parameters = {"nthread": cpus_per_worker} | given.changed()
    job = Job(parameters, num_boost_round, evaluated, options, patience)
    with _Workers(num_workers, cpus_per_worker, blocks, columns, dates) as workers:
        return _train(workers, job, max_failures)


def _datasets(
    dataset: Any, evals: Sequence[Any] | None
) -> tuple[list[tuple[Any, str]], list[tuple[int, str]]]:
    """Return datasets with their names, each once; and the numbers of the evaluated."""
    datasets, evaluated = [(dataset, "dataset")], []
    for item in evals or ():
        if not (isinstance(item, Sequence) and len(item) == 2):
            raise DataError(
                f"evals must hold pairs (Dataset, name), not {item!r}",
                code=ErrorCode.INVALID_EVALS,
            )
        data, name = item
        known = [n for n, (other, _) in enumerate(datasets) if other is data]
        if not known:
            known = [len(datasets)]
            datasets.append((data, name))
        evaluated.append((known[0], name))
    return datasets, evaluated


def _train(workers: _Workers, job: Job, max_failures: int) -> Booster:
    """Train until no worker is lost on the way."""
    state: RunState | None = None
    for _ in range(max_failures + 1):
        workers.start()
        if workers.n_lost:
            continue
        booster = workers.train(job, state)
        if booster is not None:
            return booster
        state = latest(state, *workers.states())
    raise ClusterError(
        f"workers were lost {max_failures + 1} times: {', '.join(workers.lost_names)}; "
        "see their logs (they may need more memory), or raise max_failures",
        code=ErrorCode.WORKERS_LOST,
    )


class _Workers:
    """The actors of a training; a context manager that removes them.

    Parameters
    ----------
    count, cpus
        The number of actors, and of CPUs for each.
    blocks
        Of each dataset.
    columns, dates
        Which columns are no features, and what becomes of dates among the features.

    Attributes
    ----------
    lost_names
        Of all actors that were lost so far.
    """

    def __init__(
        self,
        count: int,
        cpus: int,
        blocks: Sequence[Blocks],
        columns: Columns,
        dates: str,
    ) -> None:
        if count < 1 or cpus < 1:
            raise ParameterError(
                f"num_workers={count} and cpus_per_worker={cpus} must be 1 or more",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
        self._cpus = cpus
        self._parts: list[list[Part]] = [[] for _ in range(count)]
        for one in blocks:
            bounds = one.bounds(count, columns["qid"])
            for rank, own in enumerate(self._parts):
                pieces = one.pieces(bounds[rank], bounds[rank + 1])
                own.append(Part(one.name, pieces, columns, dates))
        self._actors: dict[int, Any] = {}
        self._names: dict[int, str] = {}
        self.lost_names: list[str] = []

    def __enter__(self) -> _Workers:
        self._group = _reserve(len(self._parts), self._cpus)
        return self

    def __exit__(self, *_: object) -> None:
        for actor in self._actors.values():
            ray.kill(actor)
        remove_placement_group(self._group)

    @property
    def n_lost(self) -> int:
        """The number of workers that have no actor."""
        return len(self._parts) - len(self._actors)

    def start(self) -> None:
        """Create the actors that are missing, and let them read their rows."""
        places = {
            rank: PlacementGroupSchedulingStrategy(
                self._group, placement_group_bundle_index=rank
            )
            for rank in range(len(self._parts))
            if rank not in self._actors
        }
        _check_versions(places)
        for rank, place in places.items():
            self._actors[rank] = (
                ray.remote(HornbeamWorker)
                .options(num_cpus=self._cpus, scheduling_strategy=place)
                .remote(rank)
            )
        created = list(places)
        self._names |= self._call(created, "name", lambda _: ())
        created = [rank for rank in created if rank in self._actors]
        self._call(created, "load", lambda rank: (self._parts[rank],))

    def train(self, job: Job, start: RunState | None) -> Booster | None:
        """Let all workers train together; return None if some were lost."""
        tracker = Tracker(
            len(self._parts), ray.util.get_node_ip_address(), by_task=True, timeout=0
        )
        tracker.start()
        try:
            found = self._call(
                range(len(self._parts)),
                "train",
                lambda _: (tracker.address, start, job),
                lambda: tracker.close("a worker was lost, or has failed"),
            )
            tracker.wait(_LAST_WORDS)  # it has printed all lines then
        finally:
            tracker.close("the training has ended")
        if self.n_lost:
            return None
        failures = [one for one in found.values() if isinstance(one, HornbeamError)]
        if failures:
            raise failures[0]
        booster: Booster
        booster, booster.history = found[0]
        return booster

    def states(self) -> Iterable[RunState | None]:
        """Return the last state of each worker; None: it has not begun."""
        return self._call(list(self._actors), "kept", lambda _: ()).values()

    def _call(
        self,
        ranks: Iterable[int],
        method: str,
        arguments: Callable[[int], tuple[Any, ...]],
        on_failure: Callable[[], None] | None = None,
    ) -> dict[int, Any]:
        """Return the results of actors by rank, without those that are lost.

        Raises the error of an actor, with the name of the worker. After the first
        failure it calls `on_failure`; actors that are silent long after it are killed.
        """
        waiting = {
            getattr(self._actors[rank], method)
            .options(name=f"hornbeam: {method}, worker {rank}")
            .remote(*arguments(rank)): rank
            for rank in ranks
        }
        found: dict[int, Any] = {}
        errors: dict[int, BaseException] = {}
        deadline: float | None = None
        while waiting:
            ready, _ = ray.wait(list(waiting), timeout=1.0)
            for ref in ready:
                rank = waiting.pop(ref)
                try:
                    found[rank] = ray.get(ref)
                except RayTaskError as error:
                    errors[rank] = error.cause
                except RayActorError:
                    self._lose(rank)
            has_failed = errors or self.n_lost or _any_failure(found.values())
            if has_failed and deadline is None:
                if on_failure is not None:
                    on_failure()
                deadline = time.monotonic() + _LAST_WORDS
            if deadline is not None and time.monotonic() > deadline:
                for rank in waiting.values():
                    ray.kill(self._actors[rank])
                    self._lose(rank)
                break
        if errors:
            raise error_of_workers({self._name(k): errors[k] for k in sorted(errors)})
        return found

    def _lose(self, rank: int) -> None:
        del self._actors[rank]
        self.lost_names.append(self._name(rank))
        self._names.pop(rank, None)

    def _name(self, rank: int) -> str:
        return self._names.get(rank, f"worker {rank}")


def _check_versions(places: Mapping[int, PlacementGroupSchedulingStrategy]) -> None:
    """Raise a `ClusterError` if a worker would have another version, or none.

    An actor whose class cannot be loaded does not answer.
    """
    asked = [
        _version_there.options(
            name=f"hornbeam: version, worker {rank}", scheduling_strategy=place
        ).remote()
        for rank, place in places.items()
    ]
    for rank, answer in zip(places, asked, strict=True):
        try:
            host, version = ray.get(answer)
        except RayError:
            continue  # its machine is lost, and so will be its actor
        check_version(f"worker {rank} ({host})", version)


@ray.remote(num_cpus=0)
def _version_there() -> tuple[str, str | None]:
    """Return the host and the version of Hornbeam; Ray sends the function by value."""
    try:
        version = import_module("hornbeam").__version__
    except ImportError:
        version = None
    return ray.util.get_node_ip_address(), version


def _any_failure(values: Iterable[Any]) -> bool:
    return any(isinstance(value, HornbeamError) for value in values)


def _reserve(count: int, cpus: int) -> PlacementGroup:
    """Return a placement group with the CPUs of all workers.

    Raises a `ClusterError` if they are not free: tasks would wait for them for ever.
    """
    total = ray.cluster_resources().get("CPU", 0)
    needed = f"{count} workers of {cpus} CPUs need {count * cpus}"
    way_out = "lower num_workers or cpus_per_worker, or add machines"
    if total < count * cpus:
        raise ClusterError(
            f"{needed}, and the Ray cluster has {total:g}; {way_out}",
            code=ErrorCode.TOO_FEW_SLOTS,
        )
    group = placement_group([{"CPU": cpus}] * count, strategy="SPREAD")
    if not group.wait(_START_TIMEOUT):
        remove_placement_group(group)
        free = ray.available_resources().get("CPU", 0)
        raise ClusterError(
            f"{needed}, and {free:g} of the {total:g} of the Ray cluster are free "
            f"after {_START_TIMEOUT:g} seconds; wait for other jobs, or {way_out}",
            code=ErrorCode.TOO_FEW_SLOTS,
        )
    return group
