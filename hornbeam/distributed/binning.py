"""Binning of rows on many workers: the same cuts and bins as on one machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.backends.cluster import Call, Cluster
from hornbeam.binning.column_pass import ColumnPass, merge_passes
from hornbeam.binning.cuts import ColumnCuts, Cuts
from hornbeam.binning.exact_quantiles import cut_finders, find_cuts
from hornbeam.binning.layout import HistogramLayout
from hornbeam.data.schema import Schema

__all__ = ["BinInfo", "BinOptions", "GlobalBins", "bin_calls", "bin_partitions"]

#: Columns whose cuts are searched together, and bytes of values that a pass collects of
#: them on each worker, which are all sent to the client: with a megabyte for each
#: column, two passes are enough for several million rows.
_COLUMNS_AT_ONCE = 64
_PASS_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class BinInfo:
    """Properties of bins that must be equal on all workers.

    Attributes
    ----------
    has_missing
        (features,) bool: whether any value of a feature is missing.
    is_float32
        Whether every value is exactly a float32.
    dtype
        Type of the bin indices.
    """

    has_missing: npt.NDArray[np.bool_]
    is_float32: bool
    dtype: np.dtype[Any]

    def merged(self, other: BinInfo) -> BinInfo:
        """Return the properties of these rows and others together."""
        has_missing = self.has_missing | other.has_missing
        dtype = np.promote_types(self.dtype, other.dtype)
        return BinInfo(has_missing, self.is_float32 and other.is_float32, dtype)


@dataclass(frozen=True, slots=True)
class GlobalBins:
    """The cuts and the histogram layout of the rows on all workers.

    Attributes
    ----------
    columns
        The cuts of each column.
    max_bin
        The number of bins for which the cuts were searched.
    facts
        Properties of the bins on all workers.
    layout
        Layout of the histograms.
    keep_features
        Whether workers keep the features, to bin them again.
    """

    columns: list[ColumnCuts]
    max_bin: int
    facts: BinInfo
    layout: HistogramLayout
    keep_features: bool

    @property
    def cuts(self) -> Cuts:
        """The cuts of all columns."""
        return Cuts.join(self.columns)


@dataclass(frozen=True, slots=True)
class BinOptions:
    """How the rows on all workers are binned.

    Attributes
    ----------
    schema, n_rows
        The columns, and the number of rows on all workers.
    max_bin
        The maximum number of bins of a column.
    n_threads
        Threads on each worker.
    keep_columns
        Whether workers may keep the columns in memory between the passes for cuts.
    keep_features
        Whether the rows will be binned again, by other cuts.
    """

    schema: Schema
    n_rows: int
    max_bin: int
    n_threads: int
    keep_columns: bool = True
    keep_features: bool = False


def bin_partitions(
    cluster: Cluster,
    actors: Sequence[Any],
    options: BinOptions,
    largest_weight: float | None,
) -> GlobalBins:
    """Bin the rows of all actors by the cuts of all rows together.

    Parameters
    ----------
    cluster, actors
        Actors with `BinnedRows`, which have their tables.
    options
        How to bin.
    largest_weight
        Of all rows; None if they have no weights.
    """
    schema, n_rows, max_bin = options.schema, options.n_rows, options.max_bin
    columns: list[ColumnCuts] = []
    for start in range(0, schema.n_features, _COLUMNS_AT_ONCE):
        features = range(start, min(start + _COLUMNS_AT_ONCE, schema.n_features))
        open_columns = cut_finders(
            schema,
            max_bin,
            n_rows,
            exact=True,
            max_bytes=_PASS_BYTES,
            features=features,
            counts=options.keep_columns,
        )

        def run_passes(
            places: list[int], passes: list[ColumnPass], features: range = features
        ) -> list[ColumnPass]:
            chosen = [features[place] for place in places]
            merged: list[ColumnPass] = cluster.merge(
                actors,
                merge_passes,
                "column_passes",
                chosen,
                passes,
                largest_weight,
                n_rows,
                options.n_threads,
            )
            return merged

        columns += find_cuts(open_columns, run_passes)
    found = cluster.call(actors, "bin", columns, max_bin, options.n_threads)
    facts: BinInfo = reduce(BinInfo.merged, found)
    cluster.call(actors, "unify_bins", facts, options.keep_features)
    layout = _layout(columns, facts, schema)
    return GlobalBins(columns, max_bin, facts, layout, options.keep_features)


def bin_calls(bins: GlobalBins, n_threads: int) -> list[Call]:
    """Return the calls by which newly prepared actors bin their rows by known cuts.

    The actors must have rows from which these cuts were computed.
    """
    bin_rows = (bins.columns, bins.max_bin, n_threads)
    unify = (bins.facts, bins.keep_features)
    return [("bin", bin_rows), ("unify_bins", unify)]


def _layout(
    columns: Sequence[ColumnCuts], facts: BinInfo, schema: Schema
) -> HistogramLayout:
    cuts = Cuts.join(list(columns))
    offsets = np.concatenate([[0], np.cumsum(cuts.n_bins + facts.has_missing)])
    types = schema.types or [""] * schema.n_features
    return HistogramLayout.unbundled(
        cuts.n_bins, offsets.astype(np.int64), np.array([kind == "c" for kind in types])
    )
