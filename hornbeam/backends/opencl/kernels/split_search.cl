// The best splits of nodes by numerical features: see hornbeam/kernels/split.py, whose
// bits these have.
//
// Each work-item has a run of a feature's bins. A scan gives the sums of the bins before
// its run, and of all; then the work-item scores the cuts of the run, upwards with
// missing values on the right, and downwards with missing values on the left.

// The least positive normal float64.
#define TINY 0x1p-1022

// Cuts that are scored together: on a processor by the lanes of a vector, and on a GPU
// by the other work-items.
#define CUTS_TOGETHER (GROUP_SIZE == 1 ? 256 : 1)

// The regularisation, and the value of a unit of sums.
typedef struct {
    double reg_lambda, reg_alpha;
    double max_delta_step;  // infinity: unlimited
    double min_child_weight;
    double gradient_scale, hessian_scale;
    double screen;  // a bit less than 1; 0: all cuts are scored
} Rules;

typedef struct {
    int number;
    int first_bin;  // of the histogram
    int n_bins;
    int unused;
} Feature;

// A node whose split is searched.
typedef struct {
    int slot;     // of its histogram
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

// A cut of a feature; its score is the gain of both children. The best of each work-item
// is in local memory: PoCL 3.0 mixes those in private memory up at barriers.
typedef struct {
    double score;
    long left_gradient, left_hessian;
    int feature, bin, missing_left, unused;
} Candidate;

static inline Candidate no_candidate(void)
{
    Candidate none = {0.0, 0, 0, -1, 0, 0, 0};
    return none;
}

// Whether `own` is chosen rather than `other`. Of equal scores the first one is, in the
// order of the search.
static inline int is_better(const Candidate* own, __local const Candidate* other)
{
    if (own->score != other->score)
        return own->score > other->score;
    if (own->feature != other->feature)
        return own->feature < other->feature;
    if (own->missing_left != other->missing_left)
        return own->missing_left < other->missing_left;
    return own->missing_left ? own->bin > other->bin : own->bin < other->bin;
}

// Moves the best candidate of a group to its first work-item's place.
static inline void reduce_best(__local Candidate* candidates)
{
    int item = get_local_id(0);
    for (int step = GROUP_SIZE / 2; step > 0; step /= 2) {
        SYNC();
        if (item < step) {
            Candidate other = candidates[item + step];
            if (is_better(&other, candidates + item))
                candidates[item] = other;
        }
    }
}

DEFINE_SCAN(scan_pairs, long2)

// The nearest float64 of a sum. A processor core converts the halves, 2**84 + 2**63 +
// 2**32 times the upper one, and 2**52 + the lower one, because few have vectors of
// conversions from 64 bits; only the last addition rounds.
static inline double to_double(long sum)
{
#if GROUP_SIZE == 1
    double upper = as_double(((ulong)sum >> 32) ^ 0x4530000080000000UL);
    double lower = as_double((sum & 0xffffffffL) | 0x4330000000000000L);
    return (upper - 0x1.00000801p84) + lower;
#else
    return (double)sum;
#endif
}

// Twice the decrease of the loss by a leaf, as in `maths.leaf_gain`.
static inline double leaf_gain(double gradient, double hessian, const Rules* rules)
{
    double above = gradient - rules->reg_alpha;
    double below = gradient + rules->reg_alpha;
    double thresholded = (above > 0.0 ? above : 0.0) + (below < 0.0 ? below : 0.0);
    double ridged = hessian + rules->reg_lambda;
    double limit = rules->max_delta_step;
    double weight = -thresholded / ridged;
    weight = weight > -limit ? weight : -limit;
    weight = weight < limit ? weight : limit;
    weight = hessian > 0.0 ? weight : 0.0;
    return -weight * (2.0 * thresholded + ridged * weight);
}

// Replaces *best by the best of cuts that leave gradients[k] + extra.x and
// hessians[k] + extra.y on the left, if it is better.
//
// A score of both children is a sum of two fractions. Multiplied by both denominators it
// needs no division, and tells within some rounding errors whether a cut may be better:
// few others are scored. The first loop has no branches, so that compilers vectorise it.
static inline void search_cuts(
    const long* gradients, const long* hessians, uint count, long2 extra, long2 total,
    const Rules* rules, Candidate own, __local Candidate* best)
{
    double numerators[CUTS_TOGETHER], denominators[CUTS_TOGETHER];
    double least = max(rules->min_child_weight, TINY);
    double node_g = to_double(total.x) * rules->gradient_scale;
    double node_h = to_double(total.y) * rules->hessian_scale;
    double ridge = rules->reg_lambda;
    for (uint k = 0; k < count; k++) {
        double g = to_double(gradients[k] + extra.x) * rules->gradient_scale;
        double h = to_double(hessians[k] + extra.y) * rules->hessian_scale;
        double other_g = node_g - g, other_h = node_h - h;
        double numerator = g * g * (other_h + ridge) + other_g * other_g * (h + ridge);
        int is_valid = (h >= least) & (other_h >= least);
        numerators[k] = is_valid ? numerator : -1.0;
        denominators[k] = (h + ridge) * (other_h + ridge);
    }
    int first_bin = own.bin;
    for (uint i = 0; i < count; i++) {
        uint k = own.missing_left ? count - 1 - i : i;
        double bound = best->score * rules->screen;
        if (numerators[k] < 0.0 || numerators[k] < bound * denominators[k])
            continue;
        own.left_gradient = gradients[k] + extra.x;
        own.left_hessian = hessians[k] + extra.y;
        double g = to_double(own.left_gradient) * rules->gradient_scale;
        double h = to_double(own.left_hessian) * rules->hessian_scale;
        own.score = leaf_gain(g, h, rules) + leaf_gain(node_g - g, node_h - h, rules);
        own.bin = first_bin + (int)k;
        if (own.score > 0.0 && is_better(&own, best))
            *best = own;
    }
}

// Writes the sums of the rows of nodes. That of a sibling that was built is subtracted
// from the parent's, which is in the same slot. There is a work-group for each node.
KERNEL void sum_nodes(
    __global const long* histograms,  // (slots, 2, bins)
    uint bins,
    __global const Searched* nodes,
    uint begin,                       // of the bins that have each row once
    uint end,
    __global long2* totals)           // (slots,)
{
    __local long2 scratch[GROUP_SIZE];
    Searched node = nodes[get_group_id(0)];
    int is_sibling = node.sibling >= 0;
    ulong built = is_sibling ? node.sibling : node.slot;
    __global const long* gradients = histograms + built * 2 * bins;
    long2 own = (long2)(0, 0);
    for (uint i = begin + get_local_id(0); i < end; i += GROUP_SIZE)
        own += (long2)(gradients[i], gradients[bins + i]);
    long2 total;
    scan_pairs(own, scratch, &total);
    if (get_local_id(0) == 0)
        totals[node.slot] = is_sibling ? totals[node.slot] - total : total;
}

// Writes the best candidate of each node among the features of each block of them. The
// histograms of siblings that were built are subtracted before. There is a work-group for
// each block of each node.
KERNEL void search_splits(
    __global long* histograms,         // (slots, 2, bins), in and out
    uint bins,
    __global const Searched* nodes,
    __global const long2* totals,      // (slots,)
    __global const Feature* features,  // ascending
    uint n_features,
    uint block,                        // features of one
    uint blocks,
    __global const uchar* allowed,     // (nodes, table), by the number of a feature
    uint table,                        // 0: all features are allowed
    __global const Rules* given,
    __global Candidate* found)         // (nodes, blocks), out
{
    __local long2 scratch[GROUP_SIZE];
    __local Candidate candidates[GROUP_SIZE];
    Rules rules = *given;
    uint number = get_group_id(0) / blocks;
    uint start = get_group_id(0) % blocks * block;
    Searched node = nodes[number];
    long2 total = totals[node.slot];
    __global long* histogram = histograms + (ulong)node.slot * 2 * bins;
    __global const long* subtracted = histograms + (ulong)max(node.sibling, 0) * 2 * bins;
    __local Candidate* best = candidates + get_local_id(0);
    *best = no_candidate();
    uint stop = min(start + block, n_features);
    for (uint f = start; f < stop; f++) {
        Feature feature = features[f];
        uint length = (feature.n_bins + GROUP_SIZE - 1) / GROUP_SIZE;
        uint begin = min((uint)get_local_id(0) * length, (uint)feature.n_bins);
        uint end = min(begin + length, (uint)feature.n_bins);
        __global long* own_g = histogram + feature.first_bin;
        __global long* own_h = own_g + bins;
        if (node.sibling >= 0) {
            __global const long* other = subtracted + feature.first_bin;
            for (uint b = begin; b < end; b++)
                own_g[b] -= other[b];
            for (uint b = begin; b < end; b++)
                own_h[b] -= other[bins + b];
        }
        if (table > 0 && !allowed[(ulong)number * table + feature.number])
            continue;
        long2 run = (long2)(0, 0);
        for (uint b = begin; b < end; b++)
            run += (long2)(own_g[b], own_h[b]);
        long2 sum;
        long2 below = scan_pairs(run, scratch, &sum);
        long2 missing = total - sum;
        // gradients[k] is of the bins below the k-th.
        long gradients[CUTS_TOGETHER + 1], hessians[CUTS_TOGETHER + 1];
        for (uint first = begin; first < end; first += CUTS_TOGETHER) {
            uint count = min((uint)CUTS_TOGETHER, end - first);
            for (uint k = 0; k < count; k++) {
                gradients[k] = below.x;
                hessians[k] = below.y;
                below += (long2)(own_g[first + k], own_h[first + k]);
            }
            gradients[count] = below.x;
            hessians[count] = below.y;
            Candidate cut = {0.0, 0, 0, feature.number, first, 0, 0};
            search_cuts(
                gradients + 1, hessians + 1, count, (long2)(0, 0), total, &rules, cut,
                best);
            if ((missing.x | missing.y) != 0) {
                cut.bin = (int)first - 1;
                cut.missing_left = 1;
                search_cuts(
                    gradients, hessians, count, missing, total, &rules, cut, best);
            }
        }
    }
    reduce_best(candidates);
    if (get_local_id(0) == 0)
        found[get_group_id(0)] = candidates[0];
}

// Writes the best split of each node, with its gain. There is a work-group for each.
KERNEL void choose_splits(
    __global const Candidate* found,  // (nodes, blocks)
    uint blocks,
    __global const Searched* nodes,
    __global const long2* totals,     // (slots,)
    __global const Rules* given,
    __global Split* splits)           // (nodes,), out
{
    __local Candidate candidates[GROUP_SIZE];
    __global const Candidate* own = found + (ulong)get_group_id(0) * blocks;
    __local Candidate* chosen = candidates + get_local_id(0);
    *chosen = no_candidate();
    for (uint i = get_local_id(0); i < blocks; i += GROUP_SIZE) {
        Candidate other = own[i];
        if (is_better(&other, chosen))
            *chosen = other;
    }
    reduce_best(candidates);
    if (get_local_id(0) != 0)
        return;
    Candidate best = candidates[0];
    Rules rules = *given;
    long2 total = totals[nodes[get_group_id(0)].slot];
    double gain = best.score;
    if (best.feature >= 0)
        gain -= leaf_gain(
            to_double(total.x) * rules.gradient_scale,
            to_double(total.y) * rules.hessian_scale, &rules);
    Split split = {
        gain, best.left_gradient, best.left_hessian, total.x, total.y,
        best.feature, best.bin, 0, best.missing_left, 0, 0, 0.0, 0.0, 0, 0};
    splits[get_group_id(0)] = split;
}
