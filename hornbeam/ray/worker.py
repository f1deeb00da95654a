"""The task of a worker: reads a part of the rows, and trains on it in a group."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ray
from ray import cloudpickle

import hornbeam.training
from hornbeam.data.dmatrix import DMatrix
from hornbeam.distributed.attempts import Outcome
from hornbeam.distributed.connection import Address
from hornbeam.distributed.group import member
from hornbeam.distributed.messages import sendable
from hornbeam.distributed.run_state import KeepState, RunState
from hornbeam.ray.datasets import Part

__all__ = ["train_part"]


@ray.remote(max_retries=0)
def train_part(
    rank: int,
    parts: Sequence[Part],
    read: Callable[[Part], DMatrix],
    arguments: Mapping[str, Any],
    patience: float | None,
    tracker: Address,
    start: RunState | None,
) -> Outcome:
    """Train with the other workers; the result is the booster and its history.

    Parameters
    ----------
    rank
        The number of the worker; lower ones have the rows before.
    parts, read
        The rows of each dataset, of which the first one is that of the training; and
        what returns a matrix of them.
    arguments
        Those of `hornbeam.train`, with the numbers of datasets in ``evals``.
    patience, tracker
        As ``timeout`` of `hornbeam.distributed.group.Group`, and its tracker.
    start
        Where training goes on.
    """
    host = ray.util.get_node_ip_address()
    found = Outcome(f"worker {rank} ({host}, process {os.getpid()})")
    keeper = KeepState(start)
    try:
        data = [read(part) for part in parts]
        own = {
            "evals": [(data[number], name) for number, name in arguments["evals"]],
            "callbacks": [*arguments["callbacks"], keeper],
        }
        with member(*tracker, task=f"{rank:08}", timeout=patience):
            booster = hornbeam.training.train(dtrain=data[0], **{**arguments, **own})
        if rank == 0:
            found.result = booster, dict(booster.history)
    except Exception as error:
        found.error = sendable(error, found.worker, cloudpickle.dumps)
        found.state = keeper.kept()
    return found
