"""A table as bin numbers on disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.binning.cuts import Cuts
from hornbeam.binning.dense import DenseMatrix
from hornbeam.binning.layout import ExternalBins, HistogramLayout
from hornbeam.external_memory.reader import BlockStore

__all__ = ["ExternalMatrix"]


class ExternalMatrix:
    """Bin numbers of all cells, in blocks on disk.

    A missing cell has the number after the last bin.

    Parameters
    ----------
    pages
        The blocks, with the facts that `facts` returns.
    memory_limit
        The most bytes of memory that the process may take; None: no limit.

    Attributes
    ----------
    cuts, has_missing, is_float32, is_categorical
        As for `DenseMatrix`.
    """

    def __init__(self, pages: BlockStore, memory_limit: int | None = None) -> None:
        facts = pages.facts
        self.cuts = Cuts(
            np.array(facts["pointers"], np.int64),
            np.array(facts["cuts"], np.float64),
            np.array(facts["minimums"], np.float64),
        )
        self.has_missing = np.array(facts["has_missing"], np.bool_)
        self.is_categorical = np.array(facts["is_categorical"], np.bool_)
        self.is_float32: bool = facts["is_float32"]
        self._pages = pages
        self._memory_limit = memory_limit
        # The block read last: its number, which columns, and their codes.
        self._held: tuple[int, tuple[int, ...], npt.NDArray[Any]] | None = None

    @staticmethod
    def facts(
        cuts: Cuts,
        has_missing: npt.NDArray[np.bool_],
        is_float32: bool,
        is_categorical: npt.NDArray[np.bool_],
    ) -> dict[str, Any]:
        """Return what pages must know, as JSON has it."""
        return {
            "pointers": cuts.pointers.tolist(),
            "cuts": cuts.values.tolist(),
            "minimums": cuts.minimums.tolist(),
            "has_missing": has_missing.tolist(),
            "is_float32": bool(is_float32),
            "is_categorical": is_categorical.tolist(),
        }

    @property
    def bin_dtype(self) -> np.dtype[Any]:
        """The type of the codes: uint8 or uint16."""
        return self._pages.dtype

    @property
    def n_rows(self) -> int:
        return self._pages.n_rows

    @property
    def n_features(self) -> int:
        return self._pages.n_columns

    @property
    def dtype(self) -> npt.DTypeLike:
        """The type of decoded values: float32 where that loses nothing."""
        return self.cuts.dtype

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """First cell of each feature in a histogram, (features + 1,) int64."""
        cells = self.cuts.n_bins + self.has_missing
        return np.concatenate([[0], np.cumsum(cells)]).astype(np.int64)

    def as_bins(self, n_threads: int = 1) -> ExternalBins:
        """Return the codes as a backend takes them."""
        layout = HistogramLayout.unbundled(
            self.cuts.n_bins, self.offsets, self.is_categorical
        )
        return ExternalBins(
            self._pages, layout, self._memory_limit, self._pages.open_spill
        )

    def take(self, rows: npt.NDArray[Any]) -> DenseMatrix:
        """Return the codes of these rows, in this order, in memory."""
        codes = np.empty((self.n_features, len(rows)), self._pages.dtype)
        order = np.argsort(rows, kind="stable")
        ordered = rows[order]
        for begin, end, block in self._blocks(None):
            first, last = np.searchsorted(ordered, (begin, end))
            codes[:, order[first:last]] = block[:, ordered[first:last] - begin]
        return DenseMatrix(
            self.cuts, codes, self.has_missing, self.is_float32, self.is_categorical
        )

    def decode(
        self, start: int, stop: int, features: npt.NDArray[Any] | None = None
    ) -> npt.NDArray[Any]:
        """Return rows `start` to `stop` as one value of each cell's bin.

        That is what `DenseMatrix.decode` returns. Rows that are asked for from top to
        bottom are read from disk once.
        """
        order = range(self.n_features) if features is None else features.tolist()
        ends = [self.cuts.lower_ends(f) for f in order]
        out = np.empty((stop - start, len(order)), self.dtype)
        row = start
        while row < stop:
            number = row // self._pages.block_rows
            begin, end = self._pages.rows_of(number)
            codes = self._block(number, tuple(order))
            last = min(stop, end)
            for place, lower in enumerate(ends):
                cells = codes[place, row - begin : last - begin]
                out[row - start : last - start, place] = lower[cells]
            row = last
        return out

    def _block(self, number: int, features: tuple[int, ...]) -> npt.NDArray[Any]:
        """Return codes of a block, (features, rows), kept until others are asked for.

        A sweep ahead of the rows would hold threads and memory as long as nobody asks
        for the last one.
        """
        held = self._held
        if held is None or held[:2] != (number, features):
            self._held = None
            ordered = sorted(set(features))
            with self._pages.read_blocks(ordered, False, blocks=[number]) as blocks:
                codes = next(blocks).by_feature[list(features)]
            held = self._held = number, features, codes
        return held[2]

    def decode_column(self, feature: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return one column as `decode` does, in a type that holds the values."""
        ends = self.cuts.lower_ends(feature).astype(dtype)
        out = np.empty(self.n_rows, dtype)
        for begin, end, block in self._blocks([feature]):
            out[begin:end] = ends[block[feature]]
        return out

    def _blocks(
        self, features: Sequence[int] | None
    ) -> Iterator[tuple[int, int, npt.NDArray[Any]]]:
        """Yield the first row of each block, its last, and its codes."""
        with self._pages.read_blocks(features, False) as blocks:
            for block in blocks:
                yield block.begin, block.end, block.by_feature

    def set_facts(self, has_missing: npt.NDArray[np.bool_], is_float32: bool) -> None:
        """Take what is known of these rows and others together.

        A code stays what it is: that of missing is there whether it is used or not.
        """
        self.has_missing, self.is_float32 = has_missing, is_float32

    def close(self) -> None:
        """Let the blocks go; they stay on disk."""
        self._held = None
        self._pages.close()
