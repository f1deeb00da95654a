"""The best split of a node by a few features: by number, by category, at random."""

from __future__ import annotations

import numpy as np

from hornbeam.kernels import maths
from hornbeam.kernels.cart_cut_search import search_keys
from hornbeam.kernels.jit import kernel

__all__ = ["gather", "search_node"]

# Purposes of draws (see `maths.philox`).
_FEATURE = np.uint64(0x51000000)
_CUT = np.uint64(0x52000000)

_NODE = np.uint64(32)
_LANE = np.uint64(3)
_LANES = np.uint64(2)
_WORD = np.uint64(6)
_PLACE = np.uint64(63)
_ONE = np.uint64(1)

#: Rows of a node whose codes are taken from row-major ones.
_BY_ROW = 8192


@kernel
def gather(codes, by_row, feature, rows, keys):
    """Write the codes of rows, and return the lowest and the highest.

    The codes of a few rows are taken from row-major ones: all features of a row then
    share its cache lines, which stay for the nodes below. Many rows are gone through
    faster in columns.
    """
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
            key = np.int32(codes[f, np.uint64(rows[i])])
            keys[i] = key
            low = min(low, key)
            high = max(high, key)
    return low, high


@kernel
def _leave_out_missing(keys, count, missing_code, places):
    """Bring the known keys together, with their places.

    Returns how many there are, the lowest and the highest.
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
    """Bring the known rows together, and sum up the others.

    `missing` has their sums, as a node has them, and after these how many there are.
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
    """List the categories that are there, with the mean of each; return how many.

    The mean is that of the values, or the share of the class `wanted`.
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
def _draw_means(tree, key, node, feature, present, means):
    """Give each category a random number for its mean."""
    for code in present:
        counter = np.uint64(node) << _NODE | np.uint64(code)
        draw = maths.philox(counter, tree, _CUT + np.uint64(1 + feature), key)
        means[code] = draw[0]


@kernel
def _rank_categories(present, means, ranks):
    """Write the rank of each category that is there by its mean, and sort them."""
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
    """Return a number between two values, and the last code that is not above it."""
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
    draw_of,  # tree, seed, node, feature; or
    is_random,
    criterion,
    n_classes,
    codes,
    count,
    seen,
    missing,
    totals,
    limits,
    lists,
    work,
    best,
    goes_right,  # (categories,) uint8: of the best split, out
):
    """Look at the cuts of categories in the order of their means; say if one is best.

    They have the best of all partitions among them for numbers and for two classes
    (Breiman et al. 1984, section 4.2.2). Of more classes each has its turn to be the
    one whose share is the mean.
    """
    keys, present, ranks, means = lists
    tree, key, node, feature = draw_of
    orders = n_classes if n_classes > 2 and not is_random else 1
    found = False
    for turn in range(orders):
        wanted = -1 if n_classes == 0 else n_classes - 1 - turn
        size = _list_categories(codes, count, seen, wanted, means, present)
        if is_random:
            _draw_means(tree, key, node, feature, present[:size], means[0])
        _rank_categories(present[:size], means[0], ranks)
        for i in range(count):
            keys[i] = ranks[codes[i]]
        high = size - 1
        if is_random and high > 0:
            counter = np.uint64(node) << _NODE | np.uint64(feature)
            draw = maths.philox(counter, tree, _CUT, key)
            cut = np.int64((np.uint64(draw[0]) * np.uint64(high)) >> _NODE)
            for i in range(count):
                keys[i] = keys[i] > cut
            high = 1
        else:
            cut = -1
        if search_keys(
            criterion, keys, 0, high, count, seen, missing, totals, limits, work, best
        ):
            found = True
            last = best["bin"] if cut < 0 or best["next_bin"] < 0 else cut
            goes_right[:] = 0  # what the node does not have goes left
            for i in range(size):
                goes_right[present[i]] = i > last
    return found


@kernel
def search_node(
    tree,  # uint64
    key,  # uint64: the seed
    node,  # its number
    rows,  # (own rows,) int32
    table,  # see `grow_tree`
    rules,  # criterion, classes (0: numbers), features to draw, whether to draw cuts
    own,  # of the node's rows: weights, values, labels
    totals,  # (sums,) float64
    limits,  # (2,) float64: least rows of a leaf, and least weight
    constants,  # (words,) uint64: features that are known to be constant, in and out
    room,  # keys, codes, places of rows; scratch
    seen,  # weights, values, labels of rows that are not missing; scratch
    lists,  # present categories, their ranks, and their means; scratch
    work,  # of `search_keys`; scratch
    missing,  # (sums + 1,) float64, scratch
    features,  # (features,) int32: 0, 1, ...; in and, as before, out
    swaps,  # (features,) int32, scratch
    best,  # BEST_DTYPE, out
    goes_right,  # (most categories,) uint8: where the best split is by category, out
):
    """Find the best split of a node by some features.

    Features are drawn until one of them is not constant at the node, and as many as
    `most_features` at least.
    """
    codes, by_row, bins, is_categorical, values, starts = table
    criterion, n_classes, most_features, is_random = rules
    keys, raw, places = room
    present, ranks, means = lists
    count = rows.size
    best["feature"] = -1
    best["score"] = -np.inf
    drawn = 0
    useful = 0
    draws_all = most_features >= features.size
    bits = (np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(0))
    while drawn < features.size and (drawn < most_features or useful == 0):
        if not draws_all:
            i = np.uint64(drawn)
            if i & _LANE == 0:
                counter = np.uint64(node) << _NODE | i >> _LANES
                bits = maths.philox(counter, tree, _FEATURE, key)
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
        low, high = gather(codes, by_row, f, rows, raw)
        if high == bins[f]:
            known, low, high = _leave_out_missing(raw, count, bins[f], places)
        if known == 0 or (low == high and known == count):
            constants[word] |= _ONE << place
            continue
        useful += 1
        filled = own
        missing[:] = 0.0
        if known < count:
            _take(known, places, n_classes, own, seen, missing)
            filled = seen
        if is_categorical[f]:
            better = _search_categories(
                (tree, key, node, f),
                is_random,
                criterion,
                n_classes,
                raw,
                known,
                filled,
                missing,
                totals,
                limits,
                (keys, present, ranks, means),
                work,
                best,
                goes_right[: bins[f]],
            )
            cut = np.nan
        elif is_random and low < high:
            counter = np.uint64(node) << _NODE | np.uint64(f)
            draw = maths.philox(counter, tree, _CUT, key)
            own_values = values[starts[f] : starts[f + 1]]
            cut, last = _draw_cut(draw[0], own_values, low, high)
            for j in range(known):
                keys[j] = raw[j] > last
            better = search_keys(
                criterion,
                keys,
                0,
                1,
                known,
                filled,
                missing,
                totals,
                limits,
                work,
                best,
            )
            if better:
                if best["next_bin"] < 0:  # only the missing go right
                    best["bin"] = high
                    cut = np.nan
                else:
                    best["bin"] = last
                    best["next_bin"] = last + 1
        else:
            cut = np.nan
            better = search_keys(
                criterion,
                raw,
                low,
                high,
                known,
                filled,
                missing,
                totals,
                limits,
                work,
                best,
            )
        if better:
            best["feature"] = f
            best["threshold"] = cut
    while drawn > 0 and not draws_all:
        drawn -= 1
        swap = swaps[drawn]
        features[drawn], features[swap] = features[swap], features[drawn]
