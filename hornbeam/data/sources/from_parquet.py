"""Parquet files, read by batches of rows and only the columns that are asked for."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from hornbeam.data.sources.batches import Batch, batch_rows, or_empty
from hornbeam.data.sources.files import FileFormat
from hornbeam.errors import require

__all__ = ["Parquet"]

# Bytes of a column that are read from the file in one step. Without it the whole
# column of a row group is: hundreds of megabytes.
BUFFER = 1 << 16


class Parquet(FileFormat):
    """Parquet."""

    name = "parquet"
    endings = (".parquet", ".pq")

    def column_names(self, path: str) -> list[str]:
        with _open(path) as file:
            return list(file.schema_arrow.names)

    def batches(
        self, path: str, columns: Sequence[str] | None
    ) -> Generator[Batch, None, None]:
        with _open(path) as file:
            names = None if columns is None else list(columns)
            rows = batch_rows(len(file.schema_arrow if names is None else names))
            batches = file.iter_batches(rows, columns=names, use_threads=False)
            if names is not None:
                # They come in the order of the file.
                batches = (batch.select(names) for batch in batches)
            yield from or_empty(batches, lambda: file.read(names))


def _open(path: str) -> Any:
    parquet = require("pyarrow.parquet", "files", "reading Parquet")
    return parquet.ParquetFile(path, buffer_size=BUFFER, pre_buffer=False)
