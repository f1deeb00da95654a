"""Gradients of a round: computed on the device, or on the host and copied."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import GradientSource, RowSample
from hornbeam.backends.opencl.gradient_columns import GradientPair
from hornbeam.backends.opencl.mirror import Mirror
from hornbeam.backends.opencl.queue import Buffer, DeviceQueue, tiles_of
from hornbeam.backends.row_state import GradientColumn, RowState
from hornbeam.kernels import gradients as losses

__all__ = ["DeviceGradients"]

#: The kernels of the device, by the kernels of the host with the same formula.
_KERNELS = {losses.squared_error: "squared_error", losses.logistic: "logistic"}


class DeviceGradients:
    """The gradients of the rows, of which both sides may have the latest.

    Parameters
    ----------
    queue
        Of the device.
    state
        The rows on the host.
    margins
        Their margins.
    computes
        Whether the device computes those that it can; the host projects the gradients
        of multi-output trees, so it has to have them.
    """

    def __init__(
        self, queue: DeviceQueue, state: RowState, margins: Mirror, computes: bool
    ) -> None:
        self._queue, self._state, self._margins = queue, state, margins
        self._computes = computes
        self._gradients = Mirror(queue, state.gradients)
        self._hessians = Mirror(queue, state.hessians)
        #: Of each output, the largest |g| and |h| of tiles on the device, until they
        #: are read; then largest |g|, largest |h| and least h. None: the host's.
        self._largest: list[Buffer] | None = None
        self._of_tiles: list[Buffer] = []
        self._ranges: NDArray[np.float64] | None = None
        self._targets: list[Buffer] | None = None

    def compute(self, objective: GradientSource) -> None:
        """Compute gradients from the objective at the current margins."""
        # Of objectives whose gradients a kernel computes from the row alone.
        kernel = _KERNELS.get(getattr(objective, "kernel", None))
        if kernel is not None and self._computes:
            numbers: tuple[float, ...] = getattr(objective, "numbers")  # noqa: B009
            self._compute_on_device(kernel, numbers[0])
            return
        self._margins.on_host()
        self._state.compute_gradients(objective)
        self._written_on_host()

    def _compute_on_device(self, kernel: str, positive_weight: float) -> None:
        queue, state = self._queue, self._state
        reals, tiles = state.gradients.dtype, tiles_of(state.n_rows)
        if self._targets is None:
            self._targets = [queue.buffer_of(own) for own in state.rows.targets]
            self._weights = queue.buffer_of(state.rows.weights)
            of_tiles = range(state.n_outputs)
            self._of_tiles = [queue.empty(16 * tiles) for _ in of_tiles]
        gradients, hessians = self._gradients.to_write(), self._hessians.to_write()
        self._largest = self._of_tiles
        for k, margins in enumerate(self._margins.on_device()):
            queue.run(
                kernel,
                tiles,
                margins,
                self._targets[min(k, len(self._targets) - 1)],
                self._weights,
                np.uint32(state.rows.weights.size > 0),
                np.float64(positive_weight),
                np.uint32(state.n_rows),
                gradients[k],
                hessians[k],
                self._largest[k],
                reals=reals,
            )
        queue.flush()

    def _read_ranges(self, buffers: list[Buffer]) -> NDArray[np.float64]:
        """Wait for the gradients; return their ranges, (outputs, 3)."""
        state = self._state
        largest = np.empty((state.n_outputs, tiles_of(state.n_rows), 2), np.int64)
        for own, buffer in zip(largest, buffers, strict=True):
            self._queue.read(buffer, own)
        reals = state.gradients.dtype
        bits = largest.max(axis=1, initial=0).astype(f"i{reals.itemsize}")
        ranges = np.zeros((state.n_outputs, 3))  # hessians are not negative
        ranges[:, :2] = bits.view(reals)
        return ranges

    def set(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        """Set these gradients, both of shape (outputs, rows)."""
        self._state.set_gradients(gradients, hessians)
        self._written_on_host()

    def _written_on_host(self) -> None:
        self._gradients.written_on_host()
        self._hessians.written_on_host()
        self._largest = self._ranges = None

    def ranges(self) -> NDArray[np.float64]:
        """Return largest |g|, largest |h| and least h of each output, (outputs, 3)."""
        if self._largest is not None:
            self._ranges, self._largest = self._read_ranges(self._largest), None
        return self._state.gradient_ranges() if self._ranges is None else self._ranges

    def on_host(self) -> None:
        """Copy the gradients to the host, if it does not have them."""
        self._gradients.on_host()
        self._hessians.on_host()

    def of_tree(
        self, output: int | None, sample: RowSample | None
    ) -> tuple[list[GradientPair], list[GradientPair]]:
        """Return the pairs that leaves are summed of, and those of the splits.

        They are those of one output; None: of all. The host has begun the tree; it has
        the gradients of a sample by gradient, divided by each row's probability, and
        those of projections and of `set_split_gradients`.
        """
        state = self._state
        if sample is not None and sample.by_gradient:
            leaf_pairs = [self._uploaded(own) for own in state.leaf_columns]
        else:
            kind = state.gradients.dtype
            both = self._gradients.on_device(), self._hessians.on_device()
            own = [GradientPair(*pair, kind) for pair in zip(*both, strict=True)]
            leaf_pairs = own if output is None else own[output : output + 1]
            others = state.leaf_columns[len(leaf_pairs) :]
            leaf_pairs = [*leaf_pairs, *map(self._uploaded, others)]
        if state.columns is state.leaf_columns:
            return leaf_pairs, leaf_pairs
        if len(leaf_pairs) > state.n_outputs:
            return leaf_pairs, leaf_pairs[state.n_outputs :]
        return leaf_pairs, [self._uploaded(own) for own in state.columns]

    def _uploaded(self, column: GradientColumn) -> GradientPair:
        """Return the gradients of a column of the host."""
        gradients, hessians = (self._queue.copy_of(array) for array in column.pair)
        return GradientPair(gradients, hessians, column.pair[0].dtype)
