"""The best split of a CART node among drawn features: numerical or categorical."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels import maths
from hornbeam.kernels.cart_cut_search import CutScratch, NodeTargets, search_keys
from hornbeam.kernels.jit import kernel

__all__ = ["CartTable", "NodeScratch", "TreeDraws", "gather", "search_node"]

# Purposes of draws (see `maths.philox`).
_FEATURE = np.uint64(0x51000000)
_CUT = np.uint64(0x52000000)

_NODE = np.uint64(32)
_LANE = np.uint64(3)
_LANES = np.uint64(2)
_WORD = np.uint64(6)
_PLACE = np.uint64(63)
_ONE = np.uint64(1)

#: Nodes of at most so many rows read their bins from the row-major copy.
_BY_ROW = 8192


class CartTable(NamedTuple):
    """The binned features.

    Attributes
    ----------
    by_feature, by_row
        (features, rows) and (rows, features) uint16: the bins.
    n_bins
        (features,) int64; missing values have this bin.
    is_categorical
        (features,) uint8.
    lows
        (bins,) float64: the least value of each bin, feature after feature.
    starts
        (features + 1,) int64: the first bin of each feature in `lows`.
    """

    by_feature: NDArray[Any]
    by_row: NDArray[Any]
    n_bins: NDArray[np.int64]
    is_categorical: NDArray[np.uint8]
    lows: NDArray[np.float64]
    starts: NDArray[np.int64]


class TreeDraws(NamedTuple):
    """The key of a tree's random draws."""

    tree: np.uint64
    seed: np.uint64


class NodeScratch(NamedTuple):
    """Scratch arrays of `search_node`.

    Attributes
    ----------
    keys, bins, places
        (rows,) int32.
    seen
        The targets of rows whose value is not missing.
    present, ranks
        (most bins,) int32: the categories of a node, and their ranks.
    means
        (2, most bins) float64: the means and weights of categories.
    missing
        (sums + 1,) float64: the sums of rows with a missing value, and their number.
    features
        (features,) int32: 0, 1, ...; unchanged afterwards.
    swaps
        (features,) int32.
    cut
        Of `search_keys`.
    """

    keys: NDArray[np.int32]
    bins: NDArray[np.int32]
    places: NDArray[np.int32]
    seen: NodeTargets
    present: NDArray[np.int32]
    ranks: NDArray[np.int32]
    means: NDArray[np.float64]
    missing: NDArray[np.float64]
    features: NDArray[np.int32]
    swaps: NDArray[np.int32]
    cut: CutScratch


@kernel
def gather(table, feature, rows, keys):
    """Write the bins of rows; return the lowest and the highest.

    The bins of a few rows are read from the row-major copy: all features of a row share
    cache lines, which stay cached for the nodes below. For many rows, columns are
    faster.
    """
    by_feature, by_row = table.by_feature, table.by_row
    f = np.uint64(feature)
    low = np.int32(1 << 30)
    high = np.int32(-1)
    if rows.size <= _BY_ROW:
        for i in range(rows.size):
            key = np.int32(by_row[np.uint64(rows[i]), f])
            keys[i] = key
            low = min(low, key)
            high = max(high, key)
    else:
        for i in range(rows.size):
            key = np.int32(by_feature[f, np.uint64(rows[i])])
            keys[i] = key
            low = min(low, key)
            high = max(high, key)
    return low, high


@kernel
def _leave_out_missing(keys, count, missing_code, places):
    """Compact the keys that are not missing, with their places.

    Returns their number, the lowest and the highest.
    """
    known = 0
    low = np.int32(1 << 30)
    high = np.int32(-1)
    for i in range(count):
        key = keys[i]
        keys[known] = key
        places[known] = i
        if key != missing_code:
            known += 1
            low = min(low, key)
            high = max(high, key)
    return known, low, high


@kernel
def _take(known, places, n_classes, own, seen, missing):
    """Compact the targets of rows with a value, and sum those of the others.

    `missing` gets their sums, as a node has them, and then their number.
    """
    weights, values, labels = own
    seen_weights, seen_values, seen_labels = seen
    for k in range(missing.size):
        missing[k] = 0.0
    j = 0
    for i in range(weights.size):
        if j < known and places[j] == i:
            seen_weights[j] = weights[i]
            seen_values[j] = values[i]
            seen_labels[j] = labels[i]
            j += 1
        elif n_classes == 0:
            missing[0] += weights[i]
            missing[1] += values[i]
        else:
            missing[labels[i]] += weights[i]
    missing[missing.size - 1] = weights.size - known


@kernel
def _list_categories(codes, count, seen, wanted, means, present):
    """Write the categories of the node and the mean of each; return their number.

    The mean is that of the values, or the proportion of the class `wanted`.
    """
    weights, values, labels = seen
    for i in range(count):
        means[0, codes[i]] = 0.0
        means[1, codes[i]] = 0.0
    found = 0
    for i in range(count):
        code = codes[i]
        if means[1, code] == 0.0:
            present[found] = code
            found += 1
        means[1, code] += weights[i]
        if wanted < 0:
            means[0, code] += values[i]
        elif labels[i] == wanted:
            means[0, code] += weights[i]
    for i in range(found):
        means[0, present[i]] /= means[1, present[i]]
    return found


@kernel
def _draw_means(draws, node, feature, present, means):
    """Write a random number for the mean of each category."""
    for code in present:
        counter = np.uint64(node) << _NODE | np.uint64(code)
        purpose = _CUT + np.uint64(1 + feature)
        draw = maths.philox(counter, draws.tree, purpose, draws.seed)
        means[code] = draw[0]


@kernel
def _rank_categories(present, means, ranks):
    """Sort the categories of the node by mean, and write the rank of each."""
    step = 1
    while 3 * step + 1 < present.size:
        step = 3 * step + 1
    while step > 0:  # Shell's sort
        for i in range(step, present.size):
            code = present[i]
            j = i
            while j >= step:
                other = present[j - step]
                if means[other] < means[code]:
                    break
                if means[other] == means[code] and other < code:
                    break
                present[j] = other
                j -= step
            present[j] = code
        step //= 3
    for i in range(present.size):
        ranks[present[i]] = i


@kernel
def _draw_cut(bits, values, low, high):
    """Return a random number between two values, and the last bin not above it."""
    share = (np.float64(bits) + 0.5) / 4294967296.0
    cut = values[low] + share * (values[high] - values[low])
    last = low
    beyond = high
    while beyond - last > 1:
        middle = (last + beyond) >> 1
        if values[middle] <= cut:
            last = middle
        else:
            beyond = middle
    return cut, last


@kernel
def _search_categories(
    draws,
    node,
    feature,
    rules,
    count,
    seen,
    totals,
    scratch,
    best,
    goes_right,  # (categories,) uint8: of the best split, out
):
    """Search the cuts of categories sorted by mean; return whether one is the best.

    For regression and two classes they include the best of all partitions (Breiman et
    al. 1984, section 4.2.2). With more classes, the categories are sorted by the
    proportion of each class in turn.
    """
    keys, bins, present, means = (
        scratch.keys,
        scratch.bins,
        scratch.present,
        scratch.means,
    )
    missing = scratch.missing
    n_classes, is_random = rules.n_classes, rules.random_cuts
    orders = n_classes if n_classes > 2 and not is_random else 1
    found = False
    for turn in range(orders):
        wanted = -1 if n_classes == 0 else n_classes - 1 - turn
        size = _list_categories(bins, count, seen, wanted, means, present)
        if is_random:
            _draw_means(draws, node, feature, present[:size], means[0])
        _rank_categories(present[:size], means[0], scratch.ranks)
        for i in range(count):
            keys[i] = scratch.ranks[bins[i]]
        high = size - 1
        if is_random and high > 0:
            counter = np.uint64(node) << _NODE | np.uint64(feature)
            draw = maths.philox(counter, draws.tree, _CUT, draws.seed)
            cut = np.int64((np.uint64(draw[0]) * np.uint64(high)) >> _NODE)
            for i in range(count):
                keys[i] = keys[i] > cut
            high = 1
        else:
            cut = -1
        low = np.int64(0)
        if search_keys(
            rules, keys, low, high, count, seen, missing, totals, scratch.cut, best
        ):
            found = True
            last = best["bin"] if cut < 0 or best["next_bin"] < 0 else cut
            goes_right[:] = 0  # categories that the node does not have go left
            for i in range(size):
                goes_right[present[i]] = i > last
    return found


@kernel
def search_node(
    draws,  # TreeDraws
    node,  # its number
    rows,  # (own rows,) int32
    table,  # CartTable
    rules,  # CartRules
    own,  # NodeTargets of the node's rows
    totals,  # (sums,) float64
    constants,  # (words,) uint64: features known to be constant, in and out
    scratch,  # NodeScratch
    best,  # BEST_DTYPE, out
    goes_right,  # (most categories,) uint8: of the best split by category, out
):
    """Find the best split of a node among drawn features.

    `max_features` are drawn, and more until one of them is not constant in the node.
    """
    bins, is_categorical, starts = table.n_bins, table.is_categorical, table.starts
    keys, raw, missing = scratch.keys, scratch.bins, scratch.missing
    features, swaps, cut_scratch = scratch.features, scratch.swaps, scratch.cut
    count = rows.size
    best["feature"] = -1
    best["score"] = -np.inf
    drawn = 0
    useful = 0
    draws_all = rules.max_features >= features.size
    bits = (np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(0))
    while drawn < features.size and (drawn < rules.max_features or useful == 0):
        if not draws_all:
            i = np.uint64(drawn)
            if i & _LANE == 0:
                counter = np.uint64(node) << _NODE | i >> _LANES
                bits = maths.philox(counter, draws.tree, _FEATURE, draws.seed)
            rest = np.uint64(features.size - drawn)
            swap = drawn + np.int64((bits[i & _LANE] * rest) >> _NODE)
            swaps[drawn] = swap
            features[drawn], features[swap] = features[swap], features[drawn]
        f = np.int64(features[drawn])
        drawn += 1
        word, place = np.uint64(f) >> _WORD, np.uint64(f) & _PLACE
        if (constants[word] >> place) & _ONE:
            continue
        known = count
        low, high = gather(table, f, rows, raw)
        if high == bins[f]:
            known, low, high = _leave_out_missing(raw, count, bins[f], scratch.places)
        if known == 0 or (low == high and known == count):
            constants[word] |= _ONE << place
            continue
        useful += 1
        seen = own
        missing[:] = 0.0
        if known < count:
            _take(known, scratch.places, rules.n_classes, own, scratch.seen, missing)
            seen = scratch.seen
        if is_categorical[f]:
            better = _search_categories(
                draws,
                node,
                f,
                rules,
                known,
                seen,
                totals,
                scratch,
                best,
                goes_right[: bins[f]],
            )
            cut = np.nan
        elif rules.random_cuts and low < high:
            counter = np.uint64(node) << _NODE | np.uint64(f)
            draw = maths.philox(counter, draws.tree, _CUT, draws.seed)
            lows = table.lows[starts[f] : starts[f + 1]]
            cut, last = _draw_cut(draw[0], lows, low, high)
            for j in range(known):
                keys[j] = raw[j] > last
            below, above = np.int64(0), np.int64(1)
            better = search_keys(
                rules, keys, below, above, known, seen, missing, totals, cut_scratch,
                best,
            )  # fmt: skip
            if better:
                if best["next_bin"] < 0:  # only missing values go right
                    best["bin"] = high
                    cut = np.nan
                else:
                    best["bin"] = last
                    best["next_bin"] = last + 1
        else:
            cut = np.nan
            below, above = np.int64(low), np.int64(high)
            better = search_keys(
                rules, raw, below, above, known, seen, missing, totals, cut_scratch,
                best,
            )  # fmt: skip
        if better:
            best["feature"] = f
            best["threshold"] = cut
    while drawn > 0 and not draws_all:
        drawn -= 1
        swap = swaps[drawn]
        features[drawn], features[swap] = features[swap], features[drawn]
