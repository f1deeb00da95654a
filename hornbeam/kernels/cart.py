"""Classification and regression trees, each grown whole by one thread.

Boosting sums up all nodes of a level at once, for there are few. A tree that is grown
until its leaves are pure has about as many nodes as rows, and most of them hold a
handful. So here a node is done with before the next is begun: its rows are sorted by
the codes of a feature, and gone through once. As trees of a forest do not wait for one
another, no tree is shared out among threads.
"""

from __future__ import annotations

import numpy as np

from hornbeam.kernels import maths
from hornbeam.kernels.jit import inline, kernel

__all__ = [
    "ENTROPY",
    "ERROR",
    "GINI",
    "SQUARED_ERROR",
    "draw_bag",
    "find_ends",
    "grow_tree",
    "place_cuts",
    "reach",
]

# What the splits of a tree are judged by; see `cart.criteria`.
SQUARED_ERROR, GINI, ENTROPY, ERROR = range(4)

# Purposes of draws (see `maths.philox`).
_BAG = np.uint64(0x50000000)
_FEATURE = np.uint64(0x51000000)
_CUT = np.uint64(0x52000000)

_NODE = np.uint64(32)
_LANE = np.uint64(3)
_LANES = np.uint64(2)
_WORD = np.uint64(6)
_PLACE = np.uint64(63)
_ONE = np.uint64(1)

#: Rows that are sorted by insertion.
_FEW = 24
#: Rows of a node whose codes are taken from row-major ones.
_BY_ROW = 8192
_DIGITS = 256

#: Bits of a natural logarithm.
_BITS = 1.4426950408889634


@kernel
def draw_bag(
    stream,  # uint64: the tree
    key,  # uint64: the seed
    draws,  # how often to draw, with replacement
    times,  # (rows,) int32: how often each row was drawn, zeros in, out
):
    """Draw a bootstrap sample."""
    rows = np.uint64(times.size)
    for i in range(np.uint64(draws)):
        draw = _pick(maths.philox(i >> _LANES, stream, _BAG, key), i)
        times[(draw * rows) >> np.uint64(32)] += 1


@inline
def _pick(draw, i):
    """Return one of four draws of 32 bits, as i asks in its lowest two."""
    lane = i & _LANE
    low = draw[0] if lane == 0 else draw[1]
    high = draw[2] if lane == 2 else draw[3]
    return np.uint64(low if lane < 2 else high)


# --- Sorting --------------------------------------------------------------------------


@kernel
def _sort(keys, count, low, high, order, spare, counts):
    """Write the places of keys from `low` to `high` in ascending order, stably.

    `spare` has room for as many places, and `counts` for 256 numbers and for two a key.
    """
    if count <= _FEW:
        for i in range(count):
            key = keys[i]
            j = i
            while j > 0 and keys[order[j - 1]] > key:
                order[j] = order[j - 1]
                j -= 1
            order[j] = i
        return
    width = np.int64(high) - np.int64(low) + 1
    if width <= max(_DIGITS, 2 * count):
        for d in range(width):
            counts[d] = 0
        for i in range(count):
            counts[keys[i] - low] += 1
        place = np.int32(0)
        for d in range(width):
            own = counts[d]
            counts[d] = place
            place += own
        for i in range(count):
            d = keys[i] - low
            order[counts[d]] = i
            counts[d] += 1
        return
    for shift in range(0, 16, 8):
        for d in range(_DIGITS):
            counts[d] = 0
        for i in range(count):
            counts[((keys[i] - low) >> shift) & 255] += 1
        place = np.int32(0)
        for d in range(_DIGITS):
            own = counts[d]
            counts[d] = place
            place += own
        for j in range(count):
            i = j if shift == 0 else spare[j]
            d = ((keys[i] - low) >> shift) & 255
            if shift == 0:
                spare[counts[d]] = i
            else:
                order[counts[d]] = i
            counts[d] += 1


# --- What a split is worth ------------------------------------------------------------


@inline
def _score_numbers(left_w, left_v, right_w, totals):
    """Return how much less the squared error is, times the weight of the node."""
    pull = left_v * totals[0] - totals[1] * left_w
    return pull * pull / (left_w * right_w)


@kernel
def _search_numbers(
    keys, order, count, weights, values, missing, totals, limits, missing_left, best
):
    """Find where the squared error falls most, with the missing on one side."""
    total_w = totals[0]
    left_w, left_v = 0.0, 0.0
    left_n = 0
    if missing_left:
        left_w, left_v = missing[0], missing[1]
        left_n = np.int64(missing[2])
    total_n = count + np.int64(missing[2])
    least_n, least_w = np.int64(limits[0]), limits[1]
    found = False
    for j in range(count):
        i = order[j]
        left_w += weights[i]
        left_v += values[i]
        left_n += 1
        key = keys[i]
        following = keys[order[j + 1]] if j + 1 < count else -1
        right_n = total_n - left_n
        if key == following or left_n < least_n or right_n < least_n:
            continue
        right_w = total_w - left_w
        if left_w < least_w or right_w < least_w or right_n == 0:
            continue
        score = _score_numbers(left_w, left_v, right_w, totals)
        if score > best["score"]:
            best["score"] = score
            best["bin"] = key
            best["next_bin"] = following
            best["missing_left"] = missing_left
            found = True
    return found


@inline
def _times_log(x):
    return x * maths.log(x) if x > 0.0 else 0.0


@inline
def _most(counts):
    most = counts[0]
    for k in range(1, counts.size):
        most = max(most, counts[k])
    return most


@kernel
def _score_classes(criterion, weight, counts):
    """Return how pure a node is, times its weight: the more, the better."""
    if criterion == ERROR:
        return _most(counts)
    total = 0.0
    if criterion == GINI:
        for k in range(counts.size):
            total += counts[k] * counts[k]
        return total / weight
    for k in range(counts.size):
        total += _times_log(counts[k])
    return total - _times_log(weight)


@kernel
def _search_classes(
    criterion,
    keys,
    order,
    count,
    weights,
    labels,
    missing,
    totals,
    limits,
    missing_left,
    left,
    right,
    best,
):
    """Find where the classes come apart best, with the missing on one side.

    The sums over classes are kept up to date, row by row: of the squares, or of
    n log(n).
    """
    classes = totals.size
    left_w, right_w = 0.0, 0.0
    left_sum, right_sum = 0.0, 0.0
    left_n = np.int64(missing[classes]) if missing_left else 0
    total_n = count + np.int64(missing[classes])
    for k in range(classes):
        left[k] = missing[k] if missing_left else 0.0
        right[k] = totals[k] - left[k]
        left_w += left[k]
        right_w += right[k]
        if criterion == GINI:
            left_sum += left[k] * left[k]
            right_sum += right[k] * right[k]
        elif criterion == ENTROPY:
            left_sum += _times_log(left[k])
            right_sum += _times_log(right[k])
    most = _most(left)
    least_n, least_w = np.int64(limits[0]), limits[1]
    found = False
    for j in range(count):
        i = order[j]
        k = labels[i]
        w = weights[i]
        here, there = left[k], right[k]
        left[k] = here + w
        right[k] = there - w
        left_w += w
        right_w -= w
        left_n += 1
        if criterion == GINI:
            left_sum += w * (2.0 * here + w)
            right_sum -= w * (2.0 * there - w)
        elif criterion == ENTROPY:
            left_sum += _times_log(here + w) - _times_log(here)
            right_sum += _times_log(there - w) - _times_log(there)
        else:
            most = max(most, here + w)
        key = keys[i]
        following = keys[order[j + 1]] if j + 1 < count else -1
        right_n = total_n - left_n
        if key == following or left_n < least_n or right_n < least_n:
            continue
        if left_w < least_w or right_w < least_w or right_n == 0:
            continue
        if criterion == GINI:
            score = left_sum / left_w + right_sum / right_w
        elif criterion == ENTROPY:
            score = left_sum - _times_log(left_w) + right_sum - _times_log(right_w)
        else:
            score = most + _most(right)
        if score > best["score"]:
            best["score"] = score
            best["bin"] = key
            best["next_bin"] = following
            best["missing_left"] = missing_left
            found = True
    return found


@kernel
def _count_numbers(keys, low, weights, values, cells):
    """Add up the rows, weights and values of each key."""
    for i in range(keys.size):
        cell = cells[np.uint64(keys[i] - low)]
        cell[0] += 1.0
        cell[1] += weights[i]
        cell[2] += values[i]


@kernel
def _count_classes(keys, low, weights, labels, cells):
    """Add up the rows of each key, and the weights of its classes."""
    for i in range(keys.size):
        cell = cells[np.uint64(keys[i] - low)]
        cell[0] += 1.0
        cell[np.uint64(labels[i]) + _ONE] += weights[i]


@kernel
def _search_cells(
    criterion, cells, low, missing, totals, limits, missing_left, left, right, best
):
    """Find the best cut between keys, of which each has its sums in a cell."""
    sums = totals.size
    left_n = missing[sums] if missing_left else 0.0
    total_n = missing[sums]
    for d in range(cells.shape[0]):
        total_n += cells[d, 0]
    for k in range(sums):
        left[k] = missing[k] if missing_left else 0.0
    least_n, least_w = limits[0], limits[1]
    found = False
    d = 0
    while d < cells.shape[0]:
        left_n += cells[d, 0]
        for k in range(sums):
            left[k] += cells[d, np.uint64(k) + _ONE]
        following = d + 1
        while following < cells.shape[0] and cells[following, 0] == 0.0:
            following += 1
        right_n = total_n - left_n
        if left_n >= least_n and right_n >= least_n and right_n > 0.0:
            for k in range(sums):
                right[k] = totals[k] - left[k]
            left_w, right_w = left[0], right[0]
            if criterion != SQUARED_ERROR:
                for k in range(1, sums):
                    left_w += left[k]
                    right_w += right[k]
            if left_w >= least_w and right_w >= least_w:
                if criterion == SQUARED_ERROR:
                    score = _score_numbers(left_w, left[1], right_w, totals)
                else:
                    score = _score_classes(criterion, left_w, left)
                    score += _score_classes(criterion, right_w, right)
                if score > best["score"]:
                    is_last = following == cells.shape[0]
                    best["score"] = score
                    best["bin"] = low + d
                    best["next_bin"] = -1 if is_last else low + following
                    best["missing_left"] = missing_left
                    found = True
        d = following
    return found


# --- The best split of a node ---------------------------------------------------------


@kernel
def _gather(codes, by_row, feature, rows, keys):
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
def _search(
    criterion, keys, low, high, count, seen, missing, totals, limits, work, best
):
    """Look at all cuts of keys from `low` to `high`; say if one is the best so far."""
    order, spare, counts, left, right, room = work
    weights, values, labels = seen
    ways = 2 if missing[missing.size - 1] > 0.0 else 1
    found = False
    width = np.int64(high) - np.int64(low) + 1
    if width <= count >> 1:
        used = width * (totals.size + 1)
        for i in range(used):
            room[i] = 0.0
        cells = room[:used].reshape(width, totals.size + 1)
        if criterion == SQUARED_ERROR:
            _count_numbers(keys[:count], low, weights, values, cells)
        else:
            _count_classes(keys[:count], low, weights, labels, cells)
        for missing_left in range(ways):
            better = _search_cells(
                criterion,
                cells,
                low,
                missing,
                totals,
                limits,
                missing_left,
                left,
                right,
                best,
            )
            found = found or better
        return found
    _sort(keys, count, low, high, order, spare, counts)
    for missing_left in range(ways):
        if criterion == SQUARED_ERROR:
            better = _search_numbers(
                keys,
                order,
                count,
                weights,
                values,
                missing,
                totals,
                limits,
                missing_left,
                best,
            )
        else:
            better = _search_classes(
                criterion,
                keys,
                order,
                count,
                weights,
                labels,
                missing,
                totals,
                limits,
                missing_left,
                left,
                right,
                best,
            )
        found = found or better
    return found


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
        if _search(
            criterion, keys, 0, high, count, seen, missing, totals, limits, work, best
        ):
            found = True
            last = best["bin"] if cut < 0 or best["next_bin"] < 0 else cut
            goes_right[:] = 0  # what the node does not have goes left
            for i in range(size):
                goes_right[present[i]] = i > last
    return found


@kernel
def _search_node(
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
    work,  # of `_search`; scratch
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
            swap = drawn + np.int64((_pick(bits, i) * rest) >> _NODE)
            swaps[drawn] = swap
            features[drawn], features[swap] = features[swap], features[drawn]
        f = np.int64(features[drawn])
        drawn += 1
        word, place = np.uint64(f) >> _WORD, np.uint64(f) & _PLACE
        if (constants[word] >> place) & _ONE:
            continue
        known = count
        low, high = _gather(codes, by_row, f, rows, raw)
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
            better = _search(
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
            better = _search(
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


@kernel
def _send(keys, missing_code, is_categorical, goes_right, split):
    """Write over each key whether the row goes right; return how many go left.

    Where no row of the node misses the feature, the missing go with most rows.
    """
    n_missing = 0
    n_right = 0
    last = split["bin"]
    missing_right = 1 - split["missing_left"]
    for i in range(keys.size):
        key = keys[i]
        if key == missing_code:
            n_missing += 1
            right = missing_right
        elif is_categorical:
            right = np.int32(goes_right[key])
        else:
            right = np.int32(key > last)
        keys[i] = right
        n_right += right
    if n_missing == 0:
        split["missing_left"] = 2 * n_right <= keys.size
    return keys.size - n_right


@kernel
def _part(goes_right, items, rights):
    """Bring the items that go left before those that go right, in order.

    Both writes are done and one place moves on, so that there is no branch.
    """
    n_left = np.uint64(0)
    n_right = np.uint64(0)
    for i in range(items.size):
        right = np.uint64(goes_right[i])
        item = items[i]
        items[n_left] = item
        rights[n_right] = item
        n_right += right
        n_left += _ONE - right
    for i in range(n_right):
        items[n_left + i] = rights[i]


@kernel
def _add_up(n_classes, weights, values, labels, sums):
    """Add up weights and values, or the weights of each class."""
    if n_classes > 0:
        for i in range(weights.size):
            sums[labels[i]] += weights[i]
        return
    for i in range(weights.size):
        sums[0] += weights[i]
        sums[1] += values[i]


@inline
def _copy(source, target):
    for i in range(source.size):
        target[i] = source[i]


@kernel
def _is_pure(labels):
    """Return whether all rows have one target."""
    i = 1
    while i < labels.size and labels[i] == labels[0]:
        i += 1
    return i >= labels.size


@kernel
def grow_tree(
    tree,  # uint64: its number
    key,  # uint64: the seed
    rows,  # (own rows,) int32: those of the bag; in, and sorted by leaf out
    table,  # codes (features, rows); bins (features,) int64: the missing have this
    # code; is_categorical (features,) uint8; values (codes,) float64: the least of
    # each code, feature after feature, and (features + 1,) int64: where each begins
    rules,  # criterion, classes (0: numbers), features to draw, whether to draw cuts
    targets,  # (own rows,) weights and values, float64, and labels, int32: of classes,
    # or numbers that are the same where the targets are; in, and sorted by leaf out
    limits,  # (4,) float64: least rows and weight of a leaf, least rows and gain of
    # what is split
    most_depth,
    most_leaves,  # 0: any number, and the last node first; else the best one first
    room,
    seen,
    lists,
    work,
    tails,  # missing, features, swaps
    constants,  # (open nodes, words) uint64, scratch
    open_nodes,  # (open nodes,) int64, scratch
    best,  # (1,) BEST_DTYPE, scratch
    goes_right,  # (most categories,) uint8, scratch
    sums,  # (nodes, sums) float64, out: weight and values, or the weight of each class
    categories,  # (categories,) int32, out: that go right, node after node
    nodes,  # (nodes,) CART_DTYPE, out
):
    """Grow a tree; return how many nodes it has."""
    codes, by_row, bins, is_categorical, _, _ = table
    criterion, n_classes, _, _ = rules
    weights, values, labels = targets
    missing, features, swaps = tails
    split = best[0]
    n_sums = sums.shape[1]
    n_categories = 0
    n_nodes = 1
    n_leaves = 1
    n_open = 0
    sums[0] = 0.0
    _add_up(n_classes, weights, values, labels, sums[0])
    nodes[0]["parent"] = -1
    nodes[0]["depth"] = 0
    nodes[0]["begin"] = 0
    nodes[0]["end"] = rows.size
    inherited = constants[constants.shape[0] - 1]
    inherited[:] = np.uint64(0)
    first = 0  # of the nodes that are new
    while True:
        # Find out how to split what is new: the root, or two children.
        for node in range(first, n_nodes):
            begin, end = nodes[node]["begin"], nodes[node]["end"]
            nodes[node]["left"] = -1
            nodes[node]["feature"] = -1
            nodes[node]["bin"] = 0
            nodes[node]["next_bin"] = -1
            nodes[node]["missing_left"] = 0
            nodes[node]["n_categories"] = 0
            nodes[node]["first_category"] = 0
            nodes[node]["threshold"] = np.nan
            nodes[node]["gain"] = 0.0
            count = end - begin
            if count < limits[2] or nodes[node]["depth"] >= most_depth:
                continue
            if _is_pure(labels[begin:end]):
                continue
            _copy(inherited, constants[n_open])
            _search_node(
                tree,
                key,
                node,
                rows[begin:end],
                table,
                rules,
                (weights[begin:end], values[begin:end], labels[begin:end]),
                sums[node],
                limits,
                constants[n_open],
                room,
                seen,
                lists,
                work,
                missing,
                features,
                swaps,
                split,
                goes_right,
            )
            f = split["feature"]
            if f < 0:
                continue
            if n_classes == 0:
                gain = split["score"] / sums[node, 0]
            else:
                weight = 0.0
                for k in range(n_classes):
                    weight += sums[node, k]
                score = _score_classes(criterion, weight, sums[node])
                gain = max(0.0, split["score"] - score)
                if criterion == ENTROPY:
                    gain *= _BITS
            if gain < limits[3]:
                continue
            nodes[node]["feature"] = f
            nodes[node]["gain"] = gain
            nodes[node]["bin"] = split["bin"]
            nodes[node]["next_bin"] = split["next_bin"]
            nodes[node]["threshold"] = split["threshold"]
            nodes[node]["missing_left"] = split["missing_left"]
            if is_categorical[f]:
                nodes[node]["first_category"] = n_categories
                for code in range(bins[f]):
                    categories[n_categories] = code
                    n_categories += goes_right[code]
                count = n_categories - nodes[node]["first_category"]
                nodes[node]["n_categories"] = count
            open_nodes[n_open] = node
            n_open += 1
        if n_open == 0 or n_leaves == most_leaves:
            break
        slot = n_open - 1
        if most_leaves > 0:
            for i in range(n_open):
                gain = nodes[open_nodes[i]]["gain"]
                most = nodes[open_nodes[slot]]["gain"]
                if gain > most or (gain == most and open_nodes[i] < open_nodes[slot]):
                    slot = i
        node = open_nodes[slot]
        n_open -= 1
        _copy(constants[slot], inherited)
        _copy(constants[n_open], constants[slot])
        open_nodes[slot] = open_nodes[n_open]
        begin, end = nodes[node]["begin"], nodes[node]["end"]
        f = nodes[node]["feature"]
        if is_categorical[f]:
            goes_right[: bins[f]] = 0
            for i in range(nodes[node]["n_categories"]):
                goes_right[categories[nodes[node]["first_category"] + i]] = 1
        keys = room[0]
        _gather(codes, by_row, f, rows[begin:end], keys)
        middle = begin + _send(
            keys[: end - begin], bins[f], is_categorical[f], goes_right, nodes[node]
        )
        _part(keys, rows[begin:end], room[1])
        _part(keys, labels[begin:end], room[1])
        _part(keys, weights[begin:end], seen[0])
        if n_classes == 0:
            _part(keys, values[begin:end], seen[0])
        first = n_nodes
        for side in range(2):
            child = n_nodes
            nodes[child]["parent"] = node
            nodes[child]["depth"] = nodes[node]["depth"] + 1
            nodes[child]["begin"] = begin if side == 0 else middle
            nodes[child]["end"] = middle if side == 0 else end
            n_nodes += 1
        sums[first] = 0.0
        _add_up(
            n_classes,
            weights[begin:middle],
            values[begin:middle],
            labels[begin:middle],
            sums[first],
        )
        for k in range(n_sums):
            sums[first + 1, k] = sums[node, k] - sums[first, k]
        nodes[node]["left"] = first
        n_leaves += 1
    for i in range(n_open):  # no leaf was left for these
        nodes[open_nodes[i]]["feature"] = -1
        nodes[open_nodes[i]]["gain"] = 0.0
        nodes[open_nodes[i]]["n_categories"] = 0
    return n_nodes


@kernel
def find_ends(
    codes,  # (rows,) uint8 or uint16
    values,  # (rows,) float32 or float64
    lows,  # (codes,) float64: the least value of each so far, in and out
    highs,  # (codes,) float64: the greatest
):
    """Write the least and the greatest value of each code; the missing have none."""
    for i in range(codes.size):
        code = np.int64(codes[i])
        if code < lows.size:
            lows[code] = min(lows[code], values[i])
            highs[code] = max(highs[code], values[i])


@kernel
def place_cuts(
    nodes,  # (nodes,) CART_DTYPE, in and out
    thresholds,  # (nodes,) float64: what goes left is below; or NaN
    values,  # (codes,) float64: the least of each code, feature after feature
    starts,  # (features + 1,) int64: where those of each begin
):
    """Have codes go left whose values are below the threshold, between the two ends."""
    for i in range(nodes.size):
        if thresholds[i] == thresholds[i] and nodes[i]["next_bin"] >= 0:
            first = starts[nodes[i]["feature"]]
            last, beyond = nodes[i]["bin"], nodes[i]["next_bin"]
            while beyond - last > 1:
                middle = (last + beyond) >> 1
                if values[first + middle] < thresholds[i]:
                    last = middle
                else:
                    beyond = middle
            nodes[i]["bin"] = last


@kernel
def reach(
    table,  # see `grow_tree`
    rows,  # (some,) int32
    nodes,  # (nodes,) CART_DTYPE
    categories,  # (categories,) int32
    swapped,  # a feature, or -1
    others,  # (some,) int32: the rows whose values of that feature are taken instead
    leaves,  # (some,) int32, out
):
    """Write the leaf that each row comes to."""
    _, by_row, bins, is_categorical, _, _ = table
    for i in range(rows.size):
        node = 0
        while nodes[node]["left"] >= 0:
            f = nodes[node]["feature"]
            code = by_row[others[i] if f == swapped else rows[i], f]
            if code == bins[f]:
                right = 1 - nodes[node]["missing_left"]
            elif is_categorical[f]:
                right = 0
                begin = nodes[node]["first_category"]
                for j in range(begin, begin + nodes[node]["n_categories"]):
                    right |= categories[j] == code
            else:
                right = np.int32(code > nodes[node]["bin"])
            node = nodes[node]["left"] + right
        leaves[i] = node


@kernel
def link_strengths(
    left,  # (nodes,) int32: the left child, the right one follows; -1 at leaves
    parent,  # (nodes,) int32; -1 at the root
    gains,  # (nodes,) float64: by how much a split makes the tree better
    sums,  # (nodes,) float64, scratch: of the gains of a branch
    splits,  # (nodes,) int64, scratch: of the splits of a branch
    heap,  # (nodes,) int32, scratch
    places,  # (nodes,) int32, scratch: of nodes in the heap
    strengths,  # (nodes,) float64, out: of each node when it became a leaf, or went
    cut,  # (nodes,) int32, out: the nodes that became leaves, one after the other
    lost_gains,  # (nodes,) float64, out: the gains that each of them takes away
    lost_splits,  # (nodes,) int64, out: and the splits
):
    """Cut the weakest link again and again; return how often.

    The weakest link is the node whose branch has the least gain a split: with as much
    to pay for each leaf the tree is better without (Breiman et al. 1984, section 3.3).
    """
    n = left.size
    for node in range(n):
        sums[node] = gains[node] if left[node] >= 0 else 0.0
        splits[node] = left[node] >= 0
        places[node] = -1
        strengths[node] = 0.0
    for i in range(n - 1):  # children come after their parents
        node = n - 1 - i
        sums[parent[node]] += sums[node]
        splits[parent[node]] += splits[node]
    size = 0
    for node in range(n):
        if left[node] >= 0:
            strengths[node] = sums[node] / splits[node]
            _lift(heap, places, strengths, size, node)
            size += 1
    cuts = 0
    least = 0.0
    while size > 0:
        top = heap[0]
        least = max(least, strengths[top])
        cut[cuts] = top
        lost_gains[cuts] = sums[top]
        lost_splits[cuts] = splits[top]
        # All of the branch leaves the heap, from below.
        node = top
        while True:
            if left[node] >= 0 and places[left[node]] >= 0:
                node = left[node]
            elif left[node] >= 0 and places[left[node] + 1] >= 0:
                node = left[node] + 1
            else:
                size -= 1
                _take_out(heap, places, strengths, size, places[node])
                places[node] = -1
                strengths[node] = least
                if node == top:
                    break
                node = parent[node]
        node = parent[top]
        while node >= 0:
            sums[node] -= lost_gains[cuts]
            splits[node] -= lost_splits[cuts]
            strengths[node] = sums[node] / splits[node]
            _sink(heap, places, strengths, size, places[node])
            _lift(heap, places, strengths, places[node], node)
            node = parent[node]
        cuts += 1
    return cuts


@inline
def _is_weaker(strengths, node, other):
    weak, strong = strengths[node], strengths[other]
    return weak < strong or (weak == strong and node < other)


@kernel
def _lift(heap, places, strengths, place, node):
    """Put a node in its place at `place` of the heap or above."""
    while place > 0:
        above = (place - 1) >> 1
        if not _is_weaker(strengths, node, heap[above]):
            break
        heap[place] = heap[above]
        places[heap[place]] = place
        place = above
    heap[place] = node
    places[node] = place


@kernel
def _sink(heap, places, strengths, size, place):
    """Put the node at `place` of a heap of `size` in its place there or below."""
    node = heap[place]
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size and _is_weaker(strengths, heap[below + 1], heap[below]):
            below += 1
        if not _is_weaker(strengths, heap[below], node):
            break
        heap[place] = heap[below]
        places[heap[place]] = place
        place = below
    heap[place] = node
    places[node] = place


@kernel
def _take_out(heap, places, strengths, size, place):
    """Fill `place` with the last node of the heap, which has `size` without it."""
    node = heap[size]
    if place == size:
        return
    heap[place] = node
    places[node] = place
    _sink(heap, places, strengths, size, place)
    _lift(heap, places, strengths, places[node], node)
