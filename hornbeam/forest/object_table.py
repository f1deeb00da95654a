"""Objects of a document that have the same keys, such as its trees, as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray

from hornbeam.forest.json_fields import as_array

__all__ = ["ABSENT", "ObjectTable"]

#: In `ObjectTable.values`: the object has no such key.
ABSENT: Any = object()


class ObjectTable(Sequence[dict[str, Any]]):
    """A list of objects with the same keys, whose arrays are parts of columns.

    A forest has some 15 small arrays a tree, of which each takes longer to convert than
    its numbers do. So formats convert the columns.

    Parameters
    ----------
    size
        The number of objects.
    columns
        By key: the arrays of all objects, concatenated, and (size + 1,) the bounds of
        each in it.
    values
        By key: the other values of all objects; `ABSENT` for those without one. Values
        that are objects may be a table, too.
    """

    def __init__(
        self,
        size: int,
        columns: dict[str, tuple[NDArray[Any], list[int]]],
        values: dict[str, Any],
    ) -> None:
        self.size, self.columns, self.values = size, columns, values
        #: What has written the objects last, and what it has returned.
        self._written: tuple[Any, list[bytes]] = None, []

    @classmethod
    def of(cls, objects: list[Any]) -> Self | None:
        """Return the table of these objects; None unless they have the same keys.

        Under a key are arrays of one type, of which those without numbers may be lists,
        or other values.
        """
        first = objects[0] if objects else None
        if not isinstance(first, dict) or len(objects) < 2:
            return None
        keys = first.keys()
        if not all(isinstance(own, dict) and own.keys() == keys for own in objects):
            return None
        columns, values = {}, {}
        for key in keys:
            found = values[key] = [own[key] for own in objects]
            arrays = [own for own in found if isinstance(own, np.ndarray)]
            if len({own.dtype for own in arrays}) < 2 and all(
                isinstance(own, np.ndarray) or own == [] for own in found
            ):
                bounds = list(accumulate(map(len, found), initial=0))
                column = np.concatenate(arrays) if arrays else np.empty(0, np.int64)
                columns[key] = column, bounds
                del values[key]
        return cls(len(objects), columns, values)

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, number: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, number: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, number: int | slice) -> Any:
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(self.size))]
        if not 0 <= number < self.size:
            raise IndexError(f"{number} is not one of {self.size} objects")
        own = {
            key: column[bounds[number] : bounds[number + 1]]
            for key, (column, bounds) in self.columns.items()
        }
        for key, values in self.values.items():
            if values[number] is not ABSENT:
                own[key] = values[number]
        return own

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(self.__getitem__, range(self.size))

    def written(
        self,
        head: Callable[[str], bytes],
        arrays: Callable[[NDArray[Any], list[int]], list[bytes]],
        write: Callable[[Any, list[bytes]], None],
        separator: bytes,
    ) -> list[bytes]:
        """Return the bytes of each object in a format, with sorted keys.

        They are kept, since a checksum and a file contain the same.

        Parameters
        ----------
        head
            Returns how the member of a key begins.
        arrays
            Returns the bytes of the arrays of a column, given their bounds.
        write
            Appends the bytes of a value to a list.
        separator
            What is between members.
        """
        if self._written[0] is not write:
            keys = sorted(self.columns.keys() | self.values.keys())
            of_keys = [
                self._members(key, head, arrays, write, separator) for key in keys
            ]
            objects = [
                b"{%s}" % separator.join(filter(None, own))
                for own in zip(*of_keys, strict=True)
            ]
            self._written = write, objects
        return self._written[1]

    def _members(
        self,
        key: str,
        head: Callable[[str], bytes],
        arrays: Callable[[NDArray[Any], list[int]], list[bytes]],
        write: Callable[[Any, list[bytes]], None],
        separator: bytes,
    ) -> list[bytes]:
        """Return the bytes of one member of each object; none where it is absent."""
        begin = head(key)
        if key in self.columns:
            return [begin + array for array in arrays(*self.columns[key])]
        values = self.values[key]
        if isinstance(values, ObjectTable):
            nested = values.written(head, arrays, write, separator)
            return [begin + own for own in nested]
        found = []
        for value in values:
            parts: list[bytes] = []
            if value is not ABSENT:
                parts.append(begin)
                write(value, parts)
            found.append(b"".join(parts))
        return found

    def take(self, key: str) -> list[Any]:
        """Remove the values of a key, and return them; none if there is no such key."""
        if key not in self.values:
            return []
        self._written = None, []
        found: list[Any] = self.values.pop(key)
        return found

    def set(self, number: int, key: str, value: Any) -> None:
        """Set a value of one object, of a key without a column."""
        self._written = None, []
        self.values.setdefault(key, [ABSENT] * self.size)[number] = value

    def column(
        self, key: str, counts: Sequence[int], dtype: type[np.number]
    ) -> NDArray[Any] | None:
        """Return a column of these counts of numbers as `dtype`; None if it is another.

        None as well where the objects lack the key.
        """
        column, bounds = self.columns.get(key, (None, []))
        if column is None or not np.array_equal(np.diff(bounds), counts):
            return None
        return as_array(column, dtype)
