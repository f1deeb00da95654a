"""A matrix of bins in external memory."""

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
    """The bins of all values, in blocks of rows on disk.

    The bin of a missing value is the one after the last.

    Parameters
    ----------
    store
        The blocks, with the facts that `facts` returns.
    memory_limit
        Maximum memory of the process in bytes; None: no limit.

    Attributes
    ----------
    cuts, has_missing, is_float32, is_categorical
        As for `DenseMatrix`.
    """

    def __init__(self, store: BlockStore, memory_limit: int | None = None) -> None:
        facts = store.facts
        self.cuts = Cuts(
            np.array(facts["pointers"], np.int64),
            np.array(facts["cuts"], np.float64),
            np.array(facts["minimums"], np.float64),
        )
        self.has_missing = np.array(facts["has_missing"], np.bool_)
        self.is_categorical = np.array(facts["is_categorical"], np.bool_)
        self.is_float32: bool = facts["is_float32"]
        self._store = store
        self._memory_limit = memory_limit
        # The block read last: its number, its features, and their bins.
        self._last_block: tuple[int, tuple[int, ...], npt.NDArray[Any]] | None = None

    @staticmethod
    def facts(
        cuts: Cuts,
        has_missing: npt.NDArray[np.bool_],
        is_float32: bool,
        is_categorical: npt.NDArray[np.bool_],
    ) -> dict[str, Any]:
        """Return the JSON object that is stored with the blocks."""
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
        """The dtype of the bins: uint8 or uint16."""
        return self._store.dtype

    @property
    def n_rows(self) -> int:
        return self._store.n_rows

    @property
    def n_features(self) -> int:
        return self._store.n_columns

    @property
    def dtype(self) -> npt.DTypeLike:
        """The dtype of decoded values: float32 if that is exact, else float64."""
        return self.cuts.dtype

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """First histogram bin of each feature, (features + 1,) int64."""
        n_bins = self.cuts.n_bins + self.has_missing
        return np.concatenate([[0], np.cumsum(n_bins)]).astype(np.int64)

    def as_bins(self, n_threads: int = 1) -> ExternalBins:
        """Return the bins as a backend takes them."""
        layout = HistogramLayout.unbundled(
            self.cuts.n_bins, self.offsets, self.is_categorical
        )
        return ExternalBins(
            self._store, layout, self._memory_limit, self._store.open_spill
        )

    def take(self, rows: npt.NDArray[Any]) -> DenseMatrix:
        """Return the bins of some rows, in this order, in memory."""
        bins = np.empty((self.n_features, len(rows)), self._store.dtype)
        order = np.argsort(rows, kind="stable")
        ordered = rows[order]
        for begin, end, block in self._blocks(None):
            first, last = np.searchsorted(ordered, (begin, end))
            bins[:, order[first:last]] = block[:, ordered[first:last] - begin]
        return DenseMatrix(
            self.cuts, bins, self.has_missing, self.is_float32, self.is_categorical
        )

    def decode(
        self, start: int, stop: int, features: npt.NDArray[Any] | None = None
    ) -> npt.NDArray[Any]:
        """Return rows `start` to `stop - 1`, decoded to the lower end of each bin.

        As `DenseMatrix.decode`. Calls for consecutive rows read each block once.
        """
        order = range(self.n_features) if features is None else features.tolist()
        ends = [self.cuts.lower_ends(f) for f in order]
        out = np.empty((stop - start, len(order)), self.dtype)
        row = start
        while row < stop:
            number = row // self._store.block_rows
            begin, end = self._store.rows_of(number)
            bins = self._block(number, tuple(order))
            last = min(stop, end)
            for place, lower in enumerate(ends):
                of_rows = bins[place, row - begin : last - begin]
                out[row - start : last - start, place] = lower[of_rows]
            row = last
        return out

    def _block(self, number: int, features: tuple[int, ...]) -> npt.NDArray[Any]:
        """Return the bins of a block, (features, rows), kept until the next call.

        Reading ahead would keep threads and buffers until the last row is read, which
        may never happen.
        """
        last = self._last_block
        if last is None or last[:2] != (number, features):
            self._last_block = None
            ordered = sorted(set(features))
            with self._store.read_blocks(ordered, False, blocks=[number]) as blocks:
                bins = next(blocks).by_feature[list(features)]
            last = self._last_block = number, features, bins
        return last[2]

    def decode_column(self, feature: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return one decoded column (see `decode`) in a dtype that holds its values."""
        ends = self.cuts.lower_ends(feature).astype(dtype)
        out = np.empty(self.n_rows, dtype)
        for begin, end, block in self._blocks([feature]):
            out[begin:end] = ends[block[feature]]
        return out

    def _blocks(
        self, features: Sequence[int] | None
    ) -> Iterator[tuple[int, int, npt.NDArray[Any]]]:
        """Yield the first row of each block, the row after its last, and its bins."""
        with self._store.read_blocks(features, False) as blocks:
            for block in blocks:
                yield block.begin, block.end, block.by_feature

    def set_facts(self, has_missing: npt.NDArray[np.bool_], is_float32: bool) -> None:
        """Set what holds for the rows of all workers together.

        The bins stay valid: the bin of missing values is reserved in any case.
        """
        self.has_missing, self.is_float32 = has_missing, is_float32

    def close(self) -> None:
        """Close the blocks; they stay on disk."""
        self._last_block = None
        self._store.close()
