"""Memory that processes on one machine share, so that arrays in it need not be sent.

A process writes an array into memory of its own, and sends where that is; others map
the memory, and read. The memory has no name in a file system: it is open in the process
that owns it, where processes of the same user find it, and it is gone with the process,
however that ends. Linux alone has it; elsewhere, and between machines, arrays are sent.
"""

from __future__ import annotations

import mmap
import os
import secrets
import struct
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "NO_PLACE",
    "PLACE_BYTES",
    "MappedMemory",
    "Place",
    "SharedMemory",
    "can_map",
    "own_place",
    "place_of",
]

_ID_BYTES = 16
#: Where memory is: the process, its file, the offset, the length, and the identity.
_PLACE = struct.Struct(f"<IIQQ{_ID_BYTES}s")
PLACE_BYTES = _PLACE.size
#: Stands for the place of a process that cannot share memory.
NO_PLACE = bytes(PLACE_BYTES)
#: Arrays begin after the identity, where any array is aligned.
_BEGIN = 64
#: The most segments of other processes that stay mapped: a process writes into two in
#: turn, and passes on those of another.
_MOST_MAPPED = 8


#: Of memory: `PLACE_BYTES` bytes.
Place = bytes


class _Segment(mmap.mmap):
    """A mapped file that starts with an identity; it is there as long as its arrays."""

    identity: bytes
    address: int
    _owner: tuple[int, int]

    @classmethod
    def of(cls, pid: int, file: int, own: int, size: int, *, writes: bool) -> Self:
        """Return the memory of a process, in which it is open as `file`.

        `own` is a descriptor in this process. One that `writes` makes the identity.
        """
        segment = cls(
            own, size, access=mmap.ACCESS_WRITE if writes else mmap.ACCESS_READ
        )
        if writes:
            segment[:_ID_BYTES] = secrets.token_bytes(_ID_BYTES)
        segment.identity, segment._owner = segment[:_ID_BYTES], (pid, file)
        segment.address = segment.bytes().ctypes.data
        return segment

    def bytes(self) -> NDArray[np.uint8]:
        """Return all bytes."""
        return np.frombuffer(self, np.uint8)

    def place_of(self, address: int, size: int) -> Place | None:
        """Return the place of memory of this process; None: it is not in here."""
        offset = address - self.address
        if not 0 <= offset <= offset + size <= len(self):
            return None
        return _PLACE.pack(*self._owner, offset, size, self.identity)


#: All that are there in this process, by address.
_segments: weakref.WeakValueDictionary[int, _Segment] = weakref.WeakValueDictionary()


def _new_segment(size: int) -> _Segment | None:
    """Return new memory of this process; None: it cannot have any."""
    if not hasattr(os, "memfd_create"):
        return None
    try:
        file = os.memfd_create("hornbeam", os.MFD_CLOEXEC)
    except OSError:
        return None
    try:
        os.truncate(file, size)
        segment = _Segment.of(os.getpid(), file, file, size, writes=True)
    except OSError:
        os.close(file)
        return None
    weakref.finalize(segment, os.close, file)
    _segments[segment.address] = segment
    return segment


class SharedMemory:
    """Memory for one array at a time, which other processes may map.

    Where there is none to share, it is of this process alone, and is sent.
    """

    def __init__(self) -> None:
        self._bytes = np.empty(0, np.uint8)

    def array(self, shape: Sequence[int], dtype: Any) -> NDArray[Any]:
        """Return an array of any content, in the place of the one before."""
        dtype = np.dtype(dtype)
        count = int(np.prod(shape))
        size = count * dtype.itemsize
        if size > self._bytes.size:
            size_in_bytes = max(size, 2 * self._bytes.size)
            segment = _new_segment(_BEGIN + size_in_bytes)
            if segment is None:
                self._bytes = np.empty(size_in_bytes, np.uint8)
            else:
                self._bytes = segment.bytes()[_BEGIN:]
        return self._bytes[:size].view(dtype).reshape(shape)


def place_of(buffer: Any) -> Place | None:
    """Return the place of memory that others can map; None: they cannot."""
    array = np.frombuffer(buffer, np.uint8)
    for reference in _segments.valuerefs():  # a list, while others add to it
        segment = reference()
        if segment is not None:
            place = segment.place_of(array.ctypes.data, array.size)
            if place is not None:
                return place
    return None


class MappedMemory:
    """Memory of other processes that places lead to, of which the last stay mapped."""

    def __init__(self) -> None:
        self._last: OrderedDict[bytes, _Segment] = OrderedDict()

    def at(self, place: Place) -> memoryview:
        """Return the memory at a place, to be read only.

        Raises an OSError if it is not there.
        """
        pid, file, offset, size, identity = _PLACE.unpack(place)
        segment = self._last.get(identity)
        if segment is None:
            segment = self._last[identity] = _open(pid, file, identity)
            if len(self._last) > _MOST_MAPPED:
                self._last.popitem(last=False)
        self._last.move_to_end(identity)
        if offset + size > len(segment):
            raise OSError("the memory of another process is shorter than it says")
        return segment.bytes()[offset : offset + size].data


def _open(pid: int, file: int, identity: bytes) -> _Segment:
    own = os.open(f"/proc/{pid}/fd/{file}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        size = os.fstat(own).st_size
        if size < _BEGIN:
            raise OSError("this is not the memory of another process")
        segment = _Segment.of(pid, file, own, size, writes=False)
    finally:
        os.close(own)
    if segment.identity != identity:
        raise OSError("this is not the memory of the other process")
    _segments[segment.address] = segment
    return segment


_probes: dict[int, _Segment | None] = {}


def own_place() -> bytes:
    """Return a place of this process, by which others see whether they can map it."""
    pid = os.getpid()
    if pid not in _probes:  # not in a process that was forked from this one
        _probes.clear()
        _probes[pid] = _new_segment(_BEGIN)
    probe = _probes[pid]
    if probe is None:
        return NO_PLACE
    return place_of(probe) or NO_PLACE


def can_map(place: bytes) -> bool:
    """Return whether this process can map the memory of the one with `own_place`."""
    try:
        MappedMemory().at(place)
    except (OSError, ValueError):
        return False
    return True
