"""Cuts and codes of rows on many workers: the same as if they lay on one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from hornbeam.backends.cluster import Call, Cluster
from hornbeam.binning.column_pass import ColumnPass, merge_passes
from hornbeam.binning.cuts import ColumnCuts, Cuts
from hornbeam.binning.exact_quantiles import cut_finders, find_cuts
from hornbeam.binning.layout import HistogramLayout
from hornbeam.dask.rowset import CodeFacts
from hornbeam.data.schema import Schema

__all__ = ["Coded", "bin_parts", "calls_for_codes"]

#: Columns whose cuts are found together, and bytes of values that they keep on each
#: worker, which all come to the client: with a megabyte a column, two passes are
#: enough for some million rows.
_COLUMNS_AT_ONCE = 64
_ROOM = 64 << 20


@dataclass(frozen=True, slots=True)
class Coded:
    """How the rows on all workers are coded.

    Attributes
    ----------
    columns
        The cuts of each column.
    max_bin
        That they were made for.
    facts
        What the codes have in common.
    layout
        Of histograms of them.
    keeps_features
        Whether members still have the features.
    """

    columns: list[ColumnCuts]
    max_bin: int
    facts: CodeFacts
    layout: HistogramLayout
    keeps_features: bool

    @property
    def cuts(self) -> Cuts:
        """The cuts of all columns as one."""
        return Cuts.join(self.columns)


def bin_parts(
    cluster: Cluster,
    members: Sequence[Any],
    schema: Schema,
    n_rows: int,
    largest_weight: float | None,
    max_bin: int,
    n_threads: int,
    keeps_features: bool = False,
) -> Coded:
    """Bin the rows of all members, and return how they are coded.

    The members are `Rowset` objects that have been prepared. The cuts are those of all
    rows together, wherever they are.

    Parameters
    ----------
    cluster, members
        Who holds the rows.
    schema, n_rows
        The columns, and the rows of all together.
    largest_weight
        Of all rows; None if they have no weights.
    max_bin
        The most bins of a column.
    n_threads
        Threads on each worker.
    keeps_features
        Whether the rows will be binned anew.
    """
    columns: list[ColumnCuts] = []
    for start in range(0, schema.n_features, _COLUMNS_AT_ONCE):
        features = range(start, min(start + _COLUMNS_AT_ONCE, schema.n_features))
        open_columns = cut_finders(
            schema, max_bin, n_rows, exact=True, max_bytes=_ROOM, features=features
        )

        def read(
            places: list[int], passes: list[ColumnPass], features: range = features
        ) -> list[ColumnPass]:
            chosen = [features[place] for place in places]
            found = cluster.call(
                members,
                "read_for_cuts",
                chosen,
                passes,
                largest_weight,
                n_rows,
                n_threads,
            )
            return merge_passes(found)

        columns += find_cuts(open_columns, read)
    found = cluster.call(members, "bin", columns, max_bin, n_threads)
    facts: CodeFacts = reduce(CodeFacts.joined, found)
    cluster.call(members, "settle", facts, keeps_features)
    layout = _layout(columns, facts, schema)
    return Coded(columns, max_bin, facts, layout, keeps_features)


def calls_for_codes(coded: Coded, n_threads: int) -> list[Call]:
    """Return what brings prepared members that are new to the codes of all others.

    They may hold any of the rows that those codes were made of.
    """
    bin_rows = (coded.columns, coded.max_bin, n_threads)
    settle = (coded.facts, coded.keeps_features)
    return [("bin", bin_rows), ("settle", settle)]


def _layout(
    columns: Sequence[ColumnCuts], facts: CodeFacts, schema: Schema
) -> HistogramLayout:
    cuts = Cuts.join(list(columns))
    offsets = np.concatenate([[0], np.cumsum(cuts.n_bins + facts.has_missing)])
    types = schema.types or [""] * schema.n_features
    return HistogramLayout.unbundled(
        cuts.n_bins, offsets.astype(np.int64), np.array([kind == "c" for kind in types])
    )
