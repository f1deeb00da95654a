// The best splits of nodes: see hornbeam/kernels/split.py, whose bits these have.
//
// Each work-item has a run of a feature's bins. A scan gives the sums of the bins before
// its run, and of all; then the work-item scores the cuts of the run, upwards with
// missing values on the right, and downwards with missing values on the left.

// Cuts that are scored together: on a processor by the lanes of a vector, and on a GPU
// by the other work-items.
#define CUTS_TOGETHER (GROUP_SIZE == 1 ? 256 : 1)

// A node whose split is searched.
typedef struct {
    int slot;     // of its histogram; -1: there is no such node
    int sibling;  // that of what is subtracted from it first; -1: nothing
} Searched;

// SPLIT_DTYPE of hornbeam/kernels/layout.py.
typedef struct {
    double gain;
    long left_gradient, left_hessian;
    long total_gradient, total_hessian;
    int feature, bin, next_bin, missing_left, is_categorical, unused;
    double left_weight, right_weight;
    long left_rows, total_rows;
} Split;

// A histogram has sums of gradients and hessians, and perhaps of rows; the last ones
// count the rows.
#define SEARCH_ARGUMENTS                                                        \
    __global long* histograms,        /* (slots, parts, bins), in and out */    \
    uint bins, uint parts,                                                      \
    __global const Searched* nodes,   /* those from `first_node` on */          \
    uint first_node,                                                            \
    __global const long4* totals,     /* (slots,) */                            \
    __global const Feature* features, /* ascending */                           \
    uint n_features,                                                            \
    uint block,                       /* features of one work-group */          \
    __global const uchar* allowed,    /* (nodes, table), by a feature's number */\
    uint table,                       /* 0: all features are allowed */         \
    __global const Rules* given,                                                \
    __global const Bounds* bounds,    /* (nodes,), under constraints */         \
    __global const ulong* used,       /* (nodes, used_words), if there are costs */\
    uint used_words,                                                            \
    __global Candidate* found,        /* (nodes, places), out */                \
    uint places,                                                                \
    uint first_place                  /* of the blocks of these features */

// What kernels with these arguments begin with.
#define BEGIN_SEARCH(is_limited)                                                \
    Rules rules = *given;                                                       \
    uint blocks = (n_features + block - 1) / block;                             \
    uint number = get_group_id(0) / blocks;                                     \
    uint start = get_group_id(0) % blocks * block;                              \
    Searched node = nodes[first_node + number];                                 \
    int is_absent = node.slot < 0;                                              \
    node.slot = max(node.slot, 0);                                              \
    long4 total = totals[node.slot];                                            \
    Parent parent = parent_of(total, bounds + number, &rules, is_limited);      \
    __global const ulong* own_used = used + (ulong)number * used_words;         \
    ulong size = (ulong)parts * bins;                                           \
    __global long* histogram = histograms + node.slot * size;                   \
    __global const long* subtracted = histograms + max(node.sibling, 0) * size; \
    __local Candidate* best = candidates + get_local_id(0);                     \
    *best = no_candidate()

// The work-item's run of the bins of a feature.
static inline uint2 run_of(uint n_bins)
{
    uint length = (n_bins + GROUP_SIZE - 1) / GROUP_SIZE;
    uint begin = min((uint)get_local_id(0) * length, n_bins);
    return (uint2)(begin, min(begin + length, n_bins));
}

static inline void subtract(
    __global long* own, __global const long* other, uint bins, uint parts, uint2 run)
{
    for (uint part = 0; part < parts; part++)
        for (uint b = run.x; b < run.y; b++)
            own[part * bins + b] -= other[part * bins + b];
}

// Gradients, hessians and, where they are needed, rows of a bin.
static inline long4 sums_in(
    __global const long* own, uint bins, uint parts, uint b, const int is_limited)
{
    return (long4)(
        own[b], own[bins + b], is_limited ? own[(parts - 1) * bins + b] : 0, 0);
}

// Writes the sums of the bins before each of `count`, and of all, from those `below`.
static inline void sum_bins(
    __global const long* own, uint count, long below, long* sums)
{
    sums[0] = below;
    for (uint k = 0; k < count; k++) {
        below += own[k];
        sums[k + 1] = below;
    }
}

// Replaces *best by the best of cuts that leave sums[k] + extra on the left, if it is
// better.
//
// A score of both children is a sum of two fractions. Multiplied by both denominators it
// needs no division, and tells within some rounding errors whether a cut may be better:
// few others are scored. The first loop has no branches, so that compilers vectorise it.
static inline void search_cuts(
    const long* gradients, const long* hessians, uint count, long4 extra,
    const Parent* parent, const Rules* rules, Candidate own, __local Candidate* best)
{
    double numerators[CUTS_TOGETHER], denominators[CUTS_TOGETHER];
    double least = max(rules->min_child_weight, TINY);
    double ridge = rules->reg_lambda;
    for (uint k = 0; k < count; k++) {
        double g = to_double(gradients[k] + extra.x) * rules->gradient_scale;
        double h = to_double(hessians[k] + extra.y) * rules->hessian_scale;
        double other_g = parent->gradient - g, other_h = parent->hessian - h;
        double numerator = g * g * (other_h + ridge) + other_g * other_g * (h + ridge);
        int is_valid = (h >= least) & (other_h >= least);
        numerators[k] = is_valid ? numerator : -1.0;
        denominators[k] = (h + ridge) * (other_h + ridge);
    }
    int first_bin = own.place;
    for (uint i = 0; i < count; i++) {
        uint k = own.turn ? count - 1 - i : i;
        double bound = best->score * rules->screen;
        if (numerators[k] < 0.0 || numerators[k] < bound * denominators[k])
            continue;
        long4 left = (long4)(gradients[k], hessians[k], 0, 0) + extra;
        own.left_gradient = left.x;
        own.left_hessian = left.y;
        own.score = score_of(left, parent, rules, 0);
        own.place = own.turn ? -(first_bin + (int)k) : first_bin + (int)k;
        if (own.score > 0.0 && is_better(&own, best))
            *best = own;
    }
}

// The same under constraints, where all cuts are scored.
static inline void search_limited_cuts(
    const long* gradients, const long* hessians, const long* rows, uint count,
    long4 extra, const Parent* parent, const Rules* rules, Candidate own,
    __local Candidate* best)
{
    double scores[CUTS_TOGETHER];
    for (uint k = 0; k < count; k++)
        scores[k] = score_of(
            (long4)(gradients[k], hessians[k], rows[k], 0) + extra, parent, rules, 1);
    int first_bin = own.place;
    for (uint i = 0; i < count; i++) {
        uint k = own.turn ? count - 1 - i : i;
        own.score = scores[k];
        own.place = own.turn ? -(first_bin + (int)k) : first_bin + (int)k;
        if (own.score > 0.0 && is_better(&own, best)) {
            own.left_gradient = gradients[k] + extra.x;
            own.left_hessian = hessians[k] + extra.y;
            own.left_rows = rows[k] + extra.z;
            *best = own;
        }
    }
}

// Writes the sums of the rows of nodes. That of a sibling that was built is subtracted
// from the parent's, which is in the same slot. There is a work-group for each node.
KERNEL void sum_nodes(
    __global const long* histograms,  // (slots, parts, bins)
    uint bins,
    uint parts,
    __global const Searched* nodes,
    uint begin,                       // of the bins that have each row once
    uint end,
    __global long4* totals)           // (slots,)
{
    __local long4 scratch[GROUP_SIZE];
    Searched node = nodes[get_group_id(0)];
    int is_sibling = node.sibling >= 0;
    ulong built = is_sibling ? node.sibling : node.slot;
    __global const long* own = histograms + built * parts * bins;
    long4 sum = (long4)(0, 0, 0, 0);
    for (uint i = begin + get_local_id(0); i < end; i += GROUP_SIZE)
        sum += sums_in(own, bins, parts, i, 1);
    long4 total;
    scan_sums(sum, scratch, &total);
    if (get_local_id(0) == 0)
        totals[node.slot] = is_sibling ? totals[node.slot] - total : total;
}

// Writes the best candidate of a node among the features of a block of them. The
// histogram of a sibling that was built is subtracted before.
static inline void search_block(
    SEARCH_ARGUMENTS, __local long4* scratch, __local Candidate* candidates,
    const int is_limited)
{
    BEGIN_SEARCH(is_limited);
    uint stop = is_absent ? start : min(start + block, n_features);
    for (uint f = start; f < stop; f++) {
        Feature feature = features[f];
        uint2 run = run_of(feature.n_bins);
        __global long* own = histogram + feature.first_bin;
        if (node.sibling >= 0)
            subtract(own, subtracted + feature.first_bin, bins, parts, run);
        if (table > 0 && !allowed[(ulong)number * table + feature.number])
            continue;
        if (is_limited)
            charge(&parent, &feature, own_used, &rules);
        long4 below = (long4)(0, 0, 0, 0), sum;
        for (uint b = run.x; b < run.y; b++)
            below += sums_in(own, bins, parts, b, is_limited);
        below = scan_sums(below, scratch, &sum);
        long4 missing = total - sum;
        long rest = missing.x | missing.y | (is_limited ? missing.z : 0);
        // gradients[k] is of the bins below the k-th.
        long gradients[CUTS_TOGETHER + 1], hessians[CUTS_TOGETHER + 1];
        long rows[CUTS_TOGETHER + 1];
        for (uint first = run.x; first < run.y; first += CUTS_TOGETHER) {
            uint count = min((uint)CUTS_TOGETHER, run.y - first);
            sum_bins(own + first, count, below.x, gradients);
            sum_bins(own + bins + first, count, below.y, hessians);
            if (is_limited)
                sum_bins(own + (parts - 1) * bins + first, count, below.z, rows);
            below = (long4)(
                gradients[count], hessians[count], is_limited ? rows[count] : 0, 0);
            for (int down = 0; down < (rest != 0 ? 2 : 1); down++) {
                Candidate cut = no_candidate();
                cut.feature = feature.number;
                cut.turn = down;
                cut.place = (int)first - down;
                const long* own_g = gradients + 1 - down;
                const long* own_h = hessians + 1 - down;
                long4 extra = down ? missing : (long4)(0, 0, 0, 0);
                if (is_limited)
                    search_limited_cuts(
                        own_g, own_h, rows + 1 - down, count, extra, &parent, &rules, cut,
                        best);
                else
                    search_cuts(own_g, own_h, count, extra, &parent, &rules, cut, best);
            }
        }
    }
    reduce_best(candidates);
    if (get_local_id(0) == 0)
        found[(ulong)number * places + first_place + start / block] = candidates[0];
}

// There is a work-group for each block of each node.
#define DEFINE_SEARCH(NAME, IS_LIMITED)                                            \
    KERNEL void NAME(SEARCH_ARGUMENTS)                                             \
    {                                                                              \
        __local long4 scratch[GROUP_SIZE];                                         \
        __local Candidate candidates[GROUP_SIZE];                                  \
        search_block(                                                              \
            histograms, bins, parts, nodes, first_node, totals, features,          \
            n_features, block, allowed, table, given, bounds, used, used_words,    \
            found, places, first_place, scratch, candidates, IS_LIMITED);          \
    }

DEFINE_SEARCH(search_splits, 0)
DEFINE_SEARCH(search_limited_splits, 1)

// Writes the best split of each node, with its gain, and the categories that go right.
// There is a work-group for each.
KERNEL void choose_splits(
    __global const Candidate* found,  // (nodes, places)
    uint places,
    __global const Searched* nodes,   // those from `first_node` on
    uint first_node,
    __global const long4* totals,     // (slots,)
    __global const Rules* given,
    uint is_limited,
    __global const Bounds* bounds,    // (nodes,), under constraints
    __global const ulong* sets,       // those of candidates
    uint words,                       // of a set
    __global ulong* splits)           // as `nodes`, out: a Split, and its set
{
    __local Candidate candidates[GROUP_SIZE];
    uint number = get_group_id(0);
    Searched node = nodes[first_node + number];
    __global const Candidate* own = found + (ulong)number * places;
    __local Candidate* chosen = candidates + get_local_id(0);
    *chosen = no_candidate();
    for (uint i = get_local_id(0); i < places; i += GROUP_SIZE) {
        Candidate other = own[i];
        if (is_better(&other, chosen))
            *chosen = other;
    }
    reduce_best(candidates);
    if (get_local_id(0) != 0)
        return;
    Candidate best = candidates[0];
    Rules rules = *given;
    long4 total = totals[max(node.slot, 0)];
    Parent parent = parent_of(total, bounds + number, &rules, is_limited);
    int is_set = best.kind == CATEGORY_SETS;
    Split split = {
        best.score, best.left_gradient, best.left_hessian, total.x, total.y, best.feature,
        0, 0, best.turn, best.kind, 0, 0.0, 0.0, 0, 0};
    if (best.kind == 0)
        split.bin = best.turn ? -best.place : best.place;
    else
        split.missing_left = is_set ? 1 - best.turn : 1 - (best.place & 1);
    if (is_limited) {
        long one_row = (long)rules.one_row;
        split.left_rows = best.left_rows / one_row;
        split.total_rows = total.z / one_row;
        double left_n = to_double(split.left_rows);
        double right_n = to_double(split.total_rows - split.left_rows);
        double g = to_double(split.left_gradient) * rules.gradient_scale;
        double h = to_double(split.left_hessian) * rules.hessian_scale;
        double other_g = parent.gradient - g, other_h = parent.hessian - h;
        parent.reg_lambda += is_set ? rules.cat_l2 : 0.0;
        split.left_weight = child_weight(g, h, left_n, &parent, &rules);
        split.right_weight = child_weight(other_g, other_h, right_n, &parent, &rules);
    } else if (best.feature >= 0) {
        split.gain -= leaf_gain(parent.gradient, parent.hessian, rules.reg_lambda, &rules);
    }
    __global ulong* out =
        splits + (ulong)(first_node + number) * (sizeof(Split) / sizeof(ulong) + words);
    *(__global Split*)out = split;
    for (uint w = 0; w < words; w++)
        out[sizeof(Split) / sizeof(ulong) + w] =
            best.kind ? sets[(ulong)best.set * words + w] : 0;
}
