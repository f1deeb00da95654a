"""The task of a worker: reads a part of the rows, and trains on it in a group."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ray
from ray import cloudpickle

import hornbeam.training
from hornbeam.boosting.booster import Booster
from hornbeam.distributed.connection import Address
from hornbeam.distributed.group import member
from hornbeam.distributed.messages import sendable
from hornbeam.distributed.run_state import KeepState, RunState
from hornbeam.errors import ErrorCode, HornbeamError
from hornbeam.ray.datasets import Columns, Part, read_part

__all__ = ["Job", "Outcome", "train_part"]

#: The codes of errors that say that another worker is lost: before all have joined the
#: group, its tracker is stopped then.
_OTHERS_FAILED = (ErrorCode.GROUP_FAILED, ErrorCode.TRACKER_NOT_FOUND)


@dataclass(frozen=True, slots=True)
class Job:
    """What is the same for all workers of a training.

    Attributes
    ----------
    columns, dates
        As for `matrix_of`.
    patience
        As ``timeout`` of `hornbeam.distributed.group.Group`.
    arguments
        Those of `hornbeam.train`, with the numbers of datasets in ``evals``.
    """

    columns: Columns
    dates: str
    patience: float | None
    arguments: Mapping[str, Any]


@dataclass(slots=True)
class Outcome:
    """What a worker returns.

    Attributes
    ----------
    worker
        What messages call it.
    booster, history
        The model and its metrics, of the first worker if it has not failed.
    error
        Why it failed; None: it did not.
    state
        The state after the last round that was whole.
    """

    worker: str
    booster: Booster | None = None
    history: dict[str, Any] = field(default_factory=dict)
    error: Exception | None = None
    state: RunState | None = None

    @property
    def is_loss(self) -> bool:
        """Whether it failed since others are lost, or have failed."""
        error = self.error
        return (
            isinstance(error, HornbeamError)
            and error.code in _OTHERS_FAILED
            and "worker" not in error.details
        )


@ray.remote(max_retries=0)
def train_part(
    rank: int,
    parts: Sequence[Part],
    job: Job,
    tracker: Address,
    start: RunState | None,
) -> Outcome:
    """Train with the other workers.

    Parameters
    ----------
    rank
        The number of the worker; lower ones have the rows before.
    parts
        The rows of each dataset; the first one is that of the training.
    job
        What is the same for all.
    tracker
        Of the group.
    start
        Where training goes on.
    """
    host = ray.util.get_node_ip_address()
    found = Outcome(f"worker {rank} ({host}, process {os.getpid()})")
    keeper = KeepState(start)
    try:
        data = [read_part(part, job.columns, job.dates) for part in parts]
        given = job.arguments
        own = {
            "evals": [(data[number], name) for number, name in given["evals"]],
            "callbacks": [*given["callbacks"], keeper],
        }
        with member(*tracker, task=f"{rank:08}", timeout=job.patience):
            booster = hornbeam.training.train(dtrain=data[0], **{**given, **own})
        if rank == 0:
            found.booster, found.history = booster, dict(booster.history)
    except Exception as error:
        found.error = sendable(error, found.worker, cloudpickle.dumps)
        found.state = keeper.kept()
    return found
