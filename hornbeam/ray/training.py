"""`train` on a dataset of Ray: actors, one for each worker, which may die."""

from __future__ import annotations

import math
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
from hornbeam.ray.datasets import split_rows
from hornbeam.ray.worker import HornbeamWorker

__all__ = ["check_resources", "train"]

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
    if num_workers < 1 or cpus_per_worker < 1:
        raise ParameterError(
            f"num_workers={num_workers} and cpus_per_worker={cpus_per_worker} must be "
            "1 or more",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )
    datasets, evaluated = _datasets(dataset, evals)
    split = [
        (name, split_rows(data, name, num_workers, qid)) for data, name in datasets
    ]
    arguments = {
        "params": {"nthread": cpus_per_worker} | given.changed(),
        "num_boost_round": num_boost_round,
        "evals": evaluated,
        "obj": obj,
        "maximize": maximize,
        "early_stopping_rounds": early_stopping_rounds,
        "verbose_eval": verbose_eval,
        "xgb_model": None if xgb_model is None else Booster(model_file=xgb_model),
        "callbacks": list(callbacks or ()),
        "custom_metric": custom_metric,
    }
    workers = _Workers(
        [
            (rank, [(name, rows.pieces(rank)) for name, rows in split], columns, dates)
            for rank in range(num_workers)
        ],
        cpus_per_worker,
    )
    with workers:
        return workers.train(arguments, patience, max_failures)


def _datasets(
    dataset: Any, evals: Sequence[Any] | None
) -> tuple[list[tuple[Any, str]], list[tuple[int, str]]]:
    """Return datasets with their names, each once; and the numbers of the evaluated."""
    datasets, evaluated = {id(dataset): (dataset, "dataset")}, []
    for item in evals or ():
        if not (isinstance(item, Sequence) and len(item) == 2):
            raise DataError(
                f"evals must hold pairs (Dataset, name), not {item!r}",
                code=ErrorCode.INVALID_EVALS,
            )
        data, name = item
        datasets.setdefault(id(data), (data, name))
        evaluated.append((list(datasets).index(id(data)), name))
    return list(datasets.values()), evaluated


class _Workers:
    """The actors of a training, which replaces those that are lost.

    A context manager, which removes them.

    Parameters
    ----------
    arguments
        Of the `HornbeamWorker` of each rank.
    cpus
        The number of CPUs for each.
    """

    def __init__(self, arguments: Sequence[tuple[Any, ...]], cpus: int) -> None:
        self._arguments, self._cpus = arguments, cpus
        self._actors: dict[int, Any] = {}
        self._names: dict[int, str] = {}
        #: Of all actors that were lost so far.
        self._lost_names: list[str] = []

    def __enter__(self) -> _Workers:
        self._group = _reserve(len(self._arguments), self._cpus)
        return self

    def __exit__(self, *_: object) -> None:
        for actor in self._actors.values():
            ray.kill(actor)
        remove_placement_group(self._group)

    def train(
        self, arguments: Mapping[str, Any], patience: float | None, max_failures: int
    ) -> Booster:
        """Train until no worker is lost on the way."""
        state: RunState | None = None
        for _ in range(max_failures + 1):
            self._start()
            if self._n_lost:
                continue
            booster = self._attempt(state, patience, arguments)
            if booster is not None:
                return booster
            state = latest(state, *self._call("kept", list(self._actors)).values())
        raise ClusterError(
            f"workers were lost {max_failures + 1} times: "
            f"{', '.join(self._lost_names)}; see their logs (they may need more "
            "memory), or raise max_failures",
            code=ErrorCode.WORKERS_LOST,
        )

    @property
    def _n_lost(self) -> int:
        """The number of workers that have no actor."""
        return len(self._arguments) - len(self._actors)

    def _start(self) -> None:
        """Create the actors that are missing, and let them read their rows."""
        places = {
            rank: PlacementGroupSchedulingStrategy(
                self._group, placement_group_bundle_index=rank
            )
            for rank in range(len(self._arguments))
            if rank not in self._actors
        }
        _check_versions(places)
        for rank, place in places.items():
            self._actors[rank] = (
                ray.remote(HornbeamWorker)
                .options(num_cpus=self._cpus, scheduling_strategy=place)
                .remote(*self._arguments[rank])
            )
        self._names |= self._call("name", places)
        self._call("load", [rank for rank in places if rank in self._actors])

    def _attempt(self, *arguments: Any) -> Booster | None:
        """Let all workers train together; return None if some were lost."""
        tracker = Tracker(
            len(self._actors), ray.util.get_node_ip_address(), by_task=True
        )
        tracker.start()

        def stop() -> None:
            tracker.close("a worker was lost, or has failed")

        try:
            found = self._call(
                "train", list(self._actors), tracker.address, *arguments, stop=stop
            )
            tracker.wait(_LAST_WORDS)  # it has printed all lines then
        finally:
            tracker.close("the training has ended")
        if self._n_lost:
            return None
        failures = [one for one in found.values() if isinstance(one, HornbeamError)]
        if failures:
            raise failures[0]
        booster: Booster
        booster, booster.history = found[0]
        return booster

    def _call(
        self,
        method: str,
        ranks: Iterable[int],
        *arguments: Any,
        stop: Callable[[], None] | None = None,
    ) -> dict[int, Any]:
        """Return the results of actors by rank, without those that are lost.

        Raises the error of an actor, with the name of the worker. After the first
        failure it calls `stop`; actors that are silent long after it are killed.
        """
        waiting = {
            getattr(self._actors[rank], method)
            .options(name=f"hornbeam: {method}, worker {rank}")
            .remote(*arguments): rank
            for rank in ranks
        }
        found: dict[int, Any] = {}
        errors: dict[int, BaseException] = {}
        deadline = math.inf
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
            failed = [one for one in found.values() if isinstance(one, HornbeamError)]
            if deadline == math.inf and (errors or failed or self._n_lost):
                deadline = time.monotonic() + _LAST_WORDS
                if stop is not None:
                    stop()
            if time.monotonic() > deadline:
                for rank in waiting.values():
                    ray.kill(self._actors[rank])
                    self._lose(rank)
                break
        if errors:
            raise error_of_workers({self._name(k): errors[k] for k in sorted(errors)})
        return found

    def _lose(self, rank: int) -> None:
        del self._actors[rank]
        self._lost_names.append(self._name(rank))
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


def _reserve(count: int, cpus: int) -> PlacementGroup:
    """Return a placement group with the CPUs of all workers.

    Raises a `ClusterError` if they are not free: tasks would wait for them for ever.
    """
    way_out = "lower num_workers or cpus_per_worker, or add machines"
    check_resources(count, {"CPU": count * cpus}, way_out)
    group = placement_group([{"CPU": cpus}] * count, strategy="SPREAD")
    if not group.wait(_START_TIMEOUT):
        remove_placement_group(group)
        free = ray.available_resources().get("CPU", 0)
        raise ClusterError(
            f"{count} workers need {count * cpus} CPU, and {free:g} of the Ray cluster "
            f"are free after {_START_TIMEOUT:g} seconds; wait for other jobs, or "
            f"{way_out}",
            code=ErrorCode.TOO_FEW_SLOTS,
        )
    return group


def check_resources(count: int, needed: Mapping[str, float], way_out: str) -> None:
    """Raise a `ClusterError` if the cluster lacks what `count` workers need."""
    total = ray.cluster_resources()
    for name, number in needed.items():
        if number > total.get(name, 0):
            raise ClusterError(
                f"{count} workers need {number:g} {name}, and the Ray cluster has "
                f"{total.get(name, 0):g}; {way_out}",
                code=ErrorCode.TOO_FEW_SLOTS,
            )
