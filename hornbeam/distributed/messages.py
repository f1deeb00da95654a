"""How a value is sent: a head with checksums, the sizes of frames, and the frames.

A value is a pickle and the memory of its arrays, each a frame: arrays are sent from
where they are, received into new ones, and never pickled. Of arrays in shared memory
only the place is sent to a process on the same machine, which reads them there. A text
is one frame of JSON, for what a stranger might send. Each message has its number and
checksums: one that comes twice, in part, or is not what was sent, is an error at once.
"""

from __future__ import annotations

import json
import pickle
import struct
import traceback
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from operator import add
from typing import Any, Self

import numpy as np

from hornbeam.errors import ClusterError, ErrorCode, HornbeamError
from hornbeam.shared_memory import PLACE_BYTES, MappedMemory, place_of

__all__ = [
    "HEAD_BYTES",
    "SMALL",
    "GarbledMessageError",
    "Head",
    "Message",
    "sendable",
    "unpack",
]

#: A mark, the CRC-32 of the rest of the head, how many messages were sent before in
#: this direction, the number of frames, how many bytes follow the head at once, their
#: CRC-32, and the sum of the words of 8 bytes of frames that follow them.
_HEAD = struct.Struct("<4sIQIIIQ")
_MARK = b"\x89HBG"
_CHECKED = slice(8, None)
HEAD_BYTES = _HEAD.size
#: Messages below this size are sent, and their frames received, at once.
SMALL = 1 << 16
#: Of smaller frames the place takes as long to find as the frame to send.
_SHARED = 1 << 12
#: What follows a small frame is of this, so that the next one is aligned.
_PADDING = bytes(8)
#: Added to the size of a frame that is the place of shared memory.
_PLACED = 1 << 63
_RAISED_ON = "It was raised on"
#: The maximum size of a frame, of frames in a message, and of a message in JSON.
_MAX_FRAME, _MAX_FRAMES, _MAX_TEXT = 1 << 40, 1 << 20, 1 << 24


class GarbledMessageError(OSError):
    """A message was not the one that the other end had to send next."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message to be sent, once or to several receivers.

    Attributes
    ----------
    frames
        Bytes, the memory of arrays, or the places of shared memory.
    """

    frames: list[Any]
    _first: bytes
    _later: list[Any]
    _checksum: int

    @classmethod
    def of_frames(cls, frames: list[Any], *, shares_memory: bool = False) -> Self:
        """Return the message of these frames."""
        placed = [0] * len(frames)
        if shares_memory:
            for number, frame in enumerate(frames):
                place = place_of(frame) if len(frame) >= _SHARED else None
                if place is not None:
                    frames[number], placed[number] = place, _PLACED
        lengths = list(map(len, frames))
        sizes = struct.pack(f"<{len(frames)}Q", *map(add, lengths, placed))
        if sum(lengths) < SMALL:
            first = [sizes]
            for frame, length in zip(frames, lengths, strict=True):
                first += frame, _PADDING[: -length % 8]
            return cls(frames, b"".join(first), [], 0)
        return cls(frames, sizes, frames, sum(map(_sum_of_words, frames)) % 2**64)

    @classmethod
    def of(
        cls,
        value: Any,
        dumps: Callable[..., bytes] = pickle.dumps,
        *,
        shares_memory: bool = False,
    ) -> Self:
        """Return the message of a value; `dumps` pickles it as `pickle.dumps` does.

        `shares_memory` is whether the receiver can read shared memory of this process:
        then arrays in it must stay as they are until the receiver has used them.
        """
        buffers: list[pickle.PickleBuffer] = []
        head = dumps(value, protocol=5, buffer_callback=buffers.append)
        frames = [head, *(buffer.raw() for buffer in buffers)]
        return cls.of_frames(frames, shares_memory=shares_memory)

    @classmethod
    def of_text(cls, message: dict[str, Any]) -> Self:
        """Return the message of a mapping of numbers, strings and lists."""
        return cls.of_frames([json.dumps(message).encode()])

    @property
    def n_bytes(self) -> int:
        """The size of the frames."""
        return sum(map(len, self.frames))

    def packed(self) -> bytes:
        """Return the message alone, for a carrier with messages of its own."""
        return b"".join(self.parts(0))

    def parts(self, number: int) -> list[Any]:
        """Return all that is sent, as the message of this number."""
        first = self._first
        fields = number, len(self.frames), len(first), zlib.crc32(first), self._checksum
        crc = zlib.crc32(_HEAD.pack(b"", 0, *fields)[_CHECKED])
        return [_HEAD.pack(_MARK, crc, *fields) + first, *self._later]


class Head:
    """The head of a message that comes, and the checks of what follows it.

    Parameters
    ----------
    content
        The first `HEAD_BYTES` bytes.
    number
        That the message must have.
    mapped
        The memory that its places lead to; None: it has none.
    """

    def __init__(
        self, content: memoryview, number: int, mapped: MappedMemory | None = None
    ) -> None:
        self._mapped = mapped
        mark, crc, found, self._count, *self._first, self._checksum = _HEAD.unpack(
            content
        )
        if mark != _MARK or crc != zlib.crc32(content[_CHECKED]):
            raise GarbledMessageError("it is no message")
        if found != number:
            raise GarbledMessageError(f"message {found} came twice or too early")

    def value(self, read: Callable[[int], memoryview]) -> Any:
        """Return the value; `read` returns the next bytes, of a number."""
        head, *buffers = self._frames(read, _MAX_FRAMES, _MAX_FRAME)
        try:
            return pickle.loads(head, buffers=buffers)
        except Exception as error:
            raise GarbledMessageError("it cannot be read") from error

    def text(self, read: Callable[[int], memoryview]) -> dict[str, Any]:
        """Return the mapping of a text."""
        (content,) = self._frames(read, 1, _MAX_TEXT)
        try:
            message = json.loads(bytes(content))
        except (ValueError, RecursionError) as error:
            raise GarbledMessageError("it is no JSON") from error
        if not isinstance(message, dict):
            raise GarbledMessageError("it is no mapping")
        return message

    def _frames(
        self, read: Callable[[int], memoryview], max_frames: int, max_size: int
    ) -> list[memoryview]:
        if not 0 < self._count <= max_frames:
            raise GarbledMessageError(f"it has {self._count} frames")
        first_size, first_crc = self._first
        begin = 8 * self._count
        if not begin <= first_size < begin + SMALL + 8 * self._count:
            raise GarbledMessageError(f"it begins with {first_size} bytes")
        first = read(first_size)
        if first_crc != zlib.crc32(first):
            raise GarbledMessageError("the checksum of its beginning is wrong")
        found = struct.unpack_from(f"<{self._count}Q", first)
        lengths = [length & ~_PLACED for length in found]
        frames = []
        if first_size > begin:
            for length in lengths:
                frames.append(first[begin : begin + length])
                begin += length + -length % 8
            if begin != first_size:
                raise GarbledMessageError("its frames are not as long as it says")
        else:
            if max(lengths) > max_size:
                raise GarbledMessageError(f"it has a frame of {max(lengths)} bytes")
            frames += map(read, lengths)
            if sum(map(_sum_of_words, frames)) % 2**64 != self._checksum:
                raise GarbledMessageError("its checksum is wrong")
        return [
            self._read_shared(frame) if length & _PLACED else frame
            for frame, length in zip(frames, found, strict=True)
        ]

    def _read_shared(self, place: memoryview) -> memoryview:
        """Return the shared memory at a place.

        Raises a ConnectionResetError if it is gone: with its process, since the place
        is as it was sent, and both ends can map the memory of the other.
        """
        if self._mapped is None or len(place) != PLACE_BYTES:
            raise GarbledMessageError("it has no place of memory")
        try:
            return self._mapped.at(bytes(place))
        except (OSError, ValueError) as error:
            raise ConnectionResetError("its memory is not there any more") from error


def _sum_of_words(part: Any) -> int:
    """Return the sum of the words of 8 bytes of a part of a message.

    It takes a tenth of the time of a CRC, which would be a considerable part of a
    round.
    """
    n_whole = len(part) // 8
    words = np.frombuffer(part, "<u8", n_whole) if n_whole else np.empty(0, "<u8")
    rest = int.from_bytes(bytes(part[8 * n_whole :]), "little")
    return int(np.add.reduce(words)) + rest


def unpack(content: bytes) -> Any:
    """Return the value of `Message.packed`."""
    end = 0

    def read(size: int) -> memoryview:
        nonlocal end
        start, end = end, end + size
        if end > len(content):
            raise GarbledMessageError("it is cut short")
        return np.frombuffer(content, np.uint8, size, start).copy().data

    return Head(read(HEAD_BYTES), 0).value(read)


def sendable(
    error: Exception, where: str, dumps: Callable[..., bytes] = pickle.dumps
) -> Exception:
    """Return an error that the receiver can read, with a note of where it was raised.

    It is the error itself, or one that says the same: exceptions whose constructors
    need more than their text cannot be unpickled.
    """
    frame = traceback.format_tb(error.__traceback__)[-1:]
    if any(note.startswith(_RAISED_ON) for note in getattr(error, "__notes__", ())):
        pass  # on another worker, which this one had asked
    elif frame and not isinstance(error, HornbeamError):
        error.add_note(f"{_RAISED_ON} {where}:\n{frame[0].rstrip()}")
    else:
        error.add_note(f"{_RAISED_ON} {where}.")
    try:
        pickle.loads(dumps(error))
    except Exception:
        return ClusterError(
            f"on {where}: {type(error).__name__}: {error}",
            code=ErrorCode.CLUSTER_FAILURE,
        )
    return error
