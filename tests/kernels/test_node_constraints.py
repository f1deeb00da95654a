"""Splits under constraints, against a search in exact fractions."""

from __future__ import annotations

from fractions import Fraction

import naive
import numpy as np
import pytest
from kernel_calls import N_THREADS, call, split_rules

from hornbeam.kernels.layout import FEATURE_DTYPE, SPLIT_DTYPE
from hornbeam.kernels.node_constraints import NodeConstraints
from hornbeam.kernels.split import CandidateFeatures, NodeHistograms, find_splits

STEPS = np.array([2.0**-10, 2.0**-12])
#: lambda, alpha, max_delta_step, min_child_weight, and those of categories
RULES = [1.0, 0.0, 0.0, 1.0, 4, 64]
FREE = {
    "directions": [0, 0, 0, 0],
    "bounds": (-np.inf, np.inf),
    "weight": None,
    "costs": None,
    "used": [],
    "cost_of_rows": False,
    "least_rows": 0,
    "smooth": 0.0,
}
HELD = {
    "nothing": {},
    "rising": {"directions": [1, 1, 1, 0]},
    "falling": {"directions": [-1, -1, 0, 0]},
    "bounds": {"bounds": (-0.25, 0.125)},
    "bounds of one side": {"bounds": (0.25, np.inf)},
    "rising in bounds": {"directions": [1, 1, 1, 0], "bounds": (-0.25, 0.5)},
    "rows": {"least_rows": 17},
    "smooth": {"smooth": 12.0},
    "smooth, towards a weight": {"smooth": 30.0, "weight": 0.75},
    "costs": {"costs": [40.0, 1.0, 0.0, 15.0]},
    "costs of rows": {"costs": [0.5, 0.0, 0.25, 0.125], "cost_of_rows": True},
    "costs, paid above": {"costs": [40.0, 40.0, 15.0, 15.0], "used": [0, 3]},
    "alpha": {"rules": [0.5, 9.0, 0.0, 1.0, 4, 64], "bounds": (-0.5, 0.25)},
    "step": {"rules": [1.0, 2.0, 0.25, 8.0, 4, 64], "smooth": 4.0},
    "one-hot": {"rules": [1.0, 0.0, 0.0, 1.0, 9, 64], "least_rows": 7},
    "all": {
        "rules": [0.5, 3.0, 0.75, 8.0, 4, 64],
        "directions": [1, -1, 1, 0],
        "bounds": (-0.5, 0.5),
        "costs": [1.0, 0.5, 3.0, 0.0],
        "least_rows": 6,
        "smooth": 5.0,
    },
    "shrinkage": {
        "rules": [1.0, 0.0, 0.0, 1.0, 1, 64, 0, 0, 20.0, 40.0, 16.0, 0.0],
        "directions": [0, 0, 0, 1],
        "bounds": (-0.5, 0.5),
        "smooth": 5.0,
    },
}
BINS = [7, 5, 9, 6]


class Node:
    """Binned rows of one node; the last feature is categorical."""

    def __init__(self, held, seed, equal_hessians=False, rows=90):
        rng = np.random.default_rng(seed)
        self.held = {**FREE, **held}
        self.rules = self.held.pop("rules", RULES)
        codes = [rng.integers(0, n, rows) for n in BINS]
        for column, n in zip(codes[1:], BINS[1:], strict=True):
            column[rng.random(rows) < 0.2] = n
        self.offsets = np.concatenate([[0], np.cumsum(np.array(BINS) + 1)])
        g = rng.integers(-90_000, 90_000, rows)
        g += 20_000 * (codes[0] - 3)
        self.one_row = 70_001 if equal_hessians else 1
        h = rng.integers(1, 90_000, rows)
        if equal_hessians:
            h[:] = self.one_row
        every = range(len(BINS))
        triples = np.stack([g, h, np.ones(rows, int)], axis=1)
        self.sums = naive.histogram(
            codes, self.offsets, every, range(rows), triples[:, :2]
        )
        self.counts = naive.histogram(
            codes, self.offsets, every, range(rows), triples[:, 1:]
        )[1]

    def find(self, n_threads=1, block=4):
        """Return the best split, and which categories go right in it."""
        held = self.held
        features = np.zeros(len(BINS), FEATURE_DTYPE)
        features["bins"], features["cell"] = BINS, self.offsets[:-1]
        features["is_categorical"][-1] = 1
        splits = np.zeros((1, -(-len(BINS) // block)), SPLIT_DTYPE)
        sets = np.zeros((*splits.shape, 1), np.uint64)
        parts = [*self.sums] if self.one_row > 1 else [*self.sums, self.counts]
        used = sum(1 << feature for feature in held["used"])
        limits = NodeConstraints(
            np.array([held["bounds"]]),
            np.array([np.nan if held["weight"] is None else held["weight"]]),
            np.array(held["directions"], np.int8),
            np.array(held["costs"] or [], np.float64),
            np.array([[used]], np.uint64),
            held["cost_of_rows"],
            float(self.one_row),
        )
        call(
            find_splits,
            NodeHistograms(
                np.array([parts]),
                np.zeros(1, np.int64),
                *np.empty((2, 0), np.int64),
                features,
                self.offsets[:2],
            ),
            CandidateFeatures(
                np.arange(len(BINS), dtype=np.uint64), np.empty((0, 0), np.uint8), block
            ),
            STEPS,
            split_rules(
                *self.rules[:6], held["least_rows"], held["smooth"], *self.rules[8:]
            ),
            limits,
            np.full((n_threads, 6, 2 * max(BINS) + 2), np.nan),
            splits,
            sets,
            n_threads=n_threads,
        )
        best = int(splits[0]["gain"].argmax())
        rights = int(sets[0, best, 0])
        return splits[0, best], tuple(c for c in range(64) if rights >> c & 1)

    def exact(self):
        """Return the best split in fractions, and the constraints."""
        held = dict(self.held)
        rules = [Fraction(float(rule)) for rule in self.rules]
        first = slice(self.offsets[0], self.offsets[1])
        g, h = (
            int(part[first].sum()) * Fraction(float(step))
            for part, step in zip(self.sums, STEPS, strict=True)
        )
        weight = held["weight"]
        if weight is None:
            weight = naive.leaf_weight(g, h, *rules[:3])
        held["smooth"] = Fraction(float(held["smooth"]))
        held["weight"] = Fraction(
            max(held["bounds"][0], min(held["bounds"][1], weight))
        )
        times = 90 if held["cost_of_rows"] else 1
        held["costs"] = [times * Fraction(cost) for cost in held["costs"] or [0.0] * 4]
        for feature in held["used"]:
            held["costs"][feature] = 0
        best = naive.best_split(
            self.sums, self.offsets, BINS, range(4), STEPS, self.rules, (3,),
            self.counts, held,
        )  # fmt: skip
        return best, held, rules


@pytest.mark.parametrize("equal_hessians", [False, True])
@pytest.mark.parametrize("case", HELD)
@pytest.mark.parametrize("seed", range(5))
def test_the_best_split_is_found(case, seed, equal_hessians):
    node = Node(HELD[case], seed, equal_hessians)
    split, rights = node.find()
    best, held, rules = node.exact()
    if best is None or best[0] <= 0:
        assert split["gain"] <= 1e-9
        return
    gain, feature, chosen, missing_left, left = best
    assert split["gain"] == pytest.approx(float(gain), rel=1e-9, abs=1e-9)
    assert (split["feature"], split["missing_left"]) == (feature, missing_left)
    assert chosen == (rights if feature == 3 else split["bin"])
    sums = [split["left_gradient"], split["left_hessian"], split["left_rows"]]
    assert sums == left
    assert split["total_rows"] == 90
    totals = split["total_gradient"], split["total_hessian"], 90
    if feature == 3 and BINS[3] >= rules[4]:
        rules[0] += naive.shrinkage(rules)[1]
    sides = zip(("left_weight", "right_weight"), (1, -1), (0, 1), strict=True)
    for name, sign, part in sides:
        g, h, n = (
            part * int(total) + sign * int(own)
            for total, own in zip(totals, left, strict=True)
        )
        scaled = g * Fraction(float(STEPS[0])), h * Fraction(float(STEPS[1]))
        weight = naive.held_weight(*scaled, n, rules, held)
        assert split[name] == pytest.approx(float(weight), rel=1e-12)


@pytest.mark.parametrize("n_threads", N_THREADS)
@pytest.mark.parametrize("block", [1, 2, 4])
def test_splits_do_not_depend_on_threads_and_tasks(n_threads, block):
    for case in ("all", "rows", "rising"):
        expected, rights = Node(HELD[case], 1).find()
        found, also = Node(HELD[case], 1).find(n_threads, block)
        assert found == expected and also == rights
