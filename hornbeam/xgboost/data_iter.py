"""Batches from a class of one's own, as XGBoost asks for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hornbeam.data.sources.data_iter import DataIter as _DataIter

__all__ = ["DataIter", "SingleBatchInternalIter"]


class DataIter(_DataIter):
    """Rows in batches, by a class of one's own: subclass it and write both methods.

    The arguments are those of `hornbeam.DataIter`.
    """

    def reraise(self) -> None:
        """Raise what is left of errors: nothing, for they are raised at once."""


class SingleBatchInternalIter(DataIter):
    """One batch: the data, and what goes beside it, as `DMatrix` takes them."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        self.kwargs = kwargs
        self.it = 0

    def next(self, input_data: Callable[..., None]) -> bool:
        if self.it == 1:
            return False
        self.it += 1
        input_data(**self.kwargs)
        return True

    def reset(self) -> None:
        self.it = 0
