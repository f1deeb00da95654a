"""The actor of a worker: has a part of the rows, and trains on it in a group."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import ray

import hornbeam.training
from hornbeam.boosting.booster import Booster
from hornbeam.data.dmatrix import DMatrix
from hornbeam.distributed.connection import Address
from hornbeam.distributed.group import member
from hornbeam.distributed.run_state import KeepState, RunState
from hornbeam.errors import ErrorCode, HornbeamError
from hornbeam.ray.blocks import Columns, Piece, matrix_of, table_of

__all__ = ["HornbeamWorker", "Job", "Part"]

#: The codes of errors that say that another worker is lost: before all have joined the
#: group, its tracker is stopped then.
_OTHERS_FAILED = (ErrorCode.GROUP_FAILED, ErrorCode.TRACKER_NOT_FOUND)


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of a dataset for one worker.

    Attributes
    ----------
    name
        Of the dataset.
    pieces
        In the order of rows.
    columns, dates
        As for `matrix_of`.
    """

    name: str
    pieces: list[Piece]
    columns: Columns
    dates: str

    def read(self) -> pa.Table:
        """Return the rows."""
        blocks = ray.get([block for block, _, _ in self.pieces])
        tables = [
            block.slice(start, size)
            for block, (_, start, size) in zip(blocks, self.pieces, strict=True)
        ]
        return table_of(tables, self.name)


@dataclass(frozen=True, slots=True)
class Job:
    """The arguments of `hornbeam.train`, but for the data.

    Attributes
    ----------
    evals
        The numbers of the datasets to evaluate, with their names.
    options
        ``callbacks`` is among them.
    patience
        As ``timeout`` of `hornbeam.distributed.group.Group`.
    """

    params: dict[str, Any]
    num_boost_round: int
    evals: list[tuple[int, str]]
    options: dict[str, Any]
    patience: float | None


class HornbeamWorker:
    """A worker of a training.

    Parameters
    ----------
    rank
        Its number; lower ones have the rows before.
    """

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._parts: list[Part] = []
        self._tables: list[pa.Table] = []
        self._data: list[DMatrix] = []
        self._keeper = KeepState()

    def __repr__(self) -> str:  # what Ray puts before the lines that it prints
        return f"HornbeamWorker {self._rank}"

    def name(self) -> str:
        """Return what messages call this worker."""
        host = ray.util.get_node_ip_address()
        return f"worker {self._rank} ({host}, process {os.getpid()})"

    def load(self, parts: Sequence[Part]) -> None:
        """Read the rows of each dataset; the first one is that of the training."""
        self._parts = list(parts)
        self._tables = [part.read() for part in parts]
        self._make_matrices()

    def _make_matrices(self) -> None:
        self._data = [
            matrix_of(table, part.columns, part.name, part.dates)
            for part, table in zip(self._parts, self._tables, strict=True)
        ]

    def train(
        self, tracker: Address, start: RunState | None, job: Job
    ) -> tuple[Booster, dict[str, Any]] | HornbeamError | None:
        """Train with the other workers; the first one returns the model and history.

        If others are lost, the error that says so is returned; `kept` then returns how
        far this worker came.
        """
        self._keeper = KeepState(start)
        try:
            with member(*tracker, task=f"{self._rank:08}", timeout=job.patience):
                booster = self._train(job)
        except HornbeamError as error:
            if error.code not in _OTHERS_FAILED or "worker" in error.details:
                raise
            self._make_matrices()  # the bins may be those of a group that is no more
            return error
        return (booster, dict(booster.history)) if self._rank == 0 else None

    def _train(self, job: Job) -> Booster:
        options = dict(job.options)
        return hornbeam.training.train(
            job.params,
            self._data[0],
            job.num_boost_round,
            evals=[(self._data[number], name) for number, name in job.evals],
            callbacks=[*options.pop("callbacks"), self._keeper],
            **options,
        )

    def kept(self) -> RunState | None:
        """Return the state after the last round that was whole."""
        return self._keeper.kept()
