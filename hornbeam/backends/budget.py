"""What of the rows on disk is in memory, within a limit for the whole process."""

from __future__ import annotations

from dataclasses import dataclass

from hornbeam.backends.base import PagedCodes
from hornbeam.errors import DataError
from hornbeam.memory import in_words, resident_bytes

__all__ = ["Budget", "plan_memory"]

#: The least number of histograms: what splitting one node takes.
_LEAST_SLOTS = 6
#: Kernels that are loaded, answers on their way, what the allocator holds back.
_ALLOWANCE = 48 << 20
#: Bytes of a row of the block at work: gradients as integers, coarse and fine, its
#: leaf, both sides of the list of rows, its number, whether it was drawn.
_ROW_AT_WORK = 8 + 16 + 4 + 8 + 4 + 1
#: Packed sums of a thread.
_SCRATCH_BYTES = 8 << 16
#: Bytes of a row's place in the list of rows, on both sides.
_PLACE = 8
#: Bytes of a row's gradients as coarse integers.
_PACKED = 8


@dataclass(frozen=True, slots=True)
class Budget:
    """Who gets how much.

    Attributes
    ----------
    max_histograms
        The most histograms kept at once; None: no limit of this kind.
    ring_bytes
        For blocks on their way from disk; None: no limit.
    kept_bytes
        For blocks that stay in memory.
    on_disk
        The arrays of rows that are set aside on disk: "scores", "gradients" (and
        hessians), "places".
    keeps_packed
        Whether gradients as coarse integers are kept for a whole tree.
    """

    max_histograms: int | None
    ring_bytes: int | None
    kept_bytes: int
    on_disk: frozenset[str]
    keeps_packed: bool


def plan_memory(
    codes: PagedCodes,
    n_outputs: int,
    gradient_bytes: int,
    threads: int,
    max_histograms: int | None,
) -> Budget:
    """Return what fits.

    First come a few histograms and two blocks; then, as far as there is room, more
    histograms, the list of rows, the gradients, the scores, a third block, gradients as
    integers; then as many blocks as fit. DataError if not even the first do.

    Parameters
    ----------
    codes
        The rows, and the limit.
    n_outputs, gradient_bytes
        Margins of a row, and the size of a gradient.
    threads
        That work.
    max_histograms
        The most histograms anyone wants; None: no limit.
    """
    limit = codes.memory_limit
    if limit is None:
        return Budget(max_histograms, None, 0, frozenset(), keeps_packed=True)
    pages, slot = codes.pages, 16 * codes.layout.n_cells
    rows = pages.n_rows
    scores, gradients = 8 * n_outputs * rows, 2 * gradient_bytes * n_outputs * rows
    block = min(pages.block_rows, rows)
    at_work = _ROW_AT_WORK + n_outputs * (8 + 2 * gradient_bytes) + _PLACE
    ring = pages.ring_bytes(2, columns=True, by_row=True)
    needed = _ALLOWANCE + block * at_work + ring + _LEAST_SLOTS * slot
    needed += threads * (5 * slot + _SCRATCH_BYTES)
    taken = resident_bytes()
    left = limit - taken - needed
    if left < 0:
        raise DataError(
            f"memory_limit is {in_words(limit)}, and this process takes "
            f"{in_words(taken)} already; training on these rows needs "
            f"{in_words(needed)} more: raise memory_limit to "
            f"{in_words(taken + needed)} or more"
        )
    slots = _LEAST_SLOTS + left // 4 // slot
    if max_histograms is not None:
        slots = max(_LEAST_SLOTS, min(slots, max_histograms))
    left -= (slots - _LEAST_SLOTS) * slot
    on_disk = set()
    if left < gradients + _PLACE * rows:
        on_disk.add("scores")  # they are in memory now, and go
        left += scores
    if left < gradients + _PLACE * rows:
        on_disk.add("gradients")
        gradients = 0
    left -= gradients
    if left < _PLACE * rows:
        on_disk.add("places")
    else:
        left -= _PLACE * rows
    more = pages.ring_bytes(3, columns=True, by_row=True) - ring
    if left >= more:
        ring, left = ring + more, left - more
    keeps_packed = left >= _PACKED * rows
    if keeps_packed:
        left -= _PACKED * rows
    # Scores are copied when a round is looked at.
    kept = max(0, left - 2 * scores)
    return Budget(slots, ring, kept, frozenset(on_disk), keeps_packed)
