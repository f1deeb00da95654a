"""DataIter: a user-defined iterator of batches, as in XGBoost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from typing import Any

from hornbeam.data.sources.batches import Batch, Source
from hornbeam.errors import DataError, ErrorCode

__all__ = ["DataIter", "IterSource"]


class DataIter(ABC):
    """Base class of user-defined iterators of batches. Implement `next` and `reset`.

    Pass an instance to `DMatrix`, `QuantileDMatrix` or `ExtMemQuantileDMatrix`. It is
    read in several passes, and must yield the same rows in the same order each time.

    Parameters
    ----------
    cache_prefix
        Folder for bins in external memory, as `cache` of `DMatrix` and
        `ExtMemQuantileDMatrix`. It is created if it does not exist.
    release_data, on_host, min_cache_page_bytes
        Accepted for compatibility with XGBoost. Here a batch is released when the next
        one is read, and blocks have a fixed number of rows.

    Examples
    --------
    >>> import hornbeam
    >>> import numpy as np
    >>> class Parts(hornbeam.DataIter):
    ...     def __init__(self, parts):
    ...         self._parts = parts
    ...         self.reset()
    ...         super().__init__()
    ...
    ...     def reset(self):
    ...         self._left = iter(self._parts)
    ...
    ...     def next(self, input_data):
    ...         part = next(self._left, None)
    ...         if part is None:
    ...             return False
    ...         input_data(data=part[:, :-1], label=part[:, -1])
    ...         return True
    ...
    >>> parts = [np.random.default_rng(seed).random((100, 4)) for seed in range(3)]
    >>> data = hornbeam.QuantileDMatrix(Parts(parts))
    >>> data.num_row(), data.num_col()
    (300, 3)
    """

    def __init__(
        self,
        cache_prefix: str | None = None,
        release_data: bool = True,
        *,
        on_host: bool = True,
        min_cache_page_bytes: int | None = None,
    ) -> None:
        self.cache_prefix = cache_prefix
        self.release_data = release_data
        self.on_host = on_host
        self.min_cache_page_bytes = min_cache_page_bytes

    @abstractmethod
    def next(self, input_data: Callable[..., None]) -> bool | int:
        """Call `input_data` with the next batch and return True; False at the end.

        Its keyword arguments are those of ``DMatrix``: `data`, `label`, `weight`,
        `base_margin`, `group`, `qid`, `label_lower_bound`, `label_upper_bound`,
        `feature_names`, `feature_types`, `feature_weights`, `row_key`.
        """

    @abstractmethod
    def reset(self) -> None:
        """Go back to the first batch."""


class IterSource(Source):
    """A `DataIter`, or an object with its two methods, such as XGBoost's DataIter."""

    def __init__(self, iterator: Any) -> None:
        self._iterator = iterator
        self.name = f"the {type(iterator).__name__}"
        self.advice = (
            "its next() must give the same rows in the same order after each reset()"
        )

    def batches(
        self, columns: Sequence[str] | None = None
    ) -> Generator[Batch, None, None]:
        self._iterator.reset()
        number = 0
        while True:
            inbox = _Inbox(f"batch {number} of {self.name}")
            more = self._iterator.next(inbox)
            if not more:
                if inbox.batch is not None:
                    raise DataError(
                        f"next() of {self.name} gave batch {number} to input_data, but "
                        f"returned {more!r}, which means that there was none; return "
                        "True with each batch and False after the last",
                        code=ErrorCode.INVALID_BATCH,
                    )
                return
            if inbox.batch is None:
                raise DataError(
                    f"next() of {self.name} returned {more!r} without giving batch "
                    f"{number} to input_data; return False after the last batch",
                    code=ErrorCode.INVALID_BATCH,
                )
            yield inbox.batch
            number += 1


class _Inbox:
    """The argument `input_data` of `DataIter.next`, which takes a batch."""

    def __init__(self, where: str) -> None:
        self._where = where
        self.batch: Batch | None = None

    def __call__(
        self,
        *places: Any,
        data: Any = None,
        label: Any = None,
        weight: Any = None,
        base_margin: Any = None,
        group: Any = None,
        qid: Any = None,
        label_lower_bound: Any = None,
        label_upper_bound: Any = None,
        feature_names: Sequence[str] | None = None,
        feature_types: Sequence[str] | None = None,
        feature_weights: Any = None,
        row_key: Any = None,
    ) -> None:
        """Set the next batch; the arguments are those of ``DMatrix``."""
        if places:
            raise TypeError(
                f"{self._where}: input_data takes its arguments by name, as in "
                "input_data(data=..., label=...). Keyword argument is required."
            )
        if self.batch is not None:
            raise DataError(
                f"{self._where}: input_data was called twice; call it once in a next()",
                code=ErrorCode.INVALID_BATCH,
            )
        info = {
            "label": label,
            "weight": weight,
            "base_margin": base_margin,
            "group": group,
            "qid": qid,
            "label_lower_bound": label_lower_bound,
            "label_upper_bound": label_upper_bound,
            "feature_weights": feature_weights,
            "row_key": row_key,
        }
        given = {part: value for part, value in info.items() if value is not None}
        self.batch = Batch(data, given, feature_names, feature_types)
