"""Codes to write, and caches of them."""

from __future__ import annotations

import numpy as np

from hornbeam.external_memory.cache import open_or_build


def codes_of(columns, rows, seed=0, dtype=np.uint8):
    """Return codes of columns with 2, 16, many skewed, and many even values in turn."""
    rng = np.random.default_rng(seed)
    top = 256 if dtype == np.uint8 else 5000
    kinds = [
        lambda: rng.integers(0, 2, rows),
        lambda: rng.integers(0, 16, rows),
        lambda: np.minimum(rng.geometric(0.3, rows), top - 1),
        lambda: rng.integers(0, top, rows),
    ]
    return np.array([kinds[f % 4]() for f in range(columns)]).astype(dtype)


def build_of(codes, batch=None, facts=None, **options):
    """Return what builds a cache of these codes, given in batches."""

    def build(new_writer):
        columns, rows = codes.shape
        writer = new_writer(rows, columns, codes.dtype, **options)
        step = batch or rows
        for begin in range(0, rows, step):
            writer.write(codes[:, begin : begin + step])
        return writer.finish(facts or {})

    return build


def make(folders, codes, fingerprint="one", *, mend=None, **options):
    """Return the pages of these codes."""
    return open_or_build(folders, fingerprint, build_of(codes, **options), mend)


def read(pages, columns=None, by_row=True, **options):
    """Return copies of what a sweep gives: the asked columns, and the rows."""
    some = range(pages.n_columns) if columns is None else columns
    by_feature, rows = [], []
    with pages.read_blocks(columns, by_row, **options) as blocks:
        for block in blocks:
            by_feature.append(block.by_feature[list(some)])
            rows.append(block.by_row.copy())
    return np.concatenate(by_feature, axis=1), np.concatenate(rows)
