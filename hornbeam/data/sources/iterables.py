"""Sources of Python objects: lists and functions of batches, LazyFrames, Datasets."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

from hornbeam.data.sources.batches import Batch, Source, batch_rows, or_empty
from hornbeam.errors import DataError, ErrorCode, require

__all__ = ["BatchesSource", "DatasetSource", "LazyFrameSource", "is_batch", "is_table"]


def is_table(data: Any) -> bool:
    """Return whether the object is a table that can be read several times."""
    if hasattr(data, "__next__"):
        return False
    return len(getattr(data, "shape", ())) == 2 or hasattr(data, "__arrow_c_stream__")


def is_batch(data: Any) -> bool:
    """Return whether the object is a table, (X, y) or (X, y, weight)."""
    if isinstance(data, tuple):
        return len(data) in (2, 3) and is_table(data[0])
    return isinstance(data, Batch) or is_table(data)


class BatchesSource(Source):
    """Batches of an iterable: tables, (X, y) or (X, y, weight).

    Parameters
    ----------
    begin
        Returns the iterable of batches; called once for each pass.
    name
        Name of the source in error messages.
    advice
        Advice in the error message if passes differ.
    """

    def __init__(
        self, begin: Callable[[], Iterable[Any]], name: str, advice: str
    ) -> None:
        self._begin = begin
        self.name = name
        self.advice = advice

    def batches(
        self, columns: Sequence[str] | None = None
    ) -> Generator[Batch, None, None]:
        items = self._begin()
        if is_table(items):
            items = [items]
        elif not isinstance(items, Iterable):
            raise DataError(
                f"{self.name} returned {type(items).__name__}, not batches; return a "
                "list or an iterator of tables or of (X, y) tuples",
                code=ErrorCode.INVALID_BATCH,
            )
        for number, item in enumerate(items):
            yield self._batch(number, item)

    def _batch(self, number: int, item: Any) -> Batch:
        if isinstance(item, Batch):
            return item
        # The DataLoader of torch yields lists instead of tuples.
        if isinstance(item, list) and item and is_table(item[0]):
            item = tuple(item)
        if not isinstance(item, tuple):
            return Batch(item)
        if len(item) not in (2, 3):
            raise DataError(
                f"batch {number} of {self.name} is a tuple of {len(item)}; a batch is "
                "a table, (X, y) or (X, y, weight)",
                code=ErrorCode.INVALID_BATCH,
            )
        given = zip(("label", "weight"), item[1:], strict=False)
        return Batch(
            item[0], {part: value for part, value in given if value is not None}
        )


class LazyFrameSource(Source):
    """A polars LazyFrame, collected batch by batch."""

    name = "the LazyFrame"
    advice = "add sort() to the query, or collect() it"
    projects = True
    owns_batches = True

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    @property
    def column_names(self) -> list[str]:
        return list(self._frame.collect_schema().names())

    def batches(
        self, columns: Sequence[str] | None = None
    ) -> Generator[Batch, None, None]:
        frame = self._frame if columns is None else self._frame.select(list(columns))
        rows = batch_rows(len(self.column_names if columns is None else columns))
        batches = frame.collect_batches(chunk_size=rows, maintain_order=True)
        yield from or_empty(batches, lambda: frame.limit(0).collect())


class DatasetSource(Source):
    """A pyarrow Dataset: files in any of its formats, read batch by batch."""

    name = "the Dataset"
    advice = "its files must not change while it is read"
    projects = True
    owns_batches = True

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    @property
    def column_names(self) -> list[str]:
        return list(self._dataset.schema.names)

    def batches(
        self, columns: Sequence[str] | None = None
    ) -> Generator[Batch, None, None]:
        rows = batch_rows(len(self.column_names if columns is None else columns))
        # One thread and little readahead, so that one batch is in memory, not dozens of
        # batches or all bytes of a Parquet file.
        options = None
        datasets = require("pyarrow.dataset", "files", "reading a Dataset")
        form = getattr(self._dataset, "format", None)
        if isinstance(form, datasets.ParquetFileFormat):
            options = datasets.ParquetFragmentScanOptions(pre_buffer=False)
        scanner = self._dataset.scanner(
            columns=None if columns is None else list(columns),
            batch_size=rows,
            batch_readahead=1,
            fragment_readahead=1,
            use_threads=False,
            fragment_scan_options=options,
        )
        empty = scanner.projected_schema.empty_table
        yield from or_empty(scanner.to_batches(), empty)
