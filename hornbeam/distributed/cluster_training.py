"""The training of a booster on a cluster, through a client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hornbeam.boosting.booster import Booster
from hornbeam.callbacks import TrainingCallback, TrainingCheckPoint
from hornbeam.distributed.cluster_booster import ClusterBooster
from hornbeam.distributed.partitioned_matrix import PartitionedMatrix
from hornbeam.distributed.transport import Transport
from hornbeam.errors import ClusterError, ErrorCode
from hornbeam.training import run_rounds

__all__ = ["train_booster"]


def train_booster(
    cluster: Transport,
    booster: ClusterBooster,
    dtrain: PartitionedMatrix,
    num_boost_round: int,
    *,
    callbacks: list[TrainingCallback],
    **options: Any,
) -> dict[str, Any]:
    """Train a booster, and release its rows and its cluster; return as
    `hornbeam.dask.train` does.

    Parameters
    ----------
    cluster, booster
        The cluster, and the booster on it.
    dtrain, num_boost_round, callbacks
        As for `hornbeam.dask.train`.
    options
        Further ones of `run_rounds`.
    """
    try:
        trained, log = run_rounds(
            booster,
            dtrain,
            num_boost_round,
            callbacks=callbacks,
            maximize=None,
            **options,
        )
    except ClusterError as error:
        if error.code == ErrorCode.CLUSTER_FAILURE:  # it would come again
            raise
        raise ClusterError(
            f"{error}{_resume_hint(callbacks)}", code=error.code, **error.details
        ) from error
    finally:
        booster.close()
        cluster.close()
    return {"booster": Booster(model_file=trained), "history": log.history}


def _resume_hint(callbacks: Sequence[TrainingCallback]) -> str:
    """Return the end of an error message: how to resume training."""
    saved = [
        callback.latest
        for callback in callbacks
        if isinstance(callback, TrainingCheckPoint) and callback.latest is not None
    ]
    if not saved:
        return (
            "; pass a TrainingCheckPoint as a callback to keep the trees grown so far"
        )
    return f"; continue from the last checkpoint: xgb_model={str(saved[-1])!r}"
