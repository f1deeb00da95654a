"""Schema, fields and sample rows gathered in the first pass over a source."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from hornbeam.data.categories import union
from hornbeam.data.labels import FIELDS, read_numbers, read_whole, size_mismatch
from hornbeam.data.row_keys import read_row_key
from hornbeam.data.schema import Schema, listed, time_kind
from hornbeam.data.table import ContentChecksum, Table
from hornbeam.errors import DataError, ErrorCode

__all__ = [
    "FieldCollector",
    "FirstPass",
    "Sample",
    "kind_of",
    "part_of",
    "places_by_name",
    "reorder_columns",
]

# Sampled rows, which later passes are compared with: the first ones, and every
# `EVERY`-th row. Reading one row of a wide data frame takes 0.1 ms.
FIRST_ROWS = 8
EVERY = 1 << 13
KINDS = {"c": "categories", "i": "true or false"}
NUMBERS = "numbers"


class FirstPass:
    """Gathers the schema, the number of rows and sampled rows of a source.

    Parameters
    ----------
    content
        Whether to take a checksum of the rows, too.
    """

    def __init__(self, content: bool = False) -> None:
        self.content = ContentChecksum() if content else None
        self.schema: Schema | None = None
        self.n_rows = 0
        self.dtype: np.dtype[Any] = np.dtype(np.float32)
        self.sample = Sample()
        # Columns without a value so far, whose type is not known yet.
        self._blank: set[int] = set()

    def add(self, table: Table) -> None:
        """Add the next batch; raise a `DataError` if its columns differ."""
        # A container without rows may not know its types.
        if self.schema is None or (self.n_rows == 0 and table.n_rows):
            self.schema, self.dtype = table.schema, table.dtype
            self._blank = set(range(table.n_features))
        elif table.n_rows:
            table = reorder_columns(table, self.schema, self._blank)
            self.dtype = np.result_type(self.dtype, table.dtype)
            self.schema = self._merged(table)
        self._blank = table.without_values(self._blank)
        self.sample.add(table, self.n_rows)
        if self.content is not None and table.n_rows:
            self.content.add(table)
        self.n_rows += table.n_rows

    def _merged(self, table: Table) -> Schema:
        first = self.schema
        assert first is not None
        names = first.names or [str(feature) for feature in range(first.n_features)]
        types = None
        if first.types is not None and table.types is not None:
            types = [
                self._type(feature, *pair, feature in table.typeless)
                for feature, pair in enumerate(
                    zip(first.types, table.types, strict=True)
                )
            ]
        categories = union([first.categories, table.categories], names)
        return Schema(first.n_features, first.names, types, categories)

    def _type(self, feature: int, first: str, given: str, typeless: bool) -> str:
        if typeless or first == given or time_kind([first, given], 1):
            return first
        # Whole numbers in one batch and floats in another are floats.
        return given if feature in self._blank else "float"


def reorder_columns(
    table: Table, first: Schema, blank: Collection[int] = frozenset()
) -> Table:
    """Return the table with its columns in the order of the first batch.

    Raises a `DataError` for columns that are missing, new, or of another kind. A column
    without values matches any kind; `blank` are those of earlier batches.
    """
    if (table.names is None) != (first.names is None):
        without = "it" if table.names is None else "the first batch"
        raise DataError(
            f"of it and the first batch only one has names of columns, not {without}; "
            "give each batch as the same kind of table",
            code=ErrorCode.BATCH_NAMES_MISMATCH,
        )
    if table.names is None and table.n_features != first.n_features:
        raise DataError(
            f"it has {table.n_features} columns, and the first batch has "
            f"{first.n_features}; give the same columns in each",
            code=ErrorCode.BATCH_COLUMNS_MISMATCH,
        )
    if table.names is not None and table.names != first.names:
        places = places_by_name(
            table.names,
            first.names or [],
            lambda faults: DataError(
                f"its columns are not those of the first batch; {faults}; give the "
                "same columns in each",
                code=ErrorCode.BATCH_NAMES_MISMATCH,
            ),
        )
        table = table.select(places)
    for feature in range(table.n_features):
        here, there = kind_of(table.types, feature), kind_of(first.types, feature)
        if here == there or feature in table.typeless or feature in blank:
            continue
        if here == NUMBERS and np.isnan(table.column(feature)).all():
            table.typeless |= {feature}
            continue
        raise DataError(
            f"{table.label(feature)} holds {here}, and {there} in the first batch; "
            "give it one type in all batches",
            code=ErrorCode.BATCH_TYPES_MISMATCH,
        )
    return table


def places_by_name(
    names: Sequence[str], first: Sequence[str], error_of: Callable[[str], DataError]
) -> list[int]:
    """Return the index in `names` of each name in `first`, which are the same names.

    If they are not, the error for a list of those that are missing or new is raised.
    """
    place = {name: i for i, name in enumerate(names)}
    known = set(first)
    faults = []
    if absent := [name for name in first if name not in place]:
        faults.append(f"missing: {listed(absent)}")
    if extra := [name for name in names if name not in known]:
        faults.append(f"new: {listed(extra)}")
    if faults:
        raise error_of("; ".join(faults))
    return [place[name] for name in first]


def kind_of(types: Sequence[str] | None, feature: int) -> str:
    """Return the name of a column's kind of values in error messages."""
    kind = types[feature] if types else ""
    return time_kind(types, feature) or KINDS.get(kind, NUMBERS)


def part_of(schema: Schema, features: Sequence[int] | None) -> Schema:
    """Return the schema of some columns, in this order; None: all."""
    if features is None:
        return schema
    return Schema(
        len(features),
        None if schema.names is None else [schema.names[f] for f in features],
        None if schema.types is None else [schema.types[f] for f in features],
        schema.categories.select(features),
    )


class Sample:
    """Sampled rows of the first pass, to check that later passes read the same rows."""

    def __init__(self) -> None:
        # The columns with a value and their values, by row: sparse rows may be wide.
        self._rows: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def add(self, table: Table, first_row: int) -> None:
        """Keep sampled rows of a batch, without categories, whose codes can change."""
        for row in _sampled(first_row, table.n_rows):
            values = _values(table, row - first_row)
            here = np.flatnonzero(~np.isnan(values))
            self._rows[row] = here, values[here]

    def differs(
        self, table: Table, first_row: int, features: Sequence[int] | None
    ) -> int | None:
        """Return the first sampled row that differs; None if all are equal."""
        chosen = None if features is None else np.array(features, np.intp)
        for row in _sampled(first_row, table.n_rows):
            if row not in self._rows:
                return row
            here, before = self._rows[row]
            if chosen is None:
                width = table.n_features
            else:
                width = 1 + max(chosen.max(initial=-1), here.max(initial=-1))
            expected = np.full(width, np.nan)
            expected[here] = before
            if chosen is not None:
                expected = expected[chosen]
            values = _values(table, row - first_row)
            if not np.array_equal(values, expected, equal_nan=True):
                return row
        return None


def _values(table: Table, row: int) -> np.ndarray:
    """Return the values of a row, without categories."""
    values = table.rows(row, row + 1)[0].astype(np.float64)
    values[_categorical(table)] = np.nan
    return values


def _sampled(first_row: int, n_rows: int) -> list[int]:
    last = first_row + n_rows
    start = -(-max(first_row, FIRST_ROWS) // EVERY) * EVERY
    return [*range(first_row, min(last, FIRST_ROWS)), *range(start, last, EVERY)]


def _categorical(table: Table) -> list[int]:
    return [f for f, kind in enumerate(table.types or ()) if kind == "c"]


# Numbers of whole groups, or of the group of each row.
GROUPS = ("group", "qid")
PARTS = (*FIELDS, *GROUPS, "row_key")


class FieldCollector:
    """Collects labels, weights and other fields of rows batch by batch.

    Checks that lengths fit, and that each batch has the same fields. Values are checked
    when a matrix sets the complete fields.
    """

    def __init__(self) -> None:
        self._parts: dict[str, list[np.ndarray]] | None = None

    def add(self, info: Mapping[str, Any], n_rows: int) -> None:
        """Add the fields of the next `n_rows` rows."""
        unknown = [name for name in info if name not in PARTS]
        if unknown:
            raise DataError(
                f"a batch brings {listed(unknown)}; it may bring {listed(PARTS)}",
                code=ErrorCode.INVALID_BATCH,
            )
        part = {name: read_part(name, info[name]) for name in info}
        _check_lengths(part, n_rows)
        if self._parts is None:
            self._parts = {name: [] for name in part}
        _check_same_fields(list(self._parts), list(part))
        for name, values in part.items():
            before = self._parts[name]
            if before and values.shape[1:] != before[0].shape[1:]:
                raise DataError(
                    f"{name} has shape {values.shape} here and {before[0].shape} in "
                    "the first batch; give the same number of columns in each",
                    code=ErrorCode.BATCH_FIELD_MISMATCH,
                )
            if name != "feature_weights" or not before:
                before.append(values)
            elif not np.array_equal(values, before[0]):
                raise DataError(
                    "feature_weights differ from those of the first batch; they belong "
                    "to columns, so pass the same ones with each batch, or pass them "
                    "to the matrix",
                    code=ErrorCode.BATCH_FIELD_MISMATCH,
                )

    def whole(self) -> dict[str, np.ndarray]:
        """Return each field of all rows."""
        return {
            name: np.concatenate(values) for name, values in (self._parts or {}).items()
        }


def read_part(name: str, data: Any) -> np.ndarray:
    """Return the values of a field as float64; those of groups and keys as integers."""
    if name == "row_key":
        return read_row_key(data, len(data))
    if name in GROUPS:
        return read_whole(data, name)
    values = read_numbers(data, FIELDS[name])
    if values.ndim == 0:
        raise DataError(
            f"{name} is one value; pass one for each row of the batch",
            code=ErrorCode.META_INFO_SIZE_MISMATCH,
        )
    if values.ndim == 2 and values.shape[1] == 1 and name != "base_margin":
        values = values[:, 0]
    return values


def _check_lengths(part: Mapping[str, np.ndarray], n_rows: int) -> None:
    group = part.get("group")
    if group is not None and group.sum() != n_rows:
        raise DataError(
            f"the sizes in group add up to {group.sum()}, but there are {n_rows} rows "
            "in this batch; a group must not go on in the next batch: use qid there",
            code=ErrorCode.GROUP_SIZES_MISMATCH,
        )
    for name, values in part.items():
        if name in ("group", "feature_weights") or len(values) == n_rows:
            continue
        # One weight per group is valid, too; the matrix checks the complete field.
        if name == "weight" and ("group" in part or "qid" in part):
            continue
        raise DataError(
            f"{name} has {len(values)} values for {n_rows} rows; pass one for each row",
            code=size_mismatch(name),
        )


def _check_same_fields(first: list[str], given: list[str]) -> None:
    absent = [name for name in first if name not in given]
    extra = [name for name in given if name not in first]
    if absent:
        raise DataError(
            f"it has no {listed(absent)}, and the first batch has; give each batch "
            "the same",
            code=ErrorCode.BATCH_FIELD_MISMATCH,
        )
    if extra:
        raise DataError(
            f"it has {listed(extra)}, and the first batch does not; give each batch "
            "the same",
            code=ErrorCode.BATCH_FIELD_MISMATCH,
        )
