"""Memory of a device, its kernels, and the queue of what it has to do.

Calls return at once; the device works in the order of the calls. Only `read` and
`write` wait, the latter unless arrays go through pinned memory. Uploads have a queue of
their own, so that they overlap with kernels.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, NamedTuple
from weakref import WeakSet, finalize

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.opencl.devices import Device, opencl
from hornbeam.backends.opencl.staging import StagingBuffers
from hornbeam.errors import DeviceError, ErrorCode
from hornbeam.kernels.layout import CATEGORY_SETS, ONE_CATEGORY
from hornbeam.memory import in_words

__all__ = [
    "TILE_ROWS",
    "Buffer",
    "DeviceQueue",
    "Recording",
    "UploadBuffers",
    "check_memory",
    "tiles_of",
]

#: A buffer of pyopencl.
Buffer = Any

#: The sources, in the order in which they are compiled as one program.
_SOURCES = """
    common.cl gradients.cl quantise.cl histogram.cl split_scores.cl split_search.cl
    category_search.cl partition.cl leaves.cl growth.cl predict.cl
""".split()
#: Rows of a work-group in kernels that loop over rows.
TILE_ROWS = 4096
_SINGLE = np.dtype(np.float32)
_ZERO = np.zeros(1, np.int32)

#: The seconds of each kernel, if it is set to an empty dictionary before a queue is
#: made: then the device measures them.
kernel_seconds: dict[str, float] | None = None


def tiles_of(rows: Any) -> Any:
    """Return the number of tiles of this many rows, a number or an array of them."""
    return -(-rows // TILE_ROWS)


def check_memory(device: Device, n_bytes: int, largest: int) -> None:
    """Raise a `DeviceError` if buffers of this size in all do not fit.

    `largest` is the size of the largest.
    """
    if n_bytes <= device.memory and largest <= device.largest_buffer:
        return
    raise DeviceError(
        f"training on device={device.name!r} ({device.title}) needs "
        f"{in_words(n_bytes)} of its memory, in buffers of up to "
        f"{in_words(largest)}, and it has {in_words(device.memory)}, in buffers of "
        f"up to {in_words(device.largest_buffer)}; train with device='cpu', whose "
        "model is the same, or on fewer rows or features",
        code=ErrorCode.DEVICE_OUT_OF_MEMORY,
        needed=n_bytes,
        available=device.memory,
    )


@cache
def _context(device: Device) -> Any:
    return opencl().Context([device.handle])


@cache
def _program(device: Device, bins: np.dtype[Any], reals: np.dtype[Any]) -> Any:
    """Return the program, compiled for bins and gradients of these types."""
    folder = files("hornbeam.backends.opencl") / "kernels"
    source = "\n".join((folder / name).read_text() for name in _SOURCES)
    settings = {
        "GROUP_SIZE": device.options.group_size,
        "TILE_ROWS": TILE_ROWS,
        "BIN": "uchar" if bins.itemsize == 1 else "ushort",
        "BINS_PER_WORD": 4 // bins.itemsize,
        "REAL": "float" if reals.itemsize == 4 else "double",
        "REAL_IS_DOUBLE": int(reals.itemsize == 8),
        "ONE_CATEGORY": ONE_CATEGORY,
        "CATEGORY_SETS": CATEGORY_SETS,
    }
    if device.options.long_atomics:
        settings["LONG_ATOMICS"] = 1
    cl = opencl()
    program = cl.Program(_context(device), source)
    flags = [f"-D{name}={value}" for name, value in settings.items()]
    with warnings.catch_warnings():
        # NVIDIA's compiler has a remark about each kernel; errors are raised.
        warnings.simplefilter("ignore", cl.CompilerWarning)
        return program.build(["-cl-std=CL1.2", *flags])


@cache
def _buffer_type() -> type[Any]:
    class CountedBuffer(opencl().Buffer):  # type: ignore[misc]
        """A buffer that a set can hold weakly, which those of pyopencl do not allow."""

    return CountedBuffer


class _Naming:
    """Raises errors of a device as a `DeviceError` that names what was done."""

    __slots__ = ("_action", "_kind", "_n_bytes", "_queue")

    def __init__(
        self, queue: DeviceQueue, kind: type[Exception], action: str, n_bytes: int
    ) -> None:
        self._queue, self._kind = queue, kind
        self._action, self._n_bytes = action, n_bytes

    def __enter__(self) -> None:
        return

    def __exit__(self, _: Any, error: BaseException | None, __: Any) -> None:
        if isinstance(error, self._kind):
            self.raise_from(error)

    def raise_from(self, error: BaseException) -> None:
        """Raise the `DeviceError` of an error of the device."""
        device, taken, n_bytes = self._queue.device, self._queue.taken, self._n_bytes
        status = opencl().status_code.to_string(getattr(error, "code", 0), "error %d")
        named = f"device={device.name!r} ({device.title})"
        memory = (
            f"it has {in_words(device.memory)}, of which this training has taken "
            f"{in_words(taken)}"
        )
        rest = (
            "; the rounds before this one are complete: go on with device='cpu', "
            "whose model is the same"
        )
        # Drivers say "out of resources" of a device that is lost, too.
        words = "ALLOCATION", "OUT_OF_HOST", "BUFFER_SIZE"
        is_memory = any(word in status for word in words)
        if is_memory or (n_bytes > 0 and "OUT_OF" in status):
            more = f", and needs {in_words(n_bytes)} more" if n_bytes > 0 else ""
            raise DeviceError(
                f"{named} has not enough memory to {self._action}: {memory}{more} "
                f"({status}){rest}",
                code=ErrorCode.DEVICE_OUT_OF_MEMORY,
                needed=taken + n_bytes,
                available=device.memory,
            ) from error
        raise DeviceError(
            f"{named} failed to {self._action} ({status}); {memory}{rest}",
            code=ErrorCode.DEVICE_FAILED,
        ) from error


#: Kernels that no queue uses, by what they are made of: pyopencl takes as long to make
#: one as to start it fifty times.
_idle_kernels: dict[tuple[Any, ...], list[Any]] = {}


#: Kernels that nothing else may set arguments of, each with the list of idle ones that
#: it goes back to.
_Kernels = list[tuple[list[Any], Any]]


def _give_back(taken: _Kernels) -> None:
    """Let other queues use these kernels."""
    for idle, kernel in taken:
        idle.append(kernel)
    taken.clear()


class _Launch(NamedTuple):
    """A kernel with its arguments, which it does not keep alive itself."""

    name: str
    kernel: Any
    items: tuple[int, ...]
    group: tuple[int, ...]
    arguments: tuple[Any, ...]


class DeviceQueue:
    """A queue of copies and kernels, and the memory that they use.

    Parameters
    ----------
    device
        Where they run.

    Attributes
    ----------
    bins
        The type of bins in kernels that are started next: uint8 or uint16.

    Raises
    ------
    DeviceError
        From all methods: if the device has not enough memory, or if it fails.
    """

    def __init__(self, device: Device) -> None:
        self.device, self.bins = device, np.dtype(np.uint8)
        self._cl = opencl()
        self._buffers: WeakSet[Buffer] = WeakSet()
        properties = 0
        if kernel_seconds is not None:
            properties = self._cl.command_queue_properties.PROFILING_ENABLE
        with self._naming("start"):
            context = _context(device)
            self._queue = self._cl.CommandQueue(context, properties=properties)
            self._uploads = self._cl.CommandQueue(context)
        #: Copies that have been started: forgetting one would wait for it.
        self._copies: list[Any] = []
        self._kernels: dict[tuple[Any, ...], Any] = {}
        self._taken: _Kernels = []
        finalize(self, _give_back, self._taken)
        self._events: list[tuple[str, Any]] = []

    def _naming(self, action: str, n_bytes: int = 0) -> _Naming:
        """Return what raises errors of the device with this action in their message.

        `n_bytes` is the memory that it takes.
        """
        return _Naming(self, self._cl.Error, action, n_bytes)

    @property
    def alignment(self) -> int:
        """Of the first byte of a part of a buffer."""
        bits: int = self.device.handle.mem_base_addr_align
        return max(8, bits // 8)

    @property
    def taken(self) -> int:
        """Bytes of the buffers that there are."""
        return sum(buffer.size for buffer in self._buffers)

    def empty(self, n_bytes: int) -> Buffer:
        """Return a new buffer of at least one byte, without content."""
        size = max(n_bytes, 4)
        with self._naming("allocate a buffer", size):
            buffer = _buffer_type()(
                self._queue.context, self._cl.mem_flags.READ_WRITE, size
            )
        self._buffers.add(buffer)
        return buffer

    def zeros(self, n_bytes: int) -> Buffer:
        """Return a new buffer of zeros."""
        buffer = self.empty(n_bytes)
        self.zero(buffer, n_bytes)
        return buffer

    def buffer_of(self, array: NDArray[Any]) -> Buffer:
        """Return a new buffer that holds this array."""
        buffer = self.empty(array.nbytes)
        self.write(buffer, array)
        return buffer

    def copy_of(self, array: NDArray[Any]) -> Buffer:
        """Return a buffer with a copy of an array, for one tree or one launch.

        The copy is made at once, so that neither side waits for the other.
        """
        flags = self._cl.mem_flags.READ_ONLY | self._cl.mem_flags.COPY_HOST_PTR
        if array.size == 0:
            array = np.zeros(1, np.int64)
        with self._naming("allocate a buffer", array.nbytes):
            return self._cl.Buffer(
                self._queue.context, flags, hostbuf=np.ascontiguousarray(array)
            )

    @cached_property
    def _staging(self) -> StagingBuffers | None:
        """Pinned memory, if the device has memory of its own."""
        return StagingBuffers(self._queue) if self.device.options.stages else None

    def write(self, buffer: Buffer, array: NDArray[Any]) -> None:
        """Copy a contiguous array to the buffer; it may change afterwards."""
        if array.size == 0:
            return
        with self._naming("take an array"):
            if self._staging is not None:
                self._staging.copy(self._queue, buffer, 0, array)
            else:
                self._cl.enqueue_copy(self._queue, buffer, array, is_blocking=True)

    def send(self, buffer: Buffer, array: NDArray[Any]) -> None:
        """Start to copy a contiguous array, which must not change before a `read`."""
        if self._staging is not None:
            self.write(buffer, array)
        elif array.size > 0:
            with self._naming("take an array"):
                event = self._cl.enqueue_copy(
                    self._queue, buffer, array, is_blocking=False
                )
            self._copies.append(event)

    def copy(
        self, source: Buffer, target: Buffer, n_bytes: int, begin: int = 0
    ) -> None:
        """Copy the beginning of a buffer to another, from its byte `begin` on."""
        if n_bytes > 0:
            with self._naming("copy a buffer"):
                self._cl.enqueue_copy(
                    self._queue, target, source, byte_count=n_bytes, dst_offset=begin
                )

    def zero(self, buffer: Buffer, n_bytes: int) -> None:
        """Fill the beginning of a buffer with zeros."""
        if n_bytes > 0:
            with self._naming("clear a buffer"):
                self._cl.enqueue_fill_buffer(self._queue, buffer, _ZERO, 0, n_bytes)

    def read(self, buffer: Buffer, out: NDArray[Any]) -> NDArray[Any]:
        """Wait, and copy the beginning of a buffer to `out`, which is returned."""
        if out.size > 0:
            with self._naming("finish its work"):
                self._cl.enqueue_copy(self._queue, out, buffer, is_blocking=True)
                self._copies.clear()
        self._note_times()
        return out

    def start_reading(self, buffer: Buffer, out: NDArray[Any]) -> None:
        """Copy the beginning of a buffer to `out`, before the next `read` returns."""
        if out.size > 0:
            with self._naming("copy a buffer"):
                event = self._cl.enqueue_copy(
                    self._queue, out, buffer, is_blocking=False
                )
            self._copies.append(event)

    def upload(
        self,
        buffer: Buffer,
        parts: Sequence[tuple[int, NDArray[Any]]],
        after: Any = None,
    ) -> list[Any]:
        """Start to copy contiguous arrays to these bytes of the buffer.

        The copies begin after the event `after`, None: at once. Returns their events;
        the arrays must not change before `release` with these returns.
        """
        events, before = [], None if after is None else [after]
        with self._naming("take an array"):
            if self._staging is not None:
                own = self._uploads
                return [
                    self._staging.copy(own, buffer, begin, array, before)
                    for begin, array in parts
                ]
            for begin, array in parts:
                copied = self._cl.enqueue_copy(
                    self._uploads,
                    buffer,
                    array,
                    dst_offset=begin,
                    is_blocking=False,
                    wait_for=before,
                )
                events.append(copied)
            self._uploads.flush()
        return events

    def work_after(self, events: Sequence[Any]) -> None:
        """Let work that is started from now on wait for the events of `upload`."""
        if events:
            with self._naming("take an array"):
                self._cl.enqueue_barrier(self._queue, wait_for=events)
            self._copies += events

    def flush(self) -> None:
        """Let the device begin with all that has been started."""
        with self._naming("start"):
            self._queue.flush()

    def mark(self) -> Any:
        """Return the event that all that has been started is done."""
        with self._naming("start"):
            event = self._cl.enqueue_marker(self._queue)
            self._queue.flush()
        return event

    def release(self, events: Sequence[Any]) -> None:
        """Wait until the arrays of these events of `upload` may change."""
        if self._staging is not None:
            return  # they have been copied to pinned memory
        with self._naming("take an array"):
            for event in events:
                event.wait()

    def run(
        self,
        name: str,
        groups: int | tuple[int, int],
        *arguments: Any,
        reals: np.dtype[Any] = _SINGLE,
    ) -> None:
        """Start a kernel with this number of work-groups, in one or two dimensions.

        Arguments are buffers, NumPy scalars, and local memory by its bytes as an int.
        `reals` is the type of gradients, if the kernel reads or writes any.
        """
        counts = groups if isinstance(groups, tuple) else (groups,)
        if min(counts) == 0:
            return
        kernel = self._kernels.get((name, self.bins, reals))
        if kernel is None:
            kernel = self.take_kernel(name, self._taken, reals)
            self._kernels[name, self.bins, reals] = kernel
        self.start([self.set_arguments(name, kernel, counts, arguments)])

    def take_kernel(
        self, name: str, taken: _Kernels, reals: np.dtype[Any] = _SINGLE
    ) -> Any:
        """Return a kernel that has arguments of its own, and enter it in `taken`."""
        made_of = name, self.device, self.bins, reals
        idle = _idle_kernels.setdefault(made_of, [])
        try:
            kernel = idle.pop()
        except IndexError:
            with self._naming(f"compile the kernel {name}"):
                program = _program(self.device, self.bins, reals)
                kernel = self._cl.Kernel(program, name)
        taken.append((idle, kernel))
        return kernel

    def set_arguments(
        self, name: str, kernel: Any, counts: tuple[int, ...], arguments: Sequence[Any]
    ) -> _Launch:
        """Return a kernel with arguments, which `start` may start many times."""
        size, rest = self.device.options.group_size, counts[1:]
        local = self._cl.LocalMemory
        given = tuple(local(own) if type(own) is int else own for own in arguments)
        # pyopencl tries a number as all other kinds of arguments first.
        set_number = getattr(kernel, "_set_arg_buf", kernel.set_arg)
        with self._naming(f"run the kernel {name}"):
            for place, own in enumerate(given):
                is_number = isinstance(own, np.generic)
                (set_number if is_number else kernel.set_arg)(place, own)
        items, group = (counts[0] * size, *rest), (size, *(1 for _ in rest))
        return _Launch(name, kernel, items, group, given)

    def start(self, launches: Iterable[_Launch]) -> None:
        """Start kernels, one after the other."""
        queue, enqueue = self._queue, self._cl.enqueue_nd_range_kernel
        name = ""
        try:
            for name, kernel, items, group, _ in launches:
                event = enqueue(queue, kernel, items, group)
                if kernel_seconds is not None:
                    self._events.append((name, event))
        except self._cl.Error as error:
            self._naming(f"run the kernel {name}").raise_from(error)

    def _note_times(self) -> None:
        if kernel_seconds is None:
            return
        for name, event in self._events:
            event.wait()
            seconds = 1e-9 * (event.profile.end - event.profile.start)
            kernel_seconds[name] = kernel_seconds.get(name, 0.0) + seconds
        self._events.clear()


class Recording:
    """Kernels with their arguments, started many times one after the other.

    To start a kernel again takes a few microseconds; to set the arguments of one takes
    many times as long.

    Parameters
    ----------
    queue
        Of the device.
    """

    def __init__(self, queue: DeviceQueue) -> None:
        self._queue = queue
        self._launches: list[_Launch] = []
        self._taken: _Kernels = []
        finalize(self, _give_back, self._taken)

    def clear(self) -> None:
        """Begin a new recording."""
        self._launches.clear()
        _give_back(self._taken)

    def run(self, name: str, groups: int | tuple[int, int], *arguments: Any) -> None:
        """Record a kernel; the arguments are those of `DeviceQueue.run`."""
        counts = groups if isinstance(groups, tuple) else (groups,)
        if min(counts) == 0:
            return
        kernel = self._queue.take_kernel(name, self._taken)
        launch = self._queue.set_arguments(name, kernel, counts, arguments)
        self._launches.append(launch)

    def start(self) -> None:
        """Start the kernels."""
        self._queue.start(self._launches)


class UploadBuffers:
    """Two buffers that are filled in turn: one by a copy, while kernels read the other.

    Parameters
    ----------
    queue
        That reads them.
    n_bytes
        Of each buffer.
    """

    def __init__(self, queue: DeviceQueue, n_bytes: int) -> None:
        self._queue = queue
        self._buffers = [queue.empty(n_bytes), queue.empty(n_bytes)]
        #: When kernels had read the older buffer; None: it has not been filled.
        self._mark: Any = None
        self._copies: list[Any] = []

    def fill(self, *parts: tuple[int, NDArray[Any]]) -> Buffer:
        """Start to copy contiguous arrays to these bytes of a buffer; return it.

        It holds them until this is called the second time from now.
        """
        self._buffers.reverse()
        own = [(begin, array) for begin, array in parts if array.size > 0]
        before, self._mark = self._mark, self._queue.mark()
        self._copies = self._queue.upload(self._buffers[0], own, before)
        self._queue.work_after(self._copies)
        return self._buffers[0]

    def release(self) -> None:
        """Wait until the arrays may change."""
        self._queue.release(self._copies)
        self._copies = []
