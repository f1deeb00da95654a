"""`train` on a dataset of Ray: a task for each worker, whose processes may die."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import ray
from ray import cloudpickle
from ray.exceptions import RayError, RayTaskError
from ray.util.placement_group import (
    PlacementGroup,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from hornbeam import __version__
from hornbeam.boosting.booster import Booster
from hornbeam.boosting.custom import MetricFunction, ObjectiveFunction
from hornbeam.callbacks import TrainingCallback
from hornbeam.data.containers.frame import check_dates_option
from hornbeam.distributed.attempts import Outcome, run_attempts, train_part
from hornbeam.distributed.connection import Address
from hornbeam.distributed.parameter_checks import check_cluster_training
from hornbeam.distributed.run_state import RunState
from hornbeam.distributed.transport import check_version
from hornbeam.errors import ClusterError, DataError, ErrorCode, ParameterError
from hornbeam.objectives.compiled import ScalarLoss
from hornbeam.params import Parameters, ParameterSource
from hornbeam.ray.datasets import Part, read_part, split_rows

__all__ = ["check_resources", "train"]

#: Seconds in which all workers must be there to begin.
_START_TIMEOUT = 60.0
#: Seconds until Ray knows that CPUs are free, and between two looks.
_JUST_FREED, _LOOK_INTERVAL = 1.0, 0.01


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
    split = [split_rows(data, name, num_workers, qid).parts for data, name in datasets]
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
    work = partial(
        train_part,
        read=partial(read_part, columns=columns, dates=dates),
        arguments=arguments,
        patience=patience,
        dumps=cloudpickle.dumps,
    )
    task, parts = ray.put(cloudpickle.dumps(work)), list(zip(*split, strict=True))
    group = _reserve(num_workers, cpus_per_worker)
    try:
        names = _names(group)
        attempt = partial(_attempt, task, parts, names, group)
        host = ray.util.get_node_ip_address()
        booster: Booster
        booster, booster.history = run_attempts(attempt, names, host, max_failures)
    finally:
        remove_placement_group(group)
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


def _attempt(
    task: Any,
    parts: Sequence[Sequence[Part]],
    names: Sequence[str],
    group: PlacementGroup,
    tracker: Address,
    start: RunState | None,
) -> Generator[dict[int, Outcome | None], None, None]:
    """Start tasks that train together; yield their outcomes, as an `Attempt` does.

    Ray starts a process for each actor, and uses those of tasks again.
    """
    attempt = cloudpickle.dumps((tracker, start))
    waiting = {
        _run.options(
            num_cpus=group.bundle_specs[rank]["CPU"],
            name=f"hornbeam: train, worker {rank}",
            scheduling_strategy=PlacementGroupSchedulingStrategy(group, rank),
        ).remote(__version__, task, attempt, rank, own): rank
        for rank, own in enumerate(parts)
    }
    try:
        while waiting:
            ready, _ = ray.wait(list(waiting), timeout=1.0)
            ended = {ref: waiting.pop(ref) for ref in ready}
            yield {rank: _outcome(ref, names[rank]) for ref, rank in ended.items()}
    finally:
        for ref in waiting:
            ray.cancel(ref, force=True)


@ray.remote(max_retries=0)
def _run(
    version: str, task: bytes, attempt: bytes, rank: int, parts: Sequence[Part]
) -> tuple[str | None, Outcome | None]:
    """Return the version of Hornbeam, and what a pickled task of this version returns.

    Ray sends the function by value: a worker without Hornbeam could not read the task.
    """
    try:
        found = import_module("hornbeam").__version__
    except ImportError:
        found = None
    if found != version:
        return found, None
    own = rank, ray.util.get_node_ip_address(), parts
    return found, cloudpickle.loads(task)(*own, *cloudpickle.loads(attempt))


def _outcome(ref: Any, name: str) -> Outcome | None:
    """Return the outcome of a task; None: its process was lost.

    Raises a `ClusterError` if it has another version of Hornbeam.
    """
    try:
        answer: tuple[str | None, Outcome | None] = ray.get(ref)
    except RayTaskError as error:  # it could not read its arguments
        return Outcome(name, error=error.cause)
    except RayError:
        return None
    check_version(name, answer[0])
    return answer[1]


def _names(group: PlacementGroup) -> list[str]:
    """Return the names of workers, with their machines."""
    hosts = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes()}
    nodes = placement_group_table(group)["bundles_to_node_id"]
    return [f"worker {rank} ({hosts[nodes[rank]]})" for rank in sorted(nodes)]


def _reserve(count: int, cpus: int) -> PlacementGroup:
    """Return a placement group with the CPUs of all workers.

    Raises a `ClusterError` if they are not free: tasks would wait for them for ever.
    """

    def free() -> float:
        return float(ray.available_resources().get("CPU", 0))

    needed = count * cpus
    way_out = "lower num_workers or cpus_per_worker, or add machines"
    check_resources(count, {"CPU": needed}, way_out)
    # Ray tries a group that does not fit again after a second only: for CPUs that the
    # training before has just freed, look sooner.
    deadline = time.monotonic() + _JUST_FREED
    while free() < needed and time.monotonic() < deadline:
        time.sleep(_LOOK_INTERVAL)
    group = placement_group([{"CPU": cpus}] * count, strategy="SPREAD")
    if not group.wait(_START_TIMEOUT):
        remove_placement_group(group)
        raise ClusterError(
            f"{count} workers need {needed} CPU, and {free():g} of the Ray cluster are "
            f"free after {_START_TIMEOUT:g} seconds; wait for other jobs, or {way_out}",
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
