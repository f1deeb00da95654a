"""Splits, against a search in exact fractions, candidate by candidate."""

from __future__ import annotations

import naive
import numpy as np
import pytest
from kernel_calls import N_THREADS, call, split_rules

from hornbeam.kernels.layout import (
    CATEGORY_SETS,
    FEATURE_DTYPE,
    ONE_CATEGORY,
    SPLIT_DTYPE,
)
from hornbeam.kernels.split import CandidateFeatures, NodeHistograms, find_splits

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
    """Bins of a few features, and histograms of nodes."""

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
        self.categorical, self.words = (), 0
        self.counted = [[], []]
        self.total_of = -1  # the column that counts each row once

    def set_categorical(self, *features):
        """Make these features categorical."""
        self.categorical = features
        self.words = -(-int(self.bins[list(features)].max()) // 64)

    def find(self, rules, allowed=None, block=None, n_threads=1):
        """Return the splits of all nodes, (nodes, tasks a node)."""
        nodes = len(self.histograms)
        block = self.columns.size if block is None else block
        splits = np.zeros((nodes, -(-self.columns.size // block)), SPLIT_DTYPE)
        features = np.zeros(self.bins.size, FEATURE_DTYPE)
        features["bins"], features["cell"] = self.bins, self.offsets[:-1]
        features["is_categorical"][list(self.categorical)] = 1
        kind = np.uint64 if self.words else np.uint8
        self.sets = np.full((*splits.shape, self.words), 7, kind)
        mask = np.empty((0, 0), np.uint8) if allowed is None else allowed
        # The slots are in another order.
        slots = np.arange(nodes)[::-1].copy()
        call(
            find_splits,
            NodeHistograms(
                np.ascontiguousarray(self.histograms[::-1]),
                slots,
                *np.array(self.counted, np.int64),
                features,
                self.offsets[self.columns[self.total_of] :][:2],
            ),
            CandidateFeatures(self.columns.astype(np.uint64), mask, block),
            STEPS,
            split_rules(*rules),
            None,
            np.full((n_threads, 6, 2 * self.bins.max() + 2), np.nan),
            splits,
            self.sets,
            n_threads=n_threads,
        )
        return splits

    def check(self, split, node, rules, columns=None):
        """Assert that `split` is the naive one among `columns`."""
        columns = self.columns.tolist() if columns is None else columns
        sums = self.histograms[node]
        rules = [*rules, 4, 64] if len(rules) == 4 else rules
        exact = naive.best_split(
            sums, self.offsets, self.bins, columns, STEPS, rules, self.categorical
        )
        first = slice(self.offsets[columns[0]], self.offsets[columns[0] + 1])
        total = sums[:, first].sum(axis=1).tolist()
        assert [split["total_gradient"], split["total_hessian"]] == total
        if exact is None or exact[0] <= 0:
            assert split["gain"] <= 1e-12
            return None
        gain, feature, last_bin, missing_left, left = exact
        is_sorted = self.bins[feature] >= rules[4]
        kind = CATEGORY_SETS if is_sorted else ONE_CATEGORY
        assert split["is_categorical"] == (kind if feature in self.categorical else 0)
        if feature in self.categorical:
            assert self.rights_of(node) == last_bin
            last_bin = 0
        assert split[FIELDS].item() == (feature, last_bin, missing_left, *left)
        assert split["gain"] == pytest.approx(float(gain), rel=1e-9, abs=1e-9)
        return split[FIELDS].item()

    def rights_of(self, node):
        """Return the categories that go right in the last split."""
        words = self.sets[node, 0].tolist()
        return tuple(c for c in range(64 * self.words) if words[c // 64] >> c % 64 & 1)


def random_codes(rows, bins, missing, seed=0):
    """Return bins[feature][row], with missing values in some features."""
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
    # Few rows in many bins: most cuts equal their neighbours.
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


def test_missing_against_all_others_is_found_by_the_upward_pass():
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
def test_the_side_of_missing_values(missing_gradient, direction):
    codes = np.repeat([0, 1, 2, 3, 4], 20)
    data = Data([codes], [4])
    g = np.array([50_000, 60_000, -50_000, -60_000, missing_gradient])[codes]
    pairs = np.stack([g, np.full(100, 4000)], axis=1)
    sums = naive.histogram([codes], data.offsets, [0], range(100), pairs)
    data.histograms = sums[None]
    split = data.check(data.find(RULES["plain"])[0, 0], 0, RULES["plain"])
    assert split[:3] == (0, 1, direction)


def test_without_missing_values_in_the_node_they_go_right():
    bins = [6, 6]
    data = Data(random_codes(60, bins, [0]), bins)
    # The bin of missing values exists, but is empty at this node.
    data.histograms[0, :, data.offsets[1] :] = 0
    cells = data.histograms[0, :, 6].copy()
    data.histograms[0, :, 6] = 0
    data.histograms[0, :, 2] += cells
    data.total_of = 0
    split = data.find(RULES["plain"])[0, 0]
    assert data.check(split, 0, RULES["plain"], [0])[2] == 0


@pytest.mark.parametrize("n_threads", N_THREADS)
@pytest.mark.parametrize("block", [1, 2, 4, 7])
def test_blocks_of_columns(block, n_threads):
    bins = [7, 5, 1, 9, 7, 3, 5]
    codes = random_codes(80, bins, [1, 6])
    codes[4] = codes[0]
    rules = RULES["plain"]
    data = Data(codes, bins, 3)
    splits = data.find(rules, block=block, n_threads=n_threads)
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
    # The bins of other columns are not used.
    others = [f for f in range(4) if f not in columns]
    clean = data.histograms.copy()
    for f in others:
        data.histograms[:, :, data.offsets[f] : data.offsets[f + 1]] = 1 << 60
    splits = data.find(RULES["plain"])
    data.histograms = clean
    for node in range(2):
        data.check(splits[node, 0], node, RULES["plain"], columns)


def test_only_allowed_features():
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
    # Every child has too small a hessian.
    data = Data(random_codes(40, [5], []), [5])
    assert data.find([1, 0, 0, 1e6])[0, 0]["gain"] == 0.0


def test_a_child_may_have_exactly_the_least_hessian():
    codes = np.repeat([0, 1], [10, 30])
    data = Data([codes], [2])
    pairs = np.stack([np.where(codes, 1000, -900), np.full(40, 1 << 12)], axis=1)
    sums = naive.histogram([codes], data.offsets, [0], range(40), pairs)
    data.histograms = sums[None]
    assert data.find([0, 0, 0, 10.0])[0, 0]["gain"] > 0.0
    assert data.find([0, 0, 0, np.nextafter(10.0, 11.0)])[0, 0]["gain"] == 0.0


#: As above, then max_cat_to_onehot and max_cat_threshold; and perhaps those of
#: constraints, cat_smooth, cat_l2, min_category_weight and min_group_weight.
CATEGORY_RULES = {
    "plain": [1, 0, 0, 1, 4, 64],
    "one-hot": [1, 0, 0, 1, 100, 64],
    "few cuts": [1, 0, 0, 1, 1, 4],
    "one cut": [1, 0, 0, 1, 1, 2],
    "alpha": [1, 20, 0, 1, 1, 64],
    "min_child_weight": [1, 0, 0, 90, 1, 64],
    "light categories": [1, 0, 0, 30, 1, 64],
    "max_delta_step": [1, 0, 0.05, 1, 1, 64],
    "all": [0.5, 11, 0.06, 40, 6, 5],
    "smooth": [1, 0, 0, 1, 1, 64, 0, 0, 60, 0, -1, 0],
    "smooth and light": [1, 0, 0, 90, 1, 64, 0, 0, 9, 0, 30, 0],
    "cat_l2": [1, 0, 0, 1, 1, 64, 0, 0, 0, 150, -1, 0],
    "groups": [1, 0, 0, 1, 1, 64, 0, 0, 0, 0, -1, 200],
    "shrinkage": [0, 3, 0.9, 10, 6, 9, 0, 0, 20, 15, 11, 70],
}


@pytest.mark.parametrize("rules", CATEGORY_RULES.values(), ids=list(CATEGORY_RULES))
@pytest.mark.parametrize("missing", [[], [1, 3], [0, 1, 2, 3]])
@pytest.mark.parametrize("bins", [[7, 5, 1, 9], [3, 70, 2, 4]], ids=str)
def test_the_best_split_by_category(bins, missing, rules):
    for seed in range(4):
        data = Data(random_codes(90, bins, missing, seed), bins, 2, seed)
        data.set_categorical(1, 2, 3)
        splits = data.find(rules)
        for node in range(2):
            data.check(splits[node, 0], node, rules)


@pytest.mark.parametrize("rules", CATEGORY_RULES.values(), ids=list(CATEGORY_RULES))
@pytest.mark.parametrize("categories", [2, 20, 64, 65, 300])
def test_categories_without_rows(categories, rules):
    for seed in range(3):
        (codes,) = random_codes(40, [categories], [0], seed)
        data = Data([codes], [categories], 1, seed)
        data.set_categorical(0)
        data.check(data.find(rules)[0, 0], 0, rules)


@pytest.mark.parametrize("threshold", [2, 9, 64, 1000])
def test_of_many_categories_the_outermost_are_searched(threshold):
    bins = [270]
    rules = [1, 0, 0, 1, 4, threshold]
    for seed in range(3):
        data = Data(random_codes(2000, bins, [], seed), bins, 1, seed)
        data.set_categorical(0)
        assert data.check(data.find(rules)[0, 0], 0, rules) is not None
        rights = len(data.rights_of(0))
        assert min(rights, 270 - rights) < threshold


@pytest.mark.parametrize("one_hot", [1, 100])
@pytest.mark.parametrize("missing", [[], [0]])
def test_of_equal_categories_the_first_goes_right(missing, one_hot):
    bins = [12]
    rules = [1, 0, 0, 1, one_hot, 64]
    (codes,) = random_codes(300, bins, missing)
    data = Data([codes], bins)
    data.set_categorical(0)
    # Categories of four kinds: within a kind all have the same sums.
    cells = data.histograms[0][:, :12]
    cells[:] = cells[:, np.arange(12) % 4]
    assert data.check(data.find(rules)[0, 0], 0, rules) is not None


def test_one_category_is_no_split_and_one_against_the_missing_is():
    (codes,) = random_codes(60, [1], [0])
    data = Data([codes], [1])
    data.set_categorical(0)
    assert data.find([1, 0, 0, 1, 1, 64])[0, 0]["gain"] == 0.0
    rules = [1, 0, 0, 1, 4, 64]
    assert data.check(data.find(rules)[0, 0], 0, rules) is not None
    assert data.rights_of(0) == (0,)
    assert data.find([1, 0, 0, 1, 1, 1])[0, 0]["gain"] == 0.0


@pytest.mark.parametrize("n_threads", N_THREADS)
def test_categories_in_blocks_of_columns(n_threads):
    bins = [7, 80, 9, 80, 7]
    codes = random_codes(300, bins, [1, 4])
    codes[3] = codes[1]
    rules = CATEGORY_RULES["plain"]
    data = Data(codes, bins, 3)
    data.set_categorical(1, 3, 4)
    splits, sets = data.find(rules, block=1, n_threads=n_threads), data.sets
    whole = data.find(rules)
    for node in range(3):
        best = splits[node]["gain"].argmax()
        assert splits[node][best].tobytes() == whole[node, 0].tobytes()
        if whole[node, 0]["is_categorical"]:
            np.testing.assert_array_equal(sets[node, best], data.sets[node, 0])
        data.check(whole[node, 0], node, rules)


@pytest.mark.parametrize("n_threads", N_THREADS)
def test_histograms_are_first_subtracted_from_those_of_the_parents(n_threads):
    bins = [7, 5, 1, 9]
    data = Data(random_codes(80, bins, [1], 3), bins, 4, 3)
    own = data.histograms.copy()
    # The third has its parent's histogram, and its sibling, the second, was built;
    # slots are in the reverse order. The first has no parent.
    data.histograms[2] += data.histograms[1]
    data.counted = [[2, 3], [1, -1]]
    splits = data.find(RULES["plain"], n_threads=n_threads)
    data.histograms = own
    for node in range(4):
        data.check(splits[node, 0], node, RULES["plain"])
