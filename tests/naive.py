"""Reference implementations of the kernels and of prediction: short and slow."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np


def predict_tree(tree, rows):
    """Return the value of the leaf that each row reaches."""
    return np.array([tree.value[leaf_of(tree, row)] for row in rows], np.float32)


def leaf_of(tree, row):
    """Return the number of the leaf that one row reaches."""
    node = 0
    while tree.left[node] >= 0:
        node = child_of(tree, row, node)
    return node


def child_of(tree, row, node):
    """Return the child that one row goes to."""
    x = row[tree.feature[node]]
    if np.isnan(x):
        goes_left = tree.default_left[node] == 1
    elif tree.split_type[node] == 1:
        first, last = tree.category_starts[node : node + 2]
        # A value between -1 and 0 is not a category, although truncation gives 0.
        goes_left = x < 0 or int(x) not in tree.categories[first:last].tolist()
    else:
        goes_left = x < tree.threshold[node]
    return tree.left[node] if goes_left else tree.right[node]


def philox(counter, key):
    """Return four 32-bit words of Philox 4x32-10 for four words and a key of two."""
    a, b, c, d = counter
    k, m = key
    for _ in range(10):
        x, y = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = (y >> 32) ^ b ^ k, y % 2**32, (x >> 32) ^ d ^ m, x % 2**32
        k, m = (k + 0x9E3779B9) % 2**32, (m + 0xBB67AE85) % 2**32
    return a, b, c, d


def draw(item, stream, purpose, seed):
    """Return the 32 random bits of one item: one of four lanes of a Philox block."""
    quarter = item // 4
    counter = quarter % 2**32, quarter >> 32, stream, purpose
    return philox(counter, (seed % 2**32, seed >> 32))[item % 4]


def exponent_above(value):
    """Return the least e with value < 2**e."""
    return math.frexp(value)[1]


def fixed_point(value, step):
    """Return `value` in units of `step`, rounded half to even."""
    return round(Fraction(float(value)) / Fraction(float(step)))


def histogram(codes, offsets, columns, rows, pairs):
    """Return the sums of `pairs` in each bin, (2, bins); codes[feature][row]."""
    sums = np.zeros((2, offsets[-1]), np.int64)
    for f in columns:
        for row in rows:
            sums[:, offsets[f] + codes[f][row]] += pairs[row]
    return sums


def goes_left(code, chosen, bins, missing_left):
    """Return whether a row with this bin goes left; missing values have the bin `bins`.

    `chosen` is the last bin that goes left, or the categories that go right.
    """
    if code == bins:
        return bool(missing_left)
    return code not in chosen if isinstance(chosen, tuple) else code <= chosen


def leaf_weight(g, h, reg_lambda, alpha, max_delta_step):
    """Return the weight of a leaf with gradient sum `g` and hessian sum `h`."""
    if h <= 0:
        return Fraction(0)
    if abs(g) <= alpha:
        return Fraction(0)
    weight = -(g - alpha if g > 0 else g + alpha) / (h + reg_lambda)
    if max_delta_step > 0:
        weight = max(-max_delta_step, min(max_delta_step, weight))
    return weight


def gain(g, h, rules):
    """Return twice the loss reduction of a leaf with the optimal weight."""
    reg_lambda, alpha, max_delta_step = rules[:3]
    w = leaf_weight(g, h, reg_lambda, alpha, max_delta_step)
    return -(2 * g * w + (h + reg_lambda) * w * w + 2 * alpha * abs(w))


def held_weight(g, h, rows, rules, held):
    """Return the weight of a leaf under the constraints `held` (`NodeConstraints`)."""
    weight = leaf_weight(g, h, *rules[:3])
    smooth = held["smooth"]
    if smooth > 0:
        weight = (weight * rows + held["weight"] * smooth) / (rows + smooth)
    return max(held["bounds"][0], min(held["bounds"][1], weight))


def gain_at(g, h, weight, rules):
    """Return twice the loss reduction of a leaf with the given weight."""
    return -(2 * g * weight + (h + rules[0]) * weight**2 + 2 * rules[1] * abs(weight))


def category_candidates(cells, node_hessian, rules):
    """Return (categories that go right, missing left) in XGBoost's order.

    `cells` has the exact sums of each category. With the last four of `SplitRules` as
    in LightGBM: smoothed weights, categories that are left out, and groups.
    """
    every = range(len(cells))
    if len(cells) < rules[4]:
        return [((c,), left) for c in every for left in (1, 0)]
    smooth, _, least_category, least_group = shrinkage(rules)

    def weight(c):
        g, h = cells[c]
        ridge = rules[0] + smooth
        own = leaf_weight(g, h, ridge, *rules[1:3])
        return np.float32(float(own if h >= rules[3] or smooth > 0 else 0))

    order = sorted((c for c in every if cells[c][1] >= least_category), key=weight)
    most = min(len(order), min(len(cells), int(rules[5])) - 1)
    candidates = []
    for outermost, missing_left in ((order, 1), (order[::-1], 0)):
        before = 0
        for n in range(1, most + 1):
            outer = sorted(outermost[:n])
            h = sum(cells[c][1] for c in outer)
            beyond = node_hessian - h
            if least_group > 0 and (
                min(h, beyond) < rules[3] or min(h - before, beyond) < least_group
            ):
                continue
            before = h
            rights = outer if missing_left else [c for c in every if c not in outer]
            candidates.append((tuple(rights), missing_left))
    return candidates


def shrinkage(rules):
    """Return cat_smooth, cat_l2, min_category_weight and min_group_weight of rules."""
    return rules[8:] or [0, 0, -1, 0]


def best_split(
    sums, offsets, bins, columns, steps, rules, categorical=(), counts=None, held=None
):
    """Return (gain, feature, split, missing left, left sums) of the best split.

    The split is the last left bin, or for the features in `categorical` the tuple of
    the categories that go right. Candidates are evaluated in XGBoost's order with exact
    fractions, but for those that are worse by more than floats are off; the first of
    equal gains wins. None if both children are large enough for no candidate. With the
    constraints `held`, the bins also have numbers of rows, which are the last of the
    left sums.
    """
    rough = [float(step) for step in steps], [float(rule) for rule in rules]
    steps = [Fraction(step) for step in rough[0]]
    rules = [Fraction(rule) if math.isfinite(rule) else rule for rule in rules]
    first = columns[0]
    if held is not None:
        sums = [*sums, counts]
    parts = range(len(sums))
    total = [int(part[offsets[first] : offsets[first + 1]].sum()) for part in sums]

    def scaled(pair, steps=steps):
        return [value * step for value, step in zip(pair, steps, strict=False)]

    def score(f, left, right, steps=steps, rules=rules):
        of_sides = list(rules)
        if f in categorical and bins[f] >= rules[4]:
            of_sides[0] += shrinkage(rules)[1]
        if held is None:
            return gain(*scaled(left, steps), of_sides) + gain(
                *scaled(right, steps), of_sides
            )
        weights = [
            held_weight(*scaled(side, steps), side[2], of_sides, held)
            for side in (left, right)
        ]
        rise = (weights[1] - weights[0]) * held["directions"][f]
        if rise < 0 or min(left[2], right[2]) < held["least_rows"]:
            return None
        both = sum(
            gain_at(*scaled(side, steps), weight, of_sides)
            for side, weight in zip((left, right), weights, strict=True)
        )
        own = gain_at(*scaled(total, steps), held["weight"], rules)
        return both - own - held["costs"][f]

    best = None
    for f in columns:
        cells = [[int(part[offsets[f] + b]) for part in sums] for b in range(bins[f])]
        known = [sum(part) for part in zip(*cells, strict=True)]
        missing = [total[p] - known[p] for p in parts]
        candidates = [(b, 0) for b in range(bins[f])]
        if any(missing):
            candidates += [(b, 1) for b in range(bins[f] - 2, -2, -1)]
        if f in categorical:
            known = [scaled(cell)[:2] for cell in cells]
            candidates = category_candidates(known, total[1] * steps[1], rules)
        for chosen, missing_left in candidates:
            left = [missing[p] if missing_left else 0 for p in parts]
            for b, cell in enumerate(cells):
                if goes_left(b, chosen, bins[f], missing_left):
                    left = [left[p] + cell[p] for p in parts]
            right = [total[p] - left[p] for p in parts]
            if min(left[1], right[1]) <= 0:
                continue
            if min(left[1], right[1]) * steps[1] < rules[3]:
                continue
            if best is not None:
                about = score(f, left, right, *rough)
                if about is not None and about < best[0] - 1e-6 * (1 + abs(best[0])):
                    continue
            both = score(f, left, right)
            if both is not None and (best is None or both > best[0]):
                best = both, f, chosen, missing_left, left
    if best is None:
        return None
    own = 0 if held else gain(*scaled(total), rules)
    return best[0] - own, *best[1:]


def pair_of_weights(left, right, rules, held, direction):
    """Return the weights of two children; equal ones if a monotone constraint needs it.

    Each child is (g, h, rows).
    """
    weights = [held_weight(*side, rules, held) for side in (left, right)]
    if (weights[1] - weights[0]) * direction < 0:
        g, h, rows = (a + b for a, b in zip(left, right, strict=True))
        twice = [2 * rules[0], 2 * rules[1], *rules[2:]]
        return [held_weight(g, h, rows, twice, held)] * 2
    return weights


def best_multi_output_split(
    sums, offsets, bins, steps, rules, categorical=(), counts=None, held=None
):
    """Return (gain, feature, split, missing left, weights) of the best split.

    `sums` is (columns, 2, bins), and `steps`, the quantisation scales, (columns, 2).
    Like `best_split`, with the sum of gains and the mean of hessians over the gradient
    columns; categorical features have one-hot splits only. `held` has bounds and a
    weight for each column. The weights are those of both children by column.
    """
    rules = [Fraction(float(rule)) for rule in rules]
    columns = range(len(sums))
    if held is not None:
        sums = [[*own, counts] for own in sums]
        steps = [[*pair, 1] for pair in steps]
    parts = range(len(sums[0]))
    total = [[int(part[: offsets[1]].sum()) for part in own] for own in sums]

    def scaled(pairs):
        return [
            [value * Fraction(float(step)) for value, step in zip(*own, strict=True)]
            for own in zip(pairs, steps, strict=True)
        ]

    def score(pairs):
        return sum(gain(g, h, rules) for g, h in scaled(pairs))

    def held_score(f, left, right):
        if min(left[0][2], right[0][2]) < held["least_rows"]:
            return None, None
        both, weights = -held["costs"][f], []
        sides = zip(scaled(left), scaled(right), scaled(total), strict=True)
        for s, own in enumerate(sides):
            here = {**held, "bounds": held["bounds"][s], "weight": held["weights"][s]}
            direction = held["directions"][f]
            weights.append(pair_of_weights(*own[:2], rules, here, direction))
            places = (*weights[-1], held["weights"][s])
            gains = [
                gain_at(*own[i][:2], weight, rules) for i, weight in enumerate(places)
            ]
            both += gains[0] + gains[1] - gains[2]
        return both, weights

    best = None
    for f in range(len(bins)):
        cells = [
            [[int(part[offsets[f] + b]) for part in own] for own in sums]
            for b in range(bins[f])
        ]
        missing = [
            [total[s][p] - sum(cell[s][p] for cell in cells) for p in parts]
            for s in columns
        ]
        candidates = [(b, 0) for b in range(bins[f])]
        if any(map(any, missing)):
            candidates += [(b, 1) for b in range(bins[f] - 2, -2, -1)]
        if f in categorical:
            assert bins[f] < rules[4]
            candidates = [((c,), left) for c in range(bins[f]) for left in (1, 0)]
        for chosen, missing_left in candidates:
            taken = [
                cell
                for b, cell in enumerate(cells)
                if goes_left(b, chosen, bins[f], missing_left)
            ]
            taken += [missing] if missing_left else []
            left = [[sum(own[s][p] for own in taken) for p in parts] for s in columns]
            right = [[total[s][p] - left[s][p] for p in parts] for s in columns]
            means = [
                sum(own[1] for own in scaled(side)) / len(sums)
                for side in (left, right)
            ]
            if min(means) <= 0 or min(means) < rules[3]:
                continue
            if held is None:
                both, weights = score(left) + score(right) - score(total), None
            else:
                both, weights = held_score(f, left, right)
            if both is not None and (best is None or both > best[0]):
                best = both, f, chosen, missing_left, weights
    return best


def grow(
    codes, bins, offsets, columns, pairs, rows, steps, rules, max_depth, categorical=()
):
    """Return a tree of `rows`: a dict for each split, a list of rows for each leaf."""
    if max_depth == 0:
        return rows
    sums = histogram(codes, offsets, columns, rows, pairs)
    best = best_split(sums, offsets, bins, columns, steps, rules, categorical)
    if best is None or best[0] <= Fraction(1e-6):
        return rows
    _, f, chosen, missing_left, _ = best
    sides = {True: [], False: []}
    for row in rows:
        sides[goes_left(codes[f][row], chosen, bins[f], missing_left)].append(row)
    left, right = (
        grow(
            codes, bins, offsets, columns, pairs, sides[side], steps, rules,
            max_depth - 1, categorical,
        )
        for side in (True, False)
    )  # fmt: skip
    return {
        "feature": f,
        "bin": chosen,
        "missing_left": missing_left,
        "left": left,
        "right": right,
    }


def cuts_of_few(values):
    """Return XGBoost's inner cuts of a column of few distinct values: all but one."""
    return sorted({float(value) for value in values if value == value})[1:]


def quantile_cuts(values, weights, bins):
    """Return the inner cuts at equal ranks of the cumulative weight."""
    pairs = sorted(
        (float(value), int(weight))
        for value, weight in zip(values, weights, strict=True)
        if value == value
    )
    total = sum(weight for _, weight in pairs)
    cuts = set()
    for j in range(1, bins):
        rank, passed = j * total // bins, 0
        for value, weight in pairs:
            passed += weight
            if passed > rank:
                cuts.add(value)
                break
    return sorted(cuts - {pairs[0][0]})


def code_of(value, inner, bins):
    """Return the number of cuts up to `value`; `bins` if it is missing."""
    return bins if value != value else sum(cut <= value for cut in inner)


# --- Ranking --------------------------------------------------------------------------


def discounted_gain(gains, depth):
    """Return the discounted cumulative gain in this order."""
    return sum(gain / math.log2(i + 2) for i, gain in enumerate(gains[:depth]))


def normalised_gain(gains, depth, nothing):
    best = discounted_gain(sorted(gains, reverse=True), depth)
    return discounted_gain(gains, depth) / best if best else nothing


def average_precision(hits, depth, nothing):
    if not sum(hits):
        return nothing
    precisions = [
        sum(hits[: i + 1]) / (i + 1) for i, hit in enumerate(hits[:depth]) if hit
    ]
    return sum(precisions) / min(sum(hits), depth)


def precision(hits, depth, nothing):
    return sum(hits[:depth]) / min(depth, len(hits))


def pull_pairs(
    kind, scores, labels, gains, order, pairs, depth, by_distance, bias=None
):
    """Return gradients, hessians, position costs and the sum of all lambdas."""
    g, h = np.zeros((2, len(scores)))
    costs = np.zeros((2, 0 if bias is None else bias.shape[1]))
    total = 0.0

    def metric(labels, gains):
        if kind == "pairs":
            return 0.0
        if kind == "gain":
            return discounted_gain(gains, None) / best if best else 0.0
        return average_precision(labels, len(labels), 0.0)

    best = discounted_gain(sorted(gains, reverse=True), depth)
    shown, worth = labels[order].copy(), gains[order].copy()
    before = metric(shown, worth)
    for i, j in pairs:
        if shown[i] == shown[j]:
            continue
        places = [j, i]
        swapped, swapped_worth = shown.copy(), worth.copy()
        swapped[[i, j]], swapped_worth[[i, j]] = shown[places], worth[places]
        change = abs(metric(swapped, swapped_worth) - before) if kind != "pairs" else 1
        high, low = (
            (order[i], order[j]) if shown[i] > shown[j] else (order[j], order[i])
        )
        distance = scores[high] - scores[low]
        if by_distance and scores.max() != scores.min():
            change /= abs(distance) + 0.01
        right = 1 / (1 + math.exp(-distance))
        pull, curve = (1 - right) * change, 2 * right * (1 - right) * change
        if bias is not None and max(high, low) < bias.shape[1]:
            plus, minus = bias[0, high], bias[1, low]
            cost = math.log(1 / (1 - right)) * change
            costs[0, high] += cost / minus if minus > 0 else 0
            costs[1, low] += cost / plus if plus > 0 else 0
            if plus > 0 and minus > 0:
                pull, curve = pull / plus / minus, curve / plus / minus
        g[high] -= pull
        g[low] += pull
        h[[high, low]] += curve
        total += 2 * pull
    return g, h, costs, total


def cross_entropy(scores, grades):
    """Return the gradients and hessians of XE-NDCG."""
    if len(scores) == 1:
        return np.zeros((2, 1))
    shares = np.exp(scores - scores.max())
    shares /= shares.sum()
    rest = np.maximum(1 - shares, 1e-9)
    g = term = shares - grades / grades.sum()
    for _ in range(2):
        passed = term / rest
        term = shares * (passed.sum() - passed)
        g = g + term
    return g, np.maximum(shares * (1 - shares), 1e-16)


# --- Linear models --------------------------------------------------------------------


def descend(rows, order, rules, gradients, hessians, weights):
    """Return weights and gradients after coordinate descent over all weights.

    The last weight is the bias, which has no penalty.
    """
    rate, reg_lambda, reg_alpha = rules
    values = np.column_stack([np.nan_to_num(rows), np.ones(len(rows))]).astype(float)
    gradients, weights = gradients.copy(), weights.copy()
    counts = hessians >= 0
    for column in order:
        x, w = values[:, column], float(weights[column])
        g, h = (gradients * x)[counts].sum(), (hessians * x * x)[counts].sum()
        if h < 1e-5:
            continue
        free = column == len(weights) - 1
        ridge, lasso = (0.0, 0.0) if free else (reg_lambda, reg_alpha)
        # The root of g + h (b - w) + ridge b + lasso sign(b), or 0.
        above = (h * w - g - lasso) / (h + ridge)
        below = (h * w - g + lasso) / (h + ridge)
        best = above if above > 0 else below if below < 0 else 0.0
        moved = np.float32(rate * (best - w))
        weights[column] += moved
        gradients += hessians * x * float(moved)
    return weights, gradients


# --- Survival -------------------------------------------------------------------------


def log_share(distribution, low, high):
    """Return the log probability of an interval; the log density if low == high."""
    z = low
    if distribution == "normal":
        if low == high:
            return -z * z / 2 - math.log(2 * math.pi) / 2
        if low + high < 0:
            low, high = -high, -low
        above = [math.erfc(z / math.sqrt(2)) / 2 for z in (low, high)]
        return math.log(above[0] - above[1])
    if distribution == "logistic":
        if low == high:
            return -abs(z) - 2 * math.log1p(math.exp(-abs(z)))
        below = [1 / (1 + math.exp(-z)) for z in (low, high)]
        return math.log(below[1] - below[0])
    if low == high:
        return z - math.exp(z)
    above = [math.exp(-math.exp(z)) for z in (low, high)]
    return math.log(above[0] - above[1])


def partial_likelihood(hazards, labels, weights):
    """Return the negative partial log-likelihood of Cox, with Breslow's ties."""
    total = 0.0
    for i in range(len(labels)):
        if labels[i] > 0:
            at_risk = abs(labels) >= labels[i]
            share = hazards[i] / math.fsum((hazards * weights)[at_risk])
            total -= weights[i] * math.log(share)
    return total


def worth_of(tree, row, known, node=0):
    """Return the expected prediction of a tree if only `known` features are known.

    Splits on other features return the mean of both children, weighted by cover.
    """
    if tree.left[node] < 0:
        return np.float64(tree.value[node])
    if tree.feature[node] in known:
        return worth_of(tree, row, known, child_of(tree, row, node))
    children = [tree.left[node], tree.right[node]]
    whole = np.float64(tree.cover[node])
    parts = [np.float64(tree.cover[c]) / whole if whole else 0.5 for c in children]
    return sum(
        part * worth_of(tree, row, known, child)
        for part, child in zip(parts, children, strict=True)
    )


def shapley_values(tree, row):
    """Return the Shapley values of a row by their definition, and the base value.

    Also returns interaction values: half of the interaction of two features at each of
    their two entries, and the main effects on the diagonal.
    """
    n = len(row)
    worth = {
        known: worth_of(tree, row, known)
        for size in range(n + 1)
        for known in map(frozenset, itertools.combinations(range(n), size))
    }
    single, pairs = np.zeros(n + 1), np.zeros((n + 1, n + 1))
    single[n] = pairs[n, n] = worth[frozenset()]
    for known in worth:
        size = len(known)
        for i in set(range(n)) - known:
            weight = 1 / (n * math.comb(n - 1, size))
            single[i] += weight * (worth[known | {i}] - worth[known])
            for j in set(range(n)) - known - {i}:
                weight = 1 / ((n - 1) * math.comb(n - 2, size))
                both = worth[known | {i, j}] + worth[known]
                both -= worth[known | {i}] + worth[known | {j}]
                pairs[i, j] += weight * both / 2
    for i in range(n):
        pairs[i, i] = single[i] - pairs[i].sum()
    return single, pairs


def steps(tree, row):
    """Return Saabas contributions of a row by feature, and the base value."""
    found = np.zeros(len(row) + 1)
    node, worth = 0, worth_of(tree, row, ())
    found[-1] = worth
    while tree.left[node] >= 0:
        feature, node = tree.feature[node], child_of(tree, row, node)
        found[feature] += worth_of(tree, row, (), node) - worth
        worth = worth_of(tree, row, (), node)
    return found


def shapley_values_against(tree, row, background, shares):
    """Return interventional Shapley values of a row, and the mean of the background.

    Features of a coalition are the row's, the others those of a background row.
    """
    n = len(row)

    def worth(inside):
        mixed = background.copy()
        mixed[:, inside] = row[inside]
        return shares @ predict_tree(tree, mixed).astype(np.float64)

    found = np.zeros(n + 1)
    found[n] = worth([])
    for i in range(n):
        rest = [j for j in range(n) if j != i]
        for size in range(n):
            weight = 1 / (n * math.comb(n - 1, size))
            for known in map(list, itertools.combinations(rest, size)):
                found[i] += weight * (worth([*known, i]) - worth(known))
    return found
