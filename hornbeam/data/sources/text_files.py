"""CSV and libsvm files."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Generator, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from hornbeam.data.sources.batches import Batch, or_empty
from hornbeam.data.sources.files import FileFormat
from hornbeam.errors import DataError, ErrorCode, require

__all__ = ["CSV", "Svmlight"]

# Bytes of one batch. pyarrow infers types from the first batch only.
BLOCK = 4 << 20
# Not those of str.splitlines, of which some are text for pyarrow.
LINE_END = re.compile(r"\r\n|\r|\n")
# pyarrow's error for a value that is not of the type of the first block.
MISFIT = re.compile(r"In CSV column #(\d+): .*CSV conversion error to (\w+)")


class CSV(FileFormat):
    """CSV files, with or without a header.

    The first line is a header unless every field of it is a number. Empty fields and
    pyarrow's null values (NA, null, NaN) are missing unless they are quoted.

    Parameters
    ----------
    delimiter
        Delimiter of fields; None: a tab for files that end in .tsv, else a comma.
    """

    name = "csv"
    endings = (".csv", ".csv.gz", ".tsv")
    options = ("delimiter",)

    def __init__(self, delimiter: str | None = None) -> None:
        if delimiter is not None and len(delimiter) != 1:
            raise DataError(
                f"delimiter must be one character, not {delimiter!r}",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
        self._delimiter = delimiter
        self._arrow = require("pyarrow", "files", "reading CSV")
        self._csv = require("pyarrow.csv", "files", "reading CSV")
        # Types of columns by file, which hold for the whole file.
        self._types: dict[str, dict[str, Any]] = {}

    def column_names(self, path: str) -> list[str]:
        first = self._first_line(path)
        self.named = self._has_names(first)
        return first if self.named else [f"f{i}" for i in range(len(first))]

    def batches(
        self, path: str, columns: Sequence[str] | None
    ) -> Generator[Batch, None, None]:
        if path not in self._types:
            self._types[path] = self._find_types(path)
        with self._open(path, self._types[path], columns) as reader:
            yield from or_empty(reader, reader.schema.empty_table)

    def _find_types(self, path: str) -> dict[str, Any]:
        """Return a type for each column that holds all its values.

        A fractional number turns a column of integers into floats, and text turns it
        into strings. Each change takes another pass over the file.
        """
        pa = self._arrow
        wider = {
            "null": pa.int64(),
            "int64": pa.float64(),
            "double": pa.string(),
            "bool": pa.string(),
        }
        names = self.column_names(path)
        types: dict[str, Any] = {}
        while True:
            try:
                with self._open(path, types, None) as reader:
                    found = dict(
                        zip(reader.schema.names, reader.schema.types, strict=True)
                    )
                    for _ in reader:
                        pass
                    return found
            except pa.ArrowInvalid as error:
                misfit = MISFIT.search(str(error))
                if misfit is None:
                    raise
                # A column with only some dates or times is text.
                types = found | {
                    names[int(misfit[1])]: wider.get(misfit[2], pa.string())
                }

    def _open(
        self, path: str, types: dict[str, Any], columns: Sequence[str] | None
    ) -> Any:
        names = None if self.named else self.column_names(path)
        return self._csv.open_csv(
            path,
            # With one thread, errors name the row.
            read_options=self._csv.ReadOptions(
                use_threads=False, block_size=BLOCK, column_names=names
            ),
            parse_options=self._csv.ParseOptions(delimiter=self._between(path)),
            convert_options=self._csv.ConvertOptions(
                column_types=types,
                include_columns=None if columns is None else list(columns),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )

    def _between(self, path: str) -> str:
        if self._delimiter is not None:
            return self._delimiter
        return "\t" if path.lower().endswith(".tsv") else ","

    def _first_line(self, path: str) -> list[str]:
        with self._arrow.input_stream(path, compression="detect") as file:
            # In Arrow's memory: `read` would not free its own if it failed.
            start = file.read_buffer(BLOCK).to_pybytes()
        lines = LINE_END.split(start.decode("utf-8-sig", errors="replace"))
        rows = csv.reader(
            (line for line in lines if line.strip()), delimiter=self._between(path)
        )
        try:
            first = next(rows, None)
        except csv.Error as error:
            raise DataError(
                f"cannot read the first line of {path}: {error}",
                code=ErrorCode.FILE_NOT_READABLE,
            ) from None
        if first is None:
            raise DataError(
                f"cannot read {path}: the file is empty",
                code=ErrorCode.FILE_NOT_READABLE,
            )
        return first

    @staticmethod
    def _has_names(first: Sequence[str]) -> bool:
        return not all(_is_number(field) for field in first if field) or not any(first)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


#: Columns that a libsvm file may have without `n_features`: so many, and so many more
#: for each entry. A file that names a far larger one has a wrong number in it.
_MAX_COLUMNS, _COLUMNS_PER_ENTRY = 1 << 18, 64
#: Argument of scikit-learn for each `indexing_mode`.
_ZERO_BASED: dict[str, bool | str] = {"0": True, "1": False, "-1": "auto"}


class Svmlight(FileFormat):
    """libsvm files: each is one sparse table with labels, and qid if the file has it.

    A line may begin with ``label:weight``; then every line does.

    Parameters
    ----------
    n_features
        Number of columns; None: derived from the largest index in the file, which must
        not be out of proportion to the number of entries.
    indexing_mode
        Index of the first feature, as in XGBoost: ``"0"`` (default) or ``"1"``;
        ``"-1"``: 1 unless the file has an index 0.
    """

    name = "libsvm"
    endings = (".libsvm", ".svm", ".svmlight")
    options = ("n_features", "indexing_mode")
    parts: ClassVar[dict[str, str]] = {}
    projects = False

    def __init__(self, n_features: str | None = None, indexing_mode: str = "0") -> None:
        if n_features is not None and not n_features.isdecimal():
            raise DataError(
                f"n_features must be a number, not {n_features!r}",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
        if indexing_mode not in _ZERO_BASED:
            raise DataError(
                f"indexing_mode must be 0, 1 or -1, not {indexing_mode!r}",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
        self._n_features = None if n_features is None else int(n_features)
        self._zero_based = _ZERO_BASED[indexing_mode]

    def column_names(self, path: str) -> list[str] | None:
        return None

    def batches(
        self, path: str, columns: Sequence[str] | None
    ) -> Generator[Batch, None, None]:
        datasets = require("sklearn.datasets", "files", "reading libsvm files")
        text, weights = _without_weights(path)
        rows, labels, qid = datasets.load_svmlight_file(
            path if text is None else io.BytesIO(text),
            n_features=self._n_features,
            zero_based=self._zero_based,
            query_id=True,
        )
        width = rows.shape[1]
        if (
            self._n_features is None
            and width > _MAX_COLUMNS + _COLUMNS_PER_ENTRY * rows.nnz
        ):
            raise DataError(
                f"{path} has {rows.nnz} entries, and one of them is of feature "
                f"{width - 1}, so that a matrix would have far more columns than "
                f"entries; if the number is right, append ?n_features={width} to the "
                "path",
                code=ErrorCode.FILE_NOT_READABLE,
            )
        parts = {"label": labels, "weight": weights, "qid": qid if len(qid) else None}
        yield Batch(rows, {k: v for k, v in parts.items() if v is not None})


def _without_weights(path: str) -> tuple[bytes | None, npt.NDArray[np.float64] | None]:
    """Return a libsvm file without the weights after its labels, and the weights.

    None and None if the first row of the file has no weight, or it is compressed.
    """
    if path.endswith((".gz", ".bz2")):
        return None, None
    weights: list[float] = []
    lines = []
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            row = line.partition(b"#")[0].split(maxsplit=1)
            if not row:
                continue
            label, colon, weight = row[0].partition(b":")
            if not (colon or weights):
                return None, None
            try:
                weights.append(float(weight))
            except ValueError:
                raise DataError(
                    f"cannot read {path}: line {number} begins with "
                    f"{row[0].decode(errors='replace')!r}, and the first row with "
                    "label:weight; give every row a weight, a number, or none",
                    code=ErrorCode.FILE_NOT_READABLE,
                ) from None
            lines.append(b" ".join([label, *row[1:]]))
    return b"\n".join(lines), np.array(weights)
