// The best splits of nodes by categories: see `split.find_splits`, whose bits these have.
//
// A work-group has a feature of a node. Few categories go right one by one, alone and
// with the missing values. More are sorted by weight, and cut in that order: first the
// lowest go right, one more each time; then the highest go left.

#define NO_KEY 0x7fffffffffffffffL

// Orders categories by a value in float32, then by their number, as in
// `categories.order_key`.
static inline long order_key(double value, uint category)
{
    long bits = as_int((float)(value + 0.0));
    bits ^= (bits >> 63) & 0x7fffffff;
    return (long)((ulong)bits << 32 | category);
}

// Sorts keys, a power of two of them (Batcher 1968).
static inline void sort_keys(__local long* keys, uint size)
{
    for (uint run = 2; run <= size; run *= 2)
        for (uint step = run / 2; step > 0; step /= 2) {
            SYNC();
            for (uint i = get_local_id(0); i < size / 2; i += GROUP_SIZE) {
                uint low = 2 * i - (i & (step - 1)), high = low + step;
                long one = keys[low], other = keys[high];
                int falls = (low & run) != 0;
                keys[low] = falls ? max(one, other) : min(one, other);
                keys[high] = falls ? min(one, other) : max(one, other);
            }
        }
    SYNC();
}

// Keeps a split that has `side` right of it in turn 0, and left in turn 1, if it is
// better; of one category it is right.
static inline void keep_set(
    Candidate own, long4 side, long4 total, const Parent* parent, const Rules* rules,
    const int is_limited, __local Candidate* best)
{
    own.score = score_of(side, parent, rules, is_limited);
    if (own.score > 0.0 && is_better(&own, best)) {
        long4 left = own.turn ? side : total - side;
        own.left_gradient = left.x;
        own.left_hessian = left.y;
        own.left_rows = left.z;
        *best = own;
    }
}

static inline void search_sets(
    SEARCH_ARGUMENTS,
    __global ulong* sets,  // (nodes, features, words), out
    uint words, __local long* keys, __local long4* scratch,
    __local Candidate* candidates, const int is_limited)
{
    BEGIN_SEARCH(is_limited);
    Feature feature = features[start];
    uint n = is_absent ? 0 : feature.n_bins;
    uint2 run = run_of(n);
    __global long* own = histogram + feature.first_bin;
    if (node.sibling >= 0)
        subtract(own, subtracted + feature.first_bin, bins, parts, run);
    SYNC_GLOBAL();
    if (is_limited)
        charge(&parent, &feature, own_used, &rules);
    int is_allowed = table == 0 || allowed[(ulong)number * table + feature.number];
    int is_single = n < rules.max_cat_to_onehot;
    // All sums, and the number of categories that are sorted.
    long4 sum = (long4)(0, 0, 0, 0), all;
    double ridge = rules.reg_lambda + rules.cat_smooth;
    double least = rules.cat_smooth > 0.0 ? TINY : max(rules.min_child_weight, TINY);
    uint n_keys = 1;
    while (n_keys < n && !is_single)
        n_keys *= 2;
    for (uint c = n + get_local_id(0); c < n_keys; c += GROUP_SIZE)
        keys[c] = NO_KEY;
    for (uint c = run.x; c < run.y; c++) {
        long4 one = sums_in(own, bins, parts, c, is_limited);
        double h = to_double(one.y) * rules.hessian_scale;
        int is_ranked = h >= rules.min_category_weight;
        if (!is_single) {
            double g = to_double(one.x) * rules.gradient_scale;
            double weight = h >= least ? leaf_weight(g, h, ridge, &rules) : 0.0;
            keys[c] = is_ranked ? order_key(weight, c) : NO_KEY;
        }
        one.w = is_ranked;
        sum += one;
    }
    scan_sums(sum, scratch, &all);
    uint ranked = all.w;
    long4 missing = total - all;
    sort_keys(keys, n_keys);
    int cuts = min((long)n, (long)rules.max_cat_threshold) - 1;
    cuts = is_single ? 2 * (int)n : max(min(cuts, (int)ranked), 0);
    run = run_of(is_allowed ? cuts : 0);
    parent.reg_lambda += is_single ? 0.0 : rules.cat_l2;
    // No barrier depends on the kind of split: PoCL 3.0 crashes where one does.
    for (int turn = 0; turn < (is_single ? 1 : 2); turn++) {
        long4 side = (long4)(0, 0, 0, 0);
        for (uint i = run.x; i < run.y && !is_single; i++) {
            uint c = (uint)keys[turn ? ranked - 1 - i : i];
            side += sums_in(own, bins, parts, c, is_limited);
        }
        side = scan_sums(side, scratch, &all);
        Candidate cut = no_candidate();
        cut.feature = feature.number;
        cut.turn = turn;
        cut.kind = is_single ? ONE_CATEGORY : CATEGORY_SETS;
        cut.set = get_group_id(0);
        for (uint i = run.x; i < run.y; i++) {
            if (is_single) {
                side = sums_in(own, bins, parts, i / 2, is_limited);
                side += i % 2 ? missing : (long4)(0, 0, 0, 0);
            } else {
                uint c = (uint)keys[turn ? ranked - 1 - i : i];
                side += sums_in(own, bins, parts, c, is_limited);
            }
            cut.place = i;
            keep_set(cut, side, total, &parent, &rules, is_limited, best);
        }
    }
    reduce_best(candidates);
    Candidate chosen = candidates[0];
    if (get_local_id(0) == 0)
        found[(ulong)number * places + first_place + start] = chosen;
    if (chosen.feature < 0)
        return;
    // The categories that go right.
    for (uint w = get_local_id(0); w < words; w += GROUP_SIZE) {
        ulong right = 0;
        if (is_single) {
            uint c = chosen.place >> 1;
            right = c >> 6 == w ? 1UL << (c & 63) : 0;
        } else {
            int rest = (int)n - 64 * (int)w;
            if (chosen.turn && rest > 0)
                right = rest >= 64 ? ~0UL : (1UL << rest) - 1;
            for (int i = 0; i <= chosen.place; i++) {
                uint c = (uint)keys[chosen.turn ? (int)ranked - 1 - i : i];
                right ^= c >> 6 == w ? 1UL << (c & 63) : 0;
            }
        }
        sets[(ulong)get_group_id(0) * words + w] = right;
    }
}

// There is a work-group for each feature of each node; a block is of one.
#define DEFINE_SET_SEARCH(NAME, IS_LIMITED)                                        \
    KERNEL void NAME(                                                              \
        SEARCH_ARGUMENTS, __global ulong* sets, uint words, __local long* keys)    \
    {                                                                              \
        __local long4 scratch[GROUP_SIZE];                                         \
        __local Candidate candidates[GROUP_SIZE];                                  \
        search_sets(                                                               \
            histograms, bins, parts, nodes, first_node, totals, features,          \
            n_features, block, allowed, table, given, bounds, used, used_words,    \
            found, places, first_place, sets, words, keys, scratch, candidates,    \
            IS_LIMITED);                                                           \
    }

DEFINE_SET_SEARCH(search_categories, 0)
DEFINE_SET_SEARCH(search_limited_categories, 1)
