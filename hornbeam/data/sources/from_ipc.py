"""Arrow's own files: the IPC file format (Feather too) and the stream format."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any

from hornbeam.data.sources.batches import Batch, batch_rows, or_empty
from hornbeam.data.sources.files import FileFormat
from hornbeam.errors import require

__all__ = ["ArrowIPC"]

# What a file begins with; a stream has no such mark.
MAGIC = b"ARROW1"


class ArrowIPC(FileFormat):
    """Arrow IPC, in a file or as a stream."""

    name = "arrow"
    endings = (".arrow", ".ipc", ".feather", ".arrows")

    def column_names(self, path: str) -> list[str]:
        with _open(path, None) as reader:
            return list(reader.schema.names)

    def batches(
        self, path: str, columns: Sequence[str] | None
    ) -> Generator[Batch, None, None]:
        included = None
        if columns is not None:
            names = self.column_names(path)
            included = sorted(names.index(name) for name in columns)
        with _open(path, included) as reader:
            yield from or_empty(_pieces(reader, columns), reader.schema.empty_table)


def _open(path: str, included: list[int] | None) -> Any:
    pa = require("pyarrow", "files", "reading Arrow IPC")
    ipc = require("pyarrow.ipc", "files", "reading Arrow IPC")
    options = ipc.IpcReadOptions(included_fields=included)
    with open(path, "rb") as file:
        is_file = file.read(len(MAGIC)) == MAGIC
    if is_file:
        return ipc.open_file(pa.memory_map(path), options=options)
    return ipc.open_stream(pa.OSFile(path), options=options)


def _pieces(reader: Any, columns: Sequence[str] | None) -> Iterator[Any]:
    """Yield the rows of either reader in batches that are not large."""
    batches = reader
    if hasattr(reader, "num_record_batches"):
        batches = map(reader.get_batch, range(reader.num_record_batches))
    for batch in batches:
        chosen = batch if columns is None else batch.select(list(columns))
        step = batch_rows(chosen.num_columns)
        for row in range(0, chosen.num_rows, step):
            yield chosen.slice(row, step)
