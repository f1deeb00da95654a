"""`train` on a dataset of Ray: a task for each worker, whose processes may die."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError
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
from hornbeam.distributed.attempts import Attempts, Outcome, result_of
from hornbeam.distributed.parameter_checks import check_cluster_training
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
from hornbeam.ray.datasets import Part, read_part, split_rows
from hornbeam.ray.worker import train_part

__all__ = ["check_resources", "train"]

#: Seconds in which all workers must be there to begin.
_START_TIMEOUT = 60.0
#: Seconds by which a worker may fail later than the first one before it is given up.
_LAST_WORDS = 10.0
#: The codes of errors that say that another worker is lost: before all have joined the
#: group, its tracker is stopped then.
_OTHERS_FAILED = (ErrorCode.GROUP_FAILED, ErrorCode.TRACKER_NOT_FOUND)


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
    """Return a booster trained by tasks on a dataset of Ray.

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
        The number of workers, and of CPUs for each. All must be free at the same time.
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
    parts = [
        [(name, rows.ranges[rank]) for name, rows in split]
        for rank in range(num_workers)
    ]
    read = partial(read_part, columns=columns, dates=dates)
    with _Workers(parts, (read, arguments, patience), cpus_per_worker) as workers:
        booster: Booster
        booster, booster.history = workers.train(max_failures)
        return booster


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
    """The tasks of a training, which are tried again if some are lost.

    A context manager, which ends them. They are tasks and not actors, since Ray starts
    a process for each actor, and uses those of tasks again.

    Parameters
    ----------
    parts
        The rows of each worker, of each dataset.
    common
        The arguments of `train_part` that are the same for all workers.
    cpus
        The number of CPUs for each.
    """

    def __init__(
        self, parts: Sequence[Sequence[Part]], common: tuple[Any, ...], cpus: int
    ) -> None:
        self._parts, self._cpus = parts, cpus
        self._common = [ray.put(one) for one in common]
        self._attempts = Attempts(len(parts), ray.util.get_node_ip_address())
        #: By their tasks: the ranks of workers that have not answered.
        self._waiting: dict[Any, int] = {}
        #: Of all workers that were lost so far.
        self._lost: list[str] = []

    def __enter__(self) -> _Workers:
        ranks = range(len(self._parts))
        group = self._group = _reserve(len(ranks), self._cpus)
        self._places = [
            PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=rank)
            for rank in ranks
        ]
        return self

    def __exit__(self, *_: object) -> None:
        self._attempts.end("the training has ended")
        self._give_up()
        remove_placement_group(self._group)

    def train(self, max_failures: int) -> Any:
        """Train until no worker is lost on the way; return the result."""
        for _ in range(max_failures + 1):
            found = self._attempt(_check_versions(self._places))
            if len(found) == len(self._parts) or not all(map(_is_of_others, found)):
                return result_of(found)
            self._attempts.keep(*(one.state for one in found))
        raise ClusterError(
            f"workers were lost {max_failures + 1} times: {', '.join(self._lost)}; see "
            "their logs (they may need more memory), or raise max_failures",
            code=ErrorCode.WORKERS_LOST,
        )

    def _attempt(self, names: Sequence[str]) -> list[Outcome]:
        """Let all workers train together; return the answers of those not lost.

        After the first failure the group is ended, and workers that are silent long
        after it are lost, too.
        """
        address, start = self._attempts.begin()
        parts = zip(self._parts, self._places, strict=True)
        self._waiting = {
            train_part.options(
                num_cpus=self._cpus,
                name=f"hornbeam: train, worker {rank}",
                scheduling_strategy=place,
            ).remote(rank, own, *self._common, address, start): rank
            for rank, (own, place) in enumerate(parts)
        }
        found: dict[int, Outcome] = {}
        deadline = math.inf
        while self._waiting and time.monotonic() < deadline:
            ready, _ = ray.wait(list(self._waiting), timeout=1.0)
            for ref in ready:
                rank = self._waiting.pop(ref)
                try:
                    found[rank] = ray.get(ref)
                except RayTaskError as error:  # it could not read its arguments
                    found[rank] = Outcome(names[rank], error=error.cause)
                except RayError:
                    self._lost.append(names[rank])
                has_ended = rank in found and found[rank].error is None
                if not has_ended and deadline == math.inf:
                    deadline = time.monotonic() + _LAST_WORDS
                    self._attempts.end("a worker was lost, or has failed")
        self._lost += [names[rank] for rank in self._waiting.values()]
        self._give_up()
        self._attempts.wait(_LAST_WORDS)
        return [found[rank] for rank in sorted(found)]

    def _give_up(self) -> None:
        """End the processes of workers that have not answered."""
        for ref in self._waiting:
            ray.cancel(ref, force=True)
        self._waiting = {}


def _is_of_others(outcome: Outcome) -> bool:
    """Return whether a worker has no failure but that others are lost."""
    error = outcome.error
    return error is None or (
        isinstance(error, HornbeamError)
        and error.code in _OTHERS_FAILED
        and "worker" not in error.details
    )


def _check_versions(places: Sequence[PlacementGroupSchedulingStrategy]) -> list[str]:
    """Return the names of workers; raise a `ClusterError` for one of another version.

    A worker without Hornbeam could not read what its task is to do.
    """
    asked = [
        _version_there.options(
            name=f"hornbeam: version, worker {rank}", scheduling_strategy=place
        ).remote()
        for rank, place in enumerate(places)
    ]
    names = []
    for rank, answer in enumerate(asked):
        names.append(f"worker {rank}")
        try:
            host, version = ray.get(answer)
        except RayError:
            continue  # its machine is lost, and so will be its task
        names[rank] += f" ({host})"
        check_version(names[rank], version)
    return names


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
