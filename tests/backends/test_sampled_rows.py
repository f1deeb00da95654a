"""Cached samples of trees: the same trees, from two passes each."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from parts import KINDS, N_ROWS, grow, grow_in_memory
from test_external_rows import external_rows

from hornbeam import DataError, DMatrix, ParameterError, train
from hornbeam.backends.interface import RowSample
from hornbeam.backends.memory_plan import MemoryPlan
from hornbeam.external_memory.reader import BlockStore
from hornbeam.kernels.jit import COMPILED
from hornbeam.memory import resident_bytes

SAMPLED = [kind for kind, options in KINDS.items() if "sample" in options]
STATES = [frozenset(), frozenset(["row_lists"]), frozenset(["margins", "gradients"])]


@pytest.fixture
def passes(monkeypatch):
    """What each read_blocks that was begun asked for: columns, and whether rows."""
    begun = []
    read_blocks = BlockStore.read_blocks

    def noted(self, columns, by_row, *rest):
        begun.append((columns, by_row))
        return read_blocks(self, columns, by_row, *rest)

    monkeypatch.setattr(BlockStore, "read_blocks", noted)
    return begun


def held(rows, on_disk=frozenset(), kept_bytes=0):
    """Return a budget with room for so many rows of a sample."""
    in_memory = not on_disk
    return MemoryPlan(None, None, kept_bytes, on_disk, in_memory, sample_rows=rows)


@pytest.mark.parametrize("on_disk", STATES, ids=["memory", "row_lists", "gradients"])
@pytest.mark.parametrize("kind", [*SAMPLED, "by level"])
def test_trees_and_margins_equal_those_of_rows_in_memory(tmp_path, kind, on_disk):
    rows = partial(external_rows, tmp_path, held(N_ROWS, on_disk))
    assert grow(rows, **KINDS[kind]) == grow_in_memory(kind)


@pytest.mark.parametrize("by_gradient", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {"weighted": True},
        {"outlier": 1e9, "weighted": True},
        {"rates": 0.6},
        {"max_histograms": 1},
        {"most_bins": 400 if COMPILED else 20},
    ],
    ids=str,
)
def test_every_kind_of_tree(tmp_path, by_gradient, options):
    options = {**options, "sample": RowSample(0.4, 3, 1, by_gradient)}
    rows = partial(external_rows, tmp_path, held(N_ROWS, kept_bytes=2 * N_ROWS))
    assert grow(rows, **options) == grow(**options)


def test_a_sample_that_does_not_fit_is_read_from_disk(tmp_path, passes):
    options = KINDS["sampled"]
    rows = partial(external_rows, tmp_path, held(N_ROWS // 2))
    assert grow(rows, **options) == grow(**options)
    assert len(passes) > 4


@pytest.mark.parametrize("kind", ["sampled", "by gradient"])
@pytest.mark.parametrize("policy", ["by level", "best first"])
def test_a_tree_takes_two_passes(tmp_path, passes, kind, policy):
    options = {**KINDS[policy], **KINDS[kind]}
    expected = grow(**options)
    assert grow(partial(external_rows, tmp_path, held(0)), **options) == expected
    without = len(passes)
    passes.clear()
    assert grow(partial(external_rows, tmp_path, held(N_ROWS)), **options) == expected
    assert len(passes) == 2 * 2 < without
    for (columns, by_row), (split_columns, by_row_again) in zip(
        passes[::2], passes[1::2], strict=True
    ):
        assert columns == [] and by_row
        assert split_columns and not by_row_again


@pytest.mark.skipif(not COMPILED, reason="long for plain Python")
@pytest.mark.parametrize("method", ["uniform", "gradient_based"])
@pytest.mark.parametrize(
    "params",
    [
        {"objective": "binary:logistic"},
        {"objective": "multi:softprob", "num_class": 3, "colsample_bynode": 0.7},
        {"grow_policy": "lossguide", "max_leaves": 20, "num_parallel_tree": 2},
    ],
    ids=["binary", "classes", "lossguide"],
)
def test_the_model_within_a_limit_equals_that_in_memory(
    tmp_path, passes, params, method, thread_counts
):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300_000, 4)).astype(np.float32)
    X[:, 3] = rng.integers(9, size=len(X))
    classes = 3 if "num_class" in params else 2
    noise = rng.normal(size=len(X))
    y = np.digitize(X[:, 0] + (X[:, 3] > 4) + noise, [0, 1][: classes - 1])
    weight = rng.uniform(0.5, 2, len(X)) if classes == 2 else None
    own = {"weight": weight, "feature_types": ["float", "float", "float", "c"]}
    params = {**params, "subsample": 0.1, "sampling_method": method, "max_bin": 64}
    held = DMatrix(X, y, **own)
    expected = train(params, held, 2).digest()
    params["extmem_single_page"] = True
    assert train(params, held, 2).digest() == expected
    DMatrix(X, y, cache=tmp_path, **own).binned(64)
    rooms = {1: None, 2: 130, 3: 160, 7: 400}
    for threads in thread_counts:
        room = rooms[threads]
        limit = None if room is None else resident_bytes() + room * 2**20
        data = DMatrix(X, y, cache=tmp_path, memory_limit=limit, **own)
        data.binned(64)
        passes.clear()
        model = train({**params, "nthread": threads}, data, 2)
        assert model.digest() == expected
        assert len(passes) == 2 * len(model.model.trees)


def test_a_sample_can_be_empty(tmp_path):
    X = np.random.default_rng(0).normal(size=(50, 2))
    params = {"subsample": 1e-9, "extmem_single_page": True}
    expected = train(params, DMatrix(X, X[:, 0]), 2)
    model = train(params, DMatrix(X, X[:, 0], cache=tmp_path), 2)
    assert model.digest() == expected.digest()
    assert all(tree.n_leaves == 1 for tree in model.model.trees)


def test_without_a_sample_there_is_nothing_to_cache():
    data = DMatrix(np.arange(9.0)[:, None], np.arange(9.0))
    with pytest.raises(ParameterError, match="set subsample below 1"):
        train({"extmem_single_page": True}, data, 1)


@pytest.mark.skipif(not COMPILED, reason="bins ten million values")
def test_the_error_message_says_how_much_memory_the_sample_takes(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400_000, 25)).astype(np.float32)
    DMatrix(X, X[:, 0], cache=tmp_path).binned(16)
    params = {"subsample": 0.9, "max_bin": 16, "extmem_single_page": True}
    data = DMatrix(X, X[:, 0], cache=tmp_path, memory_limit=resident_bytes() + 10**8)
    with pytest.raises(DataError, match="leave out extmem_single_page, which takes 3"):
        train(params, data, 1)
