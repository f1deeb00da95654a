"""The barrier stage that trains: the driver's side."""

from __future__ import annotations

import pickle
import re
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import rand

from hornbeam.distributed.attempts import Coordinator, result_of
from hornbeam.errors import ClusterError, DataError, ErrorCode, ParameterError
from hornbeam.spark.task import RESULT_SCHEMA, Task, run_task

__all__ = ["arrange", "connections", "run_stage"]

#: Settings of connections: XGBoost's names and defaults.
_CONNECTIONS: dict[str, Any] = {
    "retry": 3,
    "timeout": 300,
    "tracker_host_ip": None,
    "tracker_port": 0,
    "tracker_timeout": 0,
    "worker_port": None,
}
#: Seconds between two looks at the number of slots.
_LOOK_INTERVAL = 0.5
#: The time for executors to register: a setting of Spark, and its default.
_REGISTERED_TIMEOUT = ("spark.scheduler.maxRegisteredResourcesWaitingTime", "30s")
#: The most bytes of a partition of files, as a multiple of the mean, without a shuffle.
_LARGEST_SHARE = 1.2
_DESCRIPTION = "spark.job.description"


def connections(given: Any) -> dict[str, Any]:
    """Return the settings of connections from a dict, or from XGBoost's Config."""
    found = given if isinstance(given, Mapping) else vars(given or object)
    found = {name: found[name] for name in found if not name.startswith("_")}
    known = dict(_CONNECTIONS)
    for name, value in found.items():
        if name not in known:
            raise ParameterError(
                f"coll_cfg has no setting {name!r}; it has {', '.join(known)}",
                code=ErrorCode.UNKNOWN_PARAMETER,
            )
        if value is not None:
            known[name] = value
    return known


def arrange(
    dataset: DataFrame,
    num_workers: int,
    *,
    force: bool,
    random: bool,
    qid: str | None,
) -> DataFrame:
    """Return the rows in as many partitions as there are workers.

    They are shuffled, unless they come in such partitions from a shuffle or from files:
    that takes as long as a third of a training. Rows of a query group come to one
    partition. A barrier stage cannot begin with operations that change the number of
    partitions, such as a union: Spark would stop.
    """
    if qid is not None:
        return dataset.repartition(num_workers, qid)
    if not force and num_workers in (
        _partitions_of_shuffle(dataset),
        _even_partitions_of_files(dataset),
    ):
        return dataset
    if random:
        return dataset.repartition(num_workers, rand(1))
    return dataset.repartition(num_workers)


def _partitions_of_shuffle(dataset: DataFrame) -> int | None:
    """Return the number of partitions that a shuffle, the last step, was asked for.

    None: another step is the last one, or Spark chooses the number, as it may for
    ranges. The plan tells without running the shuffle, as the number of the RDD's
    partitions would.
    """
    plan = dataset._jdf.queryExecution().optimizedPlan()
    while plan.nodeName() in ("Filter", "Project"):
        plan = plan.children().head()
    name = plan.nodeName()
    if (name == "Repartition" and plan.shuffle()) or (
        name == "RepartitionByExpression"
        and plan.optNumPartitions().isDefined()
        and plan.partitioning().getClass().getSimpleName() != "RangePartitioning"
    ):
        return int(plan.numPartitions())
    return None


def _even_partitions_of_files(dataset: DataFrame) -> int | None:
    """Return the number of partitions that Spark reads from files.

    None: the rows do not come from files alone, all of them, or one partition has much
    more bytes than others, so that its worker would be waited for.
    """
    execution = dataset._jdf.queryExecution()
    plan = execution.optimizedPlan()
    while plan.nodeName() == "Project":
        plan = plan.children().head()
    if plan.getClass().getSimpleName() != "LogicalRelation":
        return None
    partitions = execution.toRdd().partitions()
    if any(one.getClass().getSimpleName() != "FilePartition" for one in partitions):
        return None
    sizes = [sum(file.length() for file in one.files()) for one in partitions]
    is_even = max(sizes, default=0) * len(sizes) <= _LARGEST_SHARE * sum(sizes)
    return len(sizes) if is_even else None


def run_stage(dataset: DataFrame, task: Task, name: str, on_driver: bool) -> Any:
    """Run a task in each partition; return the result of the first one.

    Parameters
    ----------
    dataset
        The selected columns, in partitions for the workers.
    task
        Without the address of the coordinator.
    name
        Of the estimator, for Spark's pages.
    on_driver
        Whether the driver has the coordinator.
    """
    spark = dataset.sparkSession
    _check_slots(spark, task.num_workers)
    coll, workers = task.coll, task.num_workers
    host = coll["tracker_host_ip"] or str(spark.conf.get("spark.driver.host"))
    coordinator = None
    if on_driver:
        settings = coll["tracker_port"], coll["tracker_timeout"]
        coordinator = Coordinator(workers, host, *settings)
        task = replace(task, coordinator=coordinator.address)
    rounds = task.options["num_boost_round"]
    text = f"{name}: train {rounds} rounds on {workers} workers"
    with coordinator or nullcontext(), _described(spark, text):
        # Spark tries only barrier stages again whose results go through a shuffle.
        stage = dataset.mapInArrow(partial(run_task, task), RESULT_SCHEMA, barrier=True)
        try:
            cells = stage.repartition(1).collect()
        except (PySparkException, Py4JJavaError) as error:
            raise _failed(error, coordinator) from error
    if not cells:  # Spark has no partitions for a table that it knows to be empty
        raise DataError(
            "the data frame has no rows to learn from; at least one must be there",
            code=ErrorCode.EMPTY_DATA,
        )
    found: dict[str, bytes] = defaultdict(bytes)
    for cell in cells:
        found[cell.worker] += cell.data
    return result_of(pickle.loads(found[worker]) for worker in sorted(found))


@contextmanager
def _described(spark: SparkSession, text: str) -> Iterator[None]:
    """Give jobs a description on Spark's pages."""
    context = spark.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, text)
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]


def _check_slots(spark: SparkSession, num_workers: int) -> None:
    """Raise a `ClusterError` if tasks of a barrier stage could not run at a time.

    Spark itself would wait for ten minutes.
    """
    java = spark.sparkContext._jsc.sc()
    profile = java.resourceProfileManager().defaultResourceProfile()
    timeout = java.getConf().getTimeAsSeconds(*_REGISTERED_TIMEOUT)
    deadline = time.monotonic() + (0 if java.isLocal() else timeout)
    while (slots := java.maxNumConcurrentTasks(profile)) < num_workers:
        if time.monotonic() > deadline:
            cpus = spark.conf.get("spark.task.cpus", "1")
            raise ClusterError(
                f"num_workers={num_workers} tasks have to run at a time, and Spark has "
                f"slots for {slots} (with spark.task.cpus={cpus}); lower num_workers, "
                "or give the application more executors or cores",
                code=ErrorCode.TOO_FEW_SLOTS,
            )
        time.sleep(_LOOK_INTERVAL)


def _failed(error: Exception, coordinator: Coordinator | None) -> ClusterError:
    """Return the error for a stage that failed in all attempts."""
    text = str(error)
    missing = re.search(r"No module named '(\w+)|needs the package '(\w+)", text)
    if missing is not None:
        return ClusterError(
            f"the Python of Spark's workers has no package "
            f'{missing[1] or missing[2]!r}; install "hornbeam[spark]" there, or name '
            "a Python that has it by the environment variable PYSPARK_PYTHON",
            code=ErrorCode.MISSING_EXTRA,
        )
    reason = coordinator.failure if coordinator is not None else None
    if reason is None:
        raised = re.findall(r"(?m)^(?:[a-z]\w*\.)*(\w+(?:Error|Exception): .*)", text)
        reason = raised[0] if raised else text.strip().partition("\n")[0]
    return ClusterError(
        f"the stage of training failed in each of Spark's attempts: {reason}; see the "
        "logs of its executors, and spark.stage.maxConsecutiveAttempts",
        code=ErrorCode.WORKERS_LOST,
    )
