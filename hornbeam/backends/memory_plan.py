"""Distributes a memory limit among the data structures of external-memory training."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hornbeam.binning.layout import ExternalBins
from hornbeam.errors import DataError, ErrorCode
from hornbeam.memory import give_back_freed, in_words, resident_bytes

__all__ = ["MemoryPlan", "plan_memory"]

#: The minimum number of histograms: splitting one node takes six.
_MIN_SLOTS = 6
#: With this number, a level of a tree of depth 6 takes one pass; saving a pass is worth
#: more than anything else in memory.
_GOOD_SLOTS = 96
#: More histograms get one part in this many of the rest.
_SLOTS_DIVISOR = 8
#: For loaded kernels, results in transit, and free memory kept by the allocator.
_ALLOWANCE = 48 << 20
#: Bytes of a row of the current block: packed and wide gradients, leaf number, both
#: sides of the row list, row number, whether it was drawn, gradients divided by the
#: probability, and the unit hessian that it is counted by.
_BLOCK_ROW_BYTES = 8 + 16 + 4 + 8 + 4 + 1 + 16 + 8
#: Packed histogram bins of a thread.
_SCRATCH_BYTES = 8 << 16
#: Bytes of a row in the row list, on both sides.
_ROW_LIST_BYTES = 8
#: Bytes of an output's gradient and hessian divided by the probability.
_SCALED_BYTES = 16
#: Bytes of a row's packed gradients.
_PACKED_BYTES = 8
#: Bytes of a row of a cached sample in addition to its bins: its number in the block
#: and in the sample, both sides of the row list, wide gradients, and the unit hessian
#: that it is counted by.
_SAMPLE_ROW_BYTES = 4 + 4 + _ROW_LIST_BYTES + 16 + 8


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The sizes of the data structures in memory.

    Attributes
    ----------
    max_histograms
        Maximum number of histograms at a time; None: no limit of this kind.
    ring_bytes
        For blocks that are being read; None: no limit.
    kept_bytes
        For blocks that stay in memory.
    on_disk
        The arrays with a value for each row that are on disk: "margins", "gradients"
        (and hessians), "row_lists".
    keeps_packed
        Whether packed gradients are kept for a whole tree.
    sample_rows
        Maximum number of rows of a cached sample; 0: samples are not cached, and the
        histograms of every level are built from the blocks.
    """

    max_histograms: int | None
    ring_bytes: int | None
    kept_bytes: int
    on_disk: frozenset[str]
    keeps_packed: bool
    sample_rows: int = 0

    def with_rows_in_memory(self, limit: int | None) -> MemoryPlan:
        """Return the plan if no array with a value for each row is on disk.

        DataError, which names the `limit`, if one is: on a device all of them are in
        memory, too, where the host computes some of them.
        """
        if self.on_disk and limit is not None:
            raise DataError(
                f"memory_limit is {in_words(limit)}, which is too little to keep the "
                f"{', '.join(sorted(self.on_disk))} of all rows in memory, as training "
                "on a device does; raise memory_limit, or leave device out",
                code=ErrorCode.MEMORY_LIMIT_TOO_SMALL,
            )
        return self

    def with_packed_in_memory(self, n_bytes: int, limit: int | None) -> MemoryPlan:
        """Return the plan with packed gradients of this size in memory.

        They take the place of blocks that stay there. DataError, which names the
        `limit`, if that is too little.
        """
        if self.keeps_packed or limit is None:
            return self
        if n_bytes > self.kept_bytes:
            raise DataError(
                f"memory_limit is {in_words(limit)}, which is "
                f"{in_words(n_bytes - self.kept_bytes)} too little to keep the packed "
                "gradients of all rows in memory, as training on a device does whose "
                "memory is too small for the gradients; raise memory_limit, or leave "
                "device out",
                code=ErrorCode.MEMORY_LIMIT_TOO_SMALL,
            )
        kept = self.kept_bytes - n_bytes
        return replace(self, kept_bytes=kept, keeps_packed=True)


def plan_memory(
    bins: ExternalBins,
    n_outputs: int,
    gradient_bytes: int,
    threads: int,
    max_histograms: int | None,
    cached_share: float = 0.0,
    multi_output_columns: int = 0,
) -> MemoryPlan:
    """Return the plan for a memory limit.

    Two blocks and the histograms of one pass per level come first; if margins,
    gradients and row lists do not fit in addition, they go to disk, in this order. The
    rest is for more histograms, a third block, packed gradients, and blocks that stay
    in memory. DataError if the minimum does not fit.

    Parameters
    ----------
    bins
        On disk, with the limit.
    n_outputs, gradient_bytes
        Number of margins of a row, and bytes of a gradient.
    threads
        Number of threads.
    max_histograms
        Maximum number of histograms; None: no limit.
    cached_share
        The share of the rows in a tree's sample, which is to be cached in memory; 0:
        no cache.
    multi_output_columns
        Number of gradient columns of multi-output trees; 0: trees have one output.
    """
    limit = bins.memory_limit
    blocks, slab = bins.blocks, 16 * bins.layout.n_histogram_bins
    rows = blocks.n_rows
    # One more column counts rows.
    slot = slab * (multi_output_columns + 1)
    single_output = multi_output_columns == 0
    if limit is None:
        sample_rows = rows if cached_share > 0.0 else 0
        return MemoryPlan(
            max_histograms, None, 0, frozenset(), single_output, sample_rows
        )
    sample_rows = _most_drawn(rows, cached_share)
    row_bytes = 2 * bins.layout.n_columns * blocks.dtype.itemsize + _SAMPLE_ROW_BYTES
    sample = sample_rows * row_bytes
    block = min(blocks.block_rows, rows)
    block_row = (
        _BLOCK_ROW_BYTES + n_outputs * (8 + 2 * gradient_bytes) + _ROW_LIST_BYTES
    )
    if multi_output_columns > 0:
        block_row += _SCALED_BYTES * n_outputs + 8 * (multi_output_columns + 1)
    ring = blocks.ring_bytes(2, columns=True, by_row=True)
    needed = _ALLOWANCE + block * block_row + ring + _MIN_SLOTS * slot
    needed += threads * (5 * slab + _SCRATCH_BYTES) + sample
    give_back_freed()
    taken = resident_bytes()
    margins = 8 * n_outputs * rows  # in memory now, and free when they are on disk
    state = (2 * gradient_bytes * n_outputs + _ROW_LIST_BYTES) * rows
    left = limit - taken - needed - state
    good = max(0, min(_GOOD_SLOTS, max_histograms or _GOOD_SLOTS) - _MIN_SLOTS)
    on_disk = []
    for name, size in (
        ("margins", margins),
        ("gradients", 2 * gradient_bytes * n_outputs * rows),
        ("row_lists", _ROW_LIST_BYTES * rows),
    ):
        if left >= good * slot:
            break
        on_disk.append(name)
        left += size
    if left < 0:
        minimum = limit - left
        instead = ""
        if sample > 0:
            instead = (
                f", or leave out extmem_single_page, which takes {in_words(sample)} "
                "of it for the samples of trees"
            )
        raise DataError(
            f"memory_limit is {in_words(limit)}, and this process takes "
            f"{in_words(taken)} already, which is too much to train on these rows; "
            f"raise memory_limit to {in_words(minimum)} or more{instead}",
            code=ErrorCode.MEMORY_LIMIT_TOO_SMALL,
        )
    slots = left // slot
    slots = _MIN_SLOTS + max(min(good, slots), slots // _SLOTS_DIVISOR)
    if max_histograms is not None:
        slots = max(_MIN_SLOTS, min(slots, max_histograms))
    left -= (slots - _MIN_SLOTS) * slot
    more = blocks.ring_bytes(3, columns=True, by_row=True) - ring
    if left >= more:
        ring, left = ring + more, left - more
    keeps_packed = single_output and not on_disk and left >= _PACKED_BYTES * rows
    if keeps_packed:
        left -= _PACKED_BYTES * rows
    # Evaluation copies the margins.
    kept = max(0, left - 2 * margins)
    return MemoryPlan(slots, ring, kept, frozenset(on_disk), keeps_packed, sample_rows)


def _most_drawn(rows: int, share: float) -> int:
    """Return an upper bound of the rows drawn with the probability `share` each."""
    if share == 0.0:
        return 0
    expected = share * rows
    return min(rows, int(expected + 8.0 * expected**0.5) + 16)
