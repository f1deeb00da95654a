// Scores of splits, and which of two is better: hornbeam/kernels/split.py and
// node_constraints.py, whose bits these have.

// The least positive normal float64.
#define TINY 0x1p-1022

// The regularisation, and the value of a unit of sums.
typedef struct {
    double reg_lambda, reg_alpha;
    double max_delta_step;  // infinity: unlimited
    double min_child_weight;
    double gradient_scale, hessian_scale;
    double screen;          // a bit less than 1; 0: all cuts are scored
    double max_cat_to_onehot, max_cat_threshold;
    double cat_smooth, cat_l2, min_category_weight;
    double min_samples_leaf, path_smooth;
    double one_row;         // what a row adds to the sums that count rows
    double cost_of_rows;    // whether a feature's cost is multiplied by the node's rows
} Rules;

// A feature that splits are searched by.
typedef struct {
    int number;
    int first_bin;  // of the histogram
    int n_bins;
    int direction;  // of a monotone constraint
    double cost;    // of the first split by it on a path
} Feature;

// The limits of the weights in the subtree of a node, and its own weight.
typedef struct {
    double lower, upper;
    double weight;  // NaN: that of its sums
} Bounds;

// A node that is split: its sums, the penalty of its children, and only under
// constraints the rest.
typedef struct {
    double gradient, hessian, rows;
    double reg_lambda;
    double lower, upper, weight;
    double base;       // subtracted from the score
    double direction;
} Parent;

// A split by a feature; its score is the gain of both children. The order of the search
// is that of features, of the turns of a feature, and of the places in a turn. The best
// of each work-item is in local memory: PoCL 3.0 mixes those in private memory up at
// barriers.
typedef struct {
    double score;
    long left_gradient, left_hessian, left_rows;
    int feature;
    int turn;   // 1: numerical, missing values left; categories, from the highest
    int place;  // the last bin on the left, or minus that in turn 1; of categories the
                // number of the cut
    int kind;   // 0: numerical; ONE_CATEGORY or CATEGORY_SETS of kernels/layout.py
    int set;    // of categories, among those that were found
    int unused;
} Candidate;

static inline Candidate no_candidate(void)
{
    Candidate none = {0.0, 0, 0, 0, -1, 0, 0, 0, 0, 0};
    return none;
}

// Whether `own` is chosen rather than `other`. Of equal scores the first one is.
static inline int is_better(const Candidate* own, __local const Candidate* other)
{
    if (own->score != other->score)
        return own->score > other->score;
    if (own->feature != other->feature)
        return own->feature < other->feature;
    if (own->turn != other->turn)
        return own->turn < other->turn;
    return own->place < other->place;
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
    SYNC();
}

// Sums of gradients, hessians and rows.
DEFINE_SCAN(scan_sums, long4)

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

// As `maths.soft_threshold`.
static inline double soft_threshold(double gradient, const Rules* rules)
{
    double above = gradient - rules->reg_alpha;
    double below = gradient + rules->reg_alpha;
    return (above > 0.0 ? above : 0.0) + (below < 0.0 ? below : 0.0);
}

// As `maths.leaf_weight`.
static inline double leaf_weight(
    double gradient, double hessian, double reg_lambda, const Rules* rules)
{
    double limit = rules->max_delta_step;
    double weight = -soft_threshold(gradient, rules) / (hessian + reg_lambda);
    weight = -limit > weight ? -limit : weight;
    weight = limit < weight ? limit : weight;
    return hessian > 0.0 ? weight : 0.0;
}

// Twice the decrease of the loss by a leaf, as in `maths.leaf_gain`.
static inline double leaf_gain(
    double gradient, double hessian, double reg_lambda, const Rules* rules)
{
    double weight = leaf_weight(gradient, hessian, reg_lambda, rules);
    double thresholded = soft_threshold(gradient, rules);
    return -weight * (2.0 * thresholded + (hessian + reg_lambda) * weight);
}

// The same at any weight, as in `maths.gain_at`.
static inline double gain_at(
    double gradient, double hessian, double weight, double reg_lambda,
    const Rules* rules)
{
    double quadratic =
        2.0 * gradient * weight + (hessian + reg_lambda) * weight * weight;
    return -(quadratic + 2.0 * rules->reg_alpha * fabs(weight));
}

static inline double bounded(double weight, double lower, double upper)
{
    weight = lower > weight ? lower : weight;
    return upper < weight ? upper : weight;
}

// The weight of a child with these sums, as in `node_constraints.child_weight`.
static inline double child_weight(
    double gradient, double hessian, double rows, const Parent* parent,
    const Rules* rules)
{
    double weight = leaf_weight(gradient, hessian, parent->reg_lambda, rules);
    double smooth = rules->path_smooth;
    if (smooth > 0.0)
        weight = weight + (parent->weight - weight) * (smooth / (rows + smooth));
    return bounded(weight, parent->lower, parent->upper);
}

// The node with these sums; `bounds` are read under constraints only.
static inline Parent parent_of(
    long4 total, __global const Bounds* bounds, const Rules* rules, const int is_limited)
{
    Parent parent;
    parent.gradient = to_double(total.x) * rules->gradient_scale;
    parent.hessian = to_double(total.y) * rules->hessian_scale;
    parent.reg_lambda = rules->reg_lambda;
    if (is_limited) {
        double known = bounds->weight;
        if (isnan(known))
            known = leaf_weight(
                parent.gradient, parent.hessian, rules->reg_lambda, rules);
        parent.rows = to_double(total.z) / rules->one_row;
        parent.lower = bounds->lower;
        parent.upper = bounds->upper;
        parent.weight = bounded(known, parent.lower, parent.upper);
    }
    return parent;
}

// Sets what the score of a split by the feature is reduced by.
static inline void charge(
    Parent* parent, const Feature* feature, __global const ulong* used,
    const Rules* rules)
{
    parent->direction = feature->direction;
    parent->base = gain_at(
        parent->gradient, parent->hessian, parent->weight, rules->reg_lambda, rules);
    int number = feature->number;
    if (feature->cost != 0.0 && !((used[number >> 6] >> (number & 63)) & 1))
        parent->base += feature->cost * (rules->cost_of_rows != 0.0 ? parent->rows : 1.0);
}

// The score of a split that leaves these sums on one side; 0: it is not allowed.
static inline double score_of(
    long4 side, const Parent* parent, const Rules* rules, const int is_limited)
{
    double least = max(rules->min_child_weight, TINY);
    double g = to_double(side.x) * rules->gradient_scale;
    double h = to_double(side.y) * rules->hessian_scale;
    double other_g = parent->gradient - g, other_h = parent->hessian - h;
    double ridge = parent->reg_lambda, score;
    int is_valid;
    if (is_limited) {
        double n = to_double(side.z) / rules->one_row;
        double other_n = parent->rows - n;
        double weight = child_weight(g, h, n, parent, rules);
        double other = child_weight(other_g, other_h, other_n, parent, rules);
        score = gain_at(g, h, weight, ridge, rules) - parent->base;
        score += gain_at(other_g, other_h, other, ridge, rules);
        is_valid = (other_h >= least) & (parent->hessian - other_h >= least) &
                   (other_n >= rules->min_samples_leaf) &
                   (parent->rows - other_n >= rules->min_samples_leaf) &
                   (parent->direction * (other - weight) >= 0.0);
    } else {
        score = leaf_gain(g, h, ridge, rules) + leaf_gain(other_g, other_h, ridge, rules);
        is_valid = (h >= least) & (other_h >= least);
    }
    return (is_valid & (score > 0.0)) ? score : 0.0;
}
