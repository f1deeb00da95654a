"""Parquet and Arrow IPC files."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any

from hornbeam.data.sources.batches import Batch, batch_rows, or_empty
from hornbeam.data.sources.files import FileFormat
from hornbeam.errors import require

__all__ = ["ArrowIPC", "Parquet"]

# Bytes of a column that are read at once. The default reads the whole column of a row
# group, which can be hundreds of megabytes.
BUFFER = 1 << 16


class Parquet(FileFormat):
    """Parquet files, read by batches of rows; only the needed columns."""

    name = "parquet"
    endings = (".parquet", ".pq")

    def column_names(self, path: str) -> list[str]:
        with _open_parquet(path) as file:
            return list(file.schema_arrow.names)

    def batches(
        self, path: str, columns: Sequence[str] | None
    ) -> Generator[Batch, None, None]:
        with _open_parquet(path) as file:
            names = None if columns is None else list(columns)
            rows = batch_rows(len(file.schema_arrow if names is None else names))
            batches = file.iter_batches(rows, columns=names, use_threads=False)
            if names is not None:
                # The reader returns columns in the order of the file.
                batches = (batch.select(names) for batch in batches)
            yield from or_empty(batches, lambda: file.read(names))


def _open_parquet(path: str) -> Any:
    parquet = require("pyarrow.parquet", "files", "reading Parquet")
    return parquet.ParquetFile(path, buffer_size=BUFFER, pre_buffer=False)


# First bytes of the file format; the stream format has none.
MAGIC = b"ARROW1"


class ArrowIPC(FileFormat):
    """Arrow IPC files: the file format (also Feather) and the stream format."""

    name = "arrow"
    endings = (".arrow", ".ipc", ".feather", ".arrows")

    def column_names(self, path: str) -> list[str]:
        with _open_ipc(path, None) as reader:
            return list(reader.schema.names)

    def batches(
        self, path: str, columns: Sequence[str] | None
    ) -> Generator[Batch, None, None]:
        included = None
        if columns is not None:
            names = self.column_names(path)
            included = sorted(names.index(name) for name in columns)
        with _open_ipc(path, included) as reader:
            yield from or_empty(_pieces(reader, columns), reader.schema.empty_table)


def _open_ipc(path: str, included: list[int] | None) -> Any:
    pa = require("pyarrow", "files", "reading Arrow IPC")
    ipc = require("pyarrow.ipc", "files", "reading Arrow IPC")
    options = ipc.IpcReadOptions(included_fields=included)
    with open(path, "rb") as file:
        is_file = file.read(len(MAGIC)) == MAGIC
    if is_file:
        return ipc.open_file(pa.memory_map(path), options=options)
    return ipc.open_stream(pa.OSFile(path), options=options)


def _pieces(reader: Any, columns: Sequence[str] | None) -> Iterator[Any]:
    """Yield the rows of a file or stream reader in small batches."""
    batches = reader
    if hasattr(reader, "num_record_batches"):
        batches = map(reader.get_batch, range(reader.num_record_batches))
    for batch in batches:
        chosen = batch if columns is None else batch.select(list(columns))
        step = batch_rows(chosen.num_columns)
        for row in range(0, chosen.num_rows, step):
            yield chosen.slice(row, step)
