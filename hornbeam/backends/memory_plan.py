"""What of the rows on disk is in memory, within a limit for the whole process."""

from __future__ import annotations

from dataclasses import dataclass

from hornbeam.binning.layout import ExternalBins
from hornbeam.errors import DataError, ErrorCode
from hornbeam.memory import give_back_freed, in_words, resident_bytes

__all__ = ["MemoryPlan", "plan_memory"]

#: The least number of histograms: what splitting one node takes.
_LEAST_SLOTS = 6
#: With so many, a level of a tree of depth 6 is one sweep; each sweep less is worth
#: more than anything else in memory.
_GOOD_SLOTS = 96
#: More histograms get this part of what is left.
_SHARE_OF_SLOTS = 8
#: Kernels that are loaded, answers on their way, what the allocator holds back.
_ALLOWANCE = 48 << 20
#: Bytes of a row of the block at work: gradients as integers, coarse and fine, its
#: leaf, both sides of the list of rows, its number, whether it was drawn, its
#: gradients as a sample scales them, and the one that it is counted by.
_ROW_AT_WORK = 8 + 16 + 4 + 8 + 4 + 1 + 16 + 8
#: Packed sums of a thread.
_SCRATCH_BYTES = 8 << 16
#: Bytes of a row's place in the list of rows, on both sides.
_PLACE = 8
#: Bytes of an output's gradient and hessian as a sample scales them.
_SCALED = 16
#: Bytes of a row's gradients as coarse integers.
_PACKED = 8
#: Bytes of a row of a sample that is held in memory, beside its codes: its number in
#: the block, here and on both sides of the list of rows, its gradients as fine
#: integers, and the one that it is counted by.
_HELD = 4 + 4 + _PLACE + 16 + 8


@dataclass(frozen=True, slots=True)
class MemoryPlan:
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
        The arrays of rows that are set aside on disk: "margins", "gradients" (and
        hessians), "row_lists".
    keeps_packed
        Whether gradients as coarse integers are kept for a whole tree.
    sample_rows
        The most rows of a tree's sample that are held in memory together; 0: none, and
        every level is counted from the blocks.
    """

    max_histograms: int | None
    ring_bytes: int | None
    kept_bytes: int
    on_disk: frozenset[str]
    keeps_packed: bool
    sample_rows: int = 0


def plan_memory(
    codes: ExternalBins,
    n_outputs: int,
    gradient_bytes: int,
    threads: int,
    max_histograms: int | None,
    cached_share: float = 0.0,
    multi_output_columns: int = 0,
) -> MemoryPlan:
    """Return what fits.

    First come two blocks and as many histograms as one sweep a level takes; if there
    is no room beside them for the margins, gradients and lists of rows, these go to
    disk, in this order. What is left is for more histograms, a third block, gradients
    as integers, and blocks that stay. DataError if the least does not fit.

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
    cached_share
        The share of the rows that is to be held in memory, when it has been drawn for
        a tree; 0: none.
    multi_output_columns
        That trees of all outputs are searched by; 0: trees have one output.
    """
    limit = codes.memory_limit
    pages, slab = codes.blocks, 16 * codes.layout.n_histogram_bins
    rows = pages.n_rows
    # One more column counts rows.
    slot = slab * (multi_output_columns + 1)
    keeps = multi_output_columns == 0
    if limit is None:
        sample_rows = rows if cached_share > 0.0 else 0
        return MemoryPlan(max_histograms, None, 0, frozenset(), keeps, sample_rows)
    sample_rows = _most_drawn(rows, cached_share)
    held = sample_rows * (2 * codes.layout.n_columns * pages.dtype.itemsize + _HELD)
    block = min(pages.block_rows, rows)
    at_work = _ROW_AT_WORK + n_outputs * (8 + 2 * gradient_bytes) + _PLACE
    if multi_output_columns > 0:
        at_work += _SCALED * n_outputs + 8 * (multi_output_columns + 1)
    ring = pages.ring_bytes(2, columns=True, by_row=True)
    needed = _ALLOWANCE + block * at_work + ring + _LEAST_SLOTS * slot
    needed += threads * (5 * slab + _SCRATCH_BYTES) + held
    give_back_freed()
    taken = resident_bytes()
    margins = 8 * n_outputs * rows  # in memory now, and free when they are on disk
    state = (2 * gradient_bytes * n_outputs + _PLACE) * rows
    left = limit - taken - needed - state
    good = max(0, min(_GOOD_SLOTS, max_histograms or _GOOD_SLOTS) - _LEAST_SLOTS)
    on_disk = []
    for name, size in (
        ("margins", margins),
        ("gradients", 2 * gradient_bytes * n_outputs * rows),
        ("row_lists", _PLACE * rows),
    ):
        if left >= good * slot:
            break
        on_disk.append(name)
        left += size
    if left < 0:
        least = limit - left
        instead = ""
        if held > 0:
            instead = (
                f", or leave out extmem_single_page, which takes {in_words(held)} "
                f"of it for the samples of trees"
            )
        raise DataError(
            f"memory_limit is {in_words(limit)}, and this process takes "
            f"{in_words(taken)} already, which is too much to train on these rows; "
            f"raise memory_limit to {in_words(least)} or more{instead}",
            code=ErrorCode.MEMORY_LIMIT_TOO_SMALL,
        )
    slots = left // slot
    slots = _LEAST_SLOTS + max(min(good, slots), slots // _SHARE_OF_SLOTS)
    if max_histograms is not None:
        slots = max(_LEAST_SLOTS, min(slots, max_histograms))
    left -= (slots - _LEAST_SLOTS) * slot
    more = pages.ring_bytes(3, columns=True, by_row=True) - ring
    if left >= more:
        ring, left = ring + more, left - more
    keeps_packed = keeps and not on_disk and left >= _PACKED * rows
    if keeps_packed:
        left -= _PACKED * rows
    # Scores are copied when a round is looked at.
    kept = max(0, left - 2 * margins)
    return MemoryPlan(slots, ring, kept, frozenset(on_disk), keeps_packed, sample_rows)


def _most_drawn(rows: int, share: float) -> int:
    """Return more rows than will ever be drawn, each with the probability `share`."""
    if share == 0.0:
        return 0
    expected = share * rows
    return min(rows, int(expected + 8.0 * expected**0.5) + 16)
