"""The group of workers, as a task on one of them knows it."""

from __future__ import annotations

from distributed import get_worker

from hornbeam.xgboost.collective import CommunicatorContext as _CommunicatorContext

__all__ = ["CommunicatorContext"]


class CommunicatorContext(_CommunicatorContext):
    """A ``with`` block of a task on a worker; it is in a group of its own.

    Parameters
    ----------
    args
        Those of `hornbeam.xgboost.collective.init`.
    """

    def __init__(self, **args: int | str | None) -> None:
        super().__init__(**args)
        worker = get_worker()
        self.args["DMLC_TASK_ID"] = f"[xgboost.dask-{worker.name}]:{worker.address}"
