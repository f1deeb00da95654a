"""The actor of a worker: has a part of the rows, and trains on it in a group."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import ray

import hornbeam.training
from hornbeam.boosting.booster import Booster
from hornbeam.data.dmatrix import DMatrix
from hornbeam.distributed.connection import Address
from hornbeam.distributed.group import member
from hornbeam.distributed.run_state import KeepState, RunState
from hornbeam.errors import ErrorCode, HornbeamError
from hornbeam.ray.datasets import Columns, Piece, matrix_of

__all__ = ["HornbeamWorker"]

#: The codes of errors that say that another worker is lost: before all have joined the
#: group, its tracker is stopped then.
_OTHERS_FAILED = (ErrorCode.GROUP_FAILED, ErrorCode.TRACKER_NOT_FOUND)


class HornbeamWorker:
    """A worker of a training.

    Parameters
    ----------
    rank
        Its number; lower ones have the rows before.
    parts
        The rows of each dataset, in their order, by its name; the first one is that of
        the training.
    columns, dates
        As for `matrix_of`.
    """

    def __init__(
        self,
        rank: int,
        parts: Sequence[tuple[str, list[Piece]]],
        columns: Columns,
        dates: str,
    ) -> None:
        self._rank, self._parts = rank, parts
        self._columns, self._dates = columns, dates
        self._data: list[DMatrix] = []
        self._keeper = KeepState()

    def __repr__(self) -> str:  # what Ray puts before the lines that it prints
        return f"HornbeamWorker {self._rank}"

    def name(self) -> str:
        """Return what messages call this worker."""
        host = ray.util.get_node_ip_address()
        return f"worker {self._rank} ({host}, process {os.getpid()})"

    def load(self) -> None:
        """Read the rows of each dataset."""
        self._data = []
        for name, pieces in self._parts:
            blocks = ray.get([block for block, _, _ in pieces])
            tables = [
                block.slice(start, size)
                for block, (_, start, size) in zip(blocks, pieces, strict=True)
            ]
            self._data.append(matrix_of(tables, name, self._columns, self._dates))

    def train(
        self,
        tracker: Address,
        start: RunState | None,
        patience: float | None,
        arguments: Mapping[str, Any],
    ) -> tuple[Booster, dict[str, Any]] | HornbeamError | None:
        """Train with the other workers; the first one returns the model and history.

        If others are lost, the error that says so is returned; `kept` then returns how
        far this worker came.

        Parameters
        ----------
        tracker
            Of the group.
        start
            Where training goes on.
        patience
            As ``timeout`` of `hornbeam.distributed.group.Group`.
        arguments
            Those of `hornbeam.train`, with the numbers of datasets in ``evals``.
        """
        keeper = self._keeper = KeepState(start)
        evals = [(self._data[number], name) for number, name in arguments["evals"]]
        own = {"evals": evals, "callbacks": [*arguments["callbacks"], keeper]}
        try:
            with member(*tracker, task=f"{self._rank:08}", timeout=patience):
                booster = hornbeam.training.train(
                    dtrain=self._data[0], **{**arguments, **own}
                )
        except HornbeamError as error:
            if error.code not in _OTHERS_FAILED or "worker" in error.details:
                raise
            self.load()  # the bins may be those of a group that is no more
            return error
        return (booster, dict(booster.history)) if self._rank == 0 else None

    def kept(self) -> RunState | None:
        """Return the state after the last round that was whole."""
        return self._keeper.kept()
