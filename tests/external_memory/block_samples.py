"""Sample bins, and caches built from them."""

from __future__ import annotations

import numpy as np

from hornbeam.external_memory.cache import open_or_build


def bins_of(columns, rows, seed=0, dtype=np.uint8):
    """Return columns of 2 bins, 16 bins, many skewed and many uniform bins in turn."""
    rng = np.random.default_rng(seed)
    top = 256 if dtype == np.uint8 else 5000
    kinds = [
        lambda: rng.integers(0, 2, rows),
        lambda: rng.integers(0, 16, rows),
        lambda: np.minimum(rng.geometric(0.3, rows), top - 1),
        lambda: rng.integers(0, top, rows),
    ]
    return np.array([kinds[f % 4]() for f in range(columns)]).astype(dtype)


def build_of(bins, batch=None, facts=None, **options):
    """Return a function that builds a cache of these bins, written in batches."""

    def build(new_writer):
        columns, rows = bins.shape
        writer = new_writer(rows, columns, bins.dtype, **options)
        step = batch or rows
        for begin in range(0, rows, step):
            writer.write(bins[:, begin : begin + step])
        return writer.finish(facts or {})

    return build


def make(folders, bins, fingerprint="one", *, rebuild=None, **options):
    """Build and open a cache of these bins."""
    return open_or_build(folders, fingerprint, build_of(bins, **options), rebuild)


def read(store, columns=None, by_row=True, **options):
    """Return copies of the columns and row-major bins that a pass reads."""
    some = range(store.n_columns) if columns is None else columns
    by_feature, rows = [], []
    with store.read_blocks(columns, by_row, **options) as blocks:
        for block in blocks:
            by_feature.append(block.by_feature[list(some)])
            rows.append(block.by_row.copy())
    return np.concatenate(by_feature, axis=1), np.concatenate(rows)
