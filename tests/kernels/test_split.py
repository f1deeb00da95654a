"""The search for splits, against one in exact fractions, candidate by candidate."""

from __future__ import annotations

import naive
import numpy as np
import pytest
from kernel_calls import MEMBERS, call

from hornbeam.kernels.layout import FEATURE_DTYPE, SPLIT_DTYPE
from hornbeam.kernels.split import find_splits

STEPS = np.array([2.0**-10, 2.0**-12])
FIELDS = ["feature", "bin", "missing_left", "left_gradient", "left_hessian"]
#: lambda, alpha, max_delta_step, min_child_weight
RULES = {
    "plain": [1, 0, 0, 1],
    "no lambda": [0, 0, 0, 0],
    "lambda": [7.5, 0, 0, 0],
    "alpha": [1, 20, 0, 1],
    "min_child_weight": [1, 0, 0, 90],
    "max_delta_step": [1, 0, 0.05, 1],
    "all": [0.5, 11, 0.06, 40],
}


class Data:
    """Codes of a few features and histograms of nodes over them."""

    def __init__(self, codes, bins, nodes=1, seed=0):
        rng = np.random.default_rng(seed)
        rows = len(codes[0])
        self.bins = np.array(bins)
        cells = [n + (max(column) == n) for column, n in zip(codes, bins, strict=True)]
        self.offsets = np.concatenate([[0], np.cumsum(cells)])
        self.histograms = []
        for node in range(nodes):
            g = rng.integers(-90_000, 90_000, rows)
            h = rng.integers(1, 90_000, rows)
            own = np.arange(node, rows, nodes)
            pairs = np.stack([g, h], axis=1)
            every = range(len(codes))
            sums = naive.histogram(codes, self.offsets, every, own, pairs)
            self.histograms.append(sums)
        self.histograms = np.array(self.histograms)
        self.columns = np.arange(len(codes))
        self.total_of = -1  # which of the columns counts each row

    def find(self, rules, allowed=None, block=None, members=1):
        """Return the splits of all nodes, (nodes, tasks a node)."""
        nodes = len(self.histograms)
        block = self.columns.size if block is None else block
        splits = np.zeros((nodes, -(-self.columns.size // block)), SPLIT_DTYPE)
        features = np.zeros(self.bins.size, FEATURE_DTYPE)
        features["bins"], features["cell"] = self.bins, self.offsets[:-1]
        mask = np.empty((0, 0), np.uint8) if allowed is None else allowed
        # In slots of another order.
        slots = np.arange(nodes)[::-1].copy()
        call(
            find_splits,
            slots,
            np.ascontiguousarray(self.histograms[::-1]),
            self.offsets[self.columns[self.total_of] :][:2],
            self.columns.astype(np.uint64),
            mask,
            features,
            STEPS,
            np.array(rules, np.float64),
            np.full((members, 3, self.bins.max() + 2), np.nan),
            block,
            splits,
            members=members,
        )
        return splits

    def check(self, split, node, rules, columns=None):
        """Assert that `split` is the naive one among `columns`."""
        columns = self.columns.tolist() if columns is None else columns
        sums = self.histograms[node]
        exact = naive.best_split(sums, self.offsets, self.bins, columns, STEPS, rules)
        first = slice(self.offsets[columns[0]], self.offsets[columns[0] + 1])
        total = sums[:, first].sum(axis=1).tolist()
        assert [split["total_gradient"], split["total_hessian"]] == total
        if exact is None or exact[0] <= 0:
            assert split["gain"] <= 1e-12
            return None
        gain, feature, last_bin, missing_left, left = exact
        assert split[FIELDS].item() == (feature, last_bin, missing_left, *left)
        assert split["gain"] == pytest.approx(float(gain), rel=1e-9, abs=1e-9)
        return split[FIELDS].item()


def random_codes(rows, bins, missing, seed=0):
    """Return codes[feature][row], and the missing in some rows of some features."""
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, n, rows) for n in bins]
    for f in missing:
        codes[f][rng.random(rows) < 0.3] = bins[f]
    return codes


@pytest.mark.parametrize("rules", RULES.values(), ids=list(RULES))
@pytest.mark.parametrize("missing", [[], [1, 3], [0, 1, 2, 3]])
def test_the_best_split_is_found(missing, rules):
    bins = [7, 5, 1, 9]
    for seed in range(4):
        data = Data(random_codes(80, bins, missing, seed), bins, 2, seed)
        splits = data.find(rules)
        for node in range(2):
            assert data.check(splits[node, 0], node, rules) is not None


@pytest.mark.parametrize("rules", RULES.values(), ids=list(RULES))
def test_empty_bins(rules):
    # Few rows in many bins: most cuts part the rows as their neighbours do.
    bins = [20, 30]
    for seed in range(4):
        data = Data(random_codes(12, bins, [1], seed), bins, 1, seed)
        data.check(data.find(rules)[0, 0], 0, rules)


@pytest.mark.parametrize("missing", [[], [0]])
def test_of_equal_columns_the_first_wins(missing):
    bins = [8]
    for seed in range(6):
        (column,) = random_codes(60, bins, missing, seed)
        data = Data([column] * 3, bins * 3, 1, seed)
        split = data.find(RULES["plain"])[0, 0]
        assert data.check(split, 0, RULES["plain"])[0] == 0


@pytest.mark.parametrize("rules", RULES.values(), ids=list(RULES))
@pytest.mark.parametrize("missing", [[], [0]])
def test_of_mirrored_columns_the_first_wins(missing, rules):
    # The same gains, with left and right exchanged.
    bins = [8]
    for seed in range(6):
        (column,) = random_codes(60, bins, missing, seed)
        mirrored = np.where(column < 8, 7 - column, 8)
        for codes in ([column, mirrored], [mirrored, column]):
            data = Data(codes, [8, 8], 1, seed)
            exact = data.check(data.find(rules)[0, 0], 0, rules)
            assert exact is None or exact[0] == 0


def test_missing_against_all_others_is_found_upwards():
    # Downwards, "only the missing left" is the same split, and comes later.
    rows = 40
    column = np.where(np.arange(rows) < 15, 3, np.arange(rows) % 3)
    data = Data([column], [3])
    g = np.where(column == 3, 1000, -1000)
    pairs = np.stack([g, np.full(rows, 5000)], axis=1)
    sums = naive.histogram([column], data.offsets, [0], range(rows), pairs)
    data.histograms = sums[None]
    split = data.check(data.find(RULES["no lambda"])[0, 0], 0, RULES["no lambda"])
    assert split[:3] == (0, 2, 0)


@pytest.mark.parametrize(("missing_gradient", "direction"), [(70_000, 1), (-70_000, 0)])
def test_the_missing_go_where_they_fit(missing_gradient, direction):
    codes = np.repeat([0, 1, 2, 3, 4], 20)
    data = Data([codes], [4])
    g = np.array([50_000, 60_000, -50_000, -60_000, missing_gradient])[codes]
    pairs = np.stack([g, np.full(100, 4000)], axis=1)
    sums = naive.histogram([codes], data.offsets, [0], range(100), pairs)
    data.histograms = sums[None]
    split = data.check(data.find(RULES["plain"])[0, 0], 0, RULES["plain"])
    assert split[:3] == (0, 1, direction)


def test_where_no_row_of_the_node_misses_the_feature_none_goes_left():
    bins = [6, 6]
    data = Data(random_codes(60, bins, [0]), bins)
    # The cell of the missing is there, but empty at this node.
    data.histograms[0, :, data.offsets[1] :] = 0
    cells = data.histograms[0, :, 6].copy()
    data.histograms[0, :, 6] = 0
    data.histograms[0, :, 2] += cells
    data.total_of = 0
    split = data.find(RULES["plain"])[0, 0]
    assert data.check(split, 0, RULES["plain"], [0])[2] == 0


@pytest.mark.parametrize("members", MEMBERS)
@pytest.mark.parametrize("block", [1, 2, 4, 7])
def test_blocks_of_columns(block, members):
    bins = [7, 5, 1, 9, 7, 3, 5]
    codes = random_codes(80, bins, [1, 6])
    codes[4] = codes[0]
    rules = RULES["plain"]
    data = Data(codes, bins, 3)
    splits = data.find(rules, block=block, members=members)
    whole = data.find(rules)
    for node in range(3):
        for part, split in enumerate(splits[node]):
            columns = range(part * block, min((part + 1) * block, 7))
            alone = Data.__new__(Data)
            alone.__dict__.update(data.__dict__)
            alone.columns = np.array(columns)
            exact = alone.find(rules)[node, 0]
            assert split[FIELDS].item() == exact[FIELDS].item()
            assert split["gain"] == exact["gain"]
        # The first of the highest is the one that a single block gives.
        best = splits[node][splits[node]["gain"].argmax()]
        assert best.tobytes() == whole[node, 0].tobytes()
        data.check(best, node, rules)


@pytest.mark.parametrize("columns", [[0], [3], [1, 2], [0, 3]])
def test_only_the_columns_of_the_tree(columns):
    bins = [7, 5, 4, 9]
    data = Data(random_codes(80, bins, [1, 3]), bins, 2)
    data.columns = np.array(columns)
    # What lies in other columns is nobody's.
    others = [f for f in range(4) if f not in columns]
    clean = data.histograms.copy()
    for f in others:
        data.histograms[:, :, data.offsets[f] : data.offsets[f + 1]] = 1 << 60
    splits = data.find(RULES["plain"])
    data.histograms = clean
    for node in range(2):
        data.check(splits[node, 0], node, RULES["plain"], columns)


def test_only_what_is_allowed_at_the_node():
    bins = [7, 5, 4, 9]
    data = Data(random_codes(80, bins, [1, 3]), bins, 3)
    allowed = np.array([[1, 0, 0, 1], [0, 1, 1, 0], [0, 0, 0, 0]], np.uint8)
    splits = data.find(RULES["plain"], allowed)
    data.check(splits[0, 0], 0, RULES["plain"], [0, 3])
    data.check(splits[1, 0], 1, RULES["plain"], [1, 2])
    assert splits[2, 0]["gain"] == 0.0


def test_no_split():
    codes = [np.zeros(20, int), np.full(20, 3)]
    data = Data(codes, [1, 3])
    for rules in RULES.values():
        assert data.find(rules)[0, 0]["gain"] <= 0.0
    # No rows at all.
    data.histograms[:] = 0
    for rules in RULES.values():
        split = data.find(rules)[0, 0]
        assert split["gain"] == 0.0 == split["total_hessian"]
    # Every child is too light.
    data = Data(random_codes(40, [5], []), [5])
    assert data.find([1, 0, 0, 1e6])[0, 0]["gain"] == 0.0


def test_a_child_may_have_just_the_least_weight():
    codes = np.repeat([0, 1], [10, 30])
    data = Data([codes], [2])
    pairs = np.stack([np.where(codes, 1000, -900), np.full(40, 1 << 12)], axis=1)
    sums = naive.histogram([codes], data.offsets, [0], range(40), pairs)
    data.histograms = sums[None]
    assert data.find([0, 0, 0, 10.0])[0, 0]["gain"] > 0.0
    assert data.find([0, 0, 0, np.nextafter(10.0, 11.0)])[0, 0]["gain"] == 0.0
