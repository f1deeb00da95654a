// Sums of leaf values over trees: see hornbeam/kernels/predict.py, whose bits these
// have.
//
// A node is one word: its left child in the upper half, the right child follows it;
// below whether missing values go right, and the feature. A leaf is its own left child,
// and its threshold is NaN, so rows stay there.

static inline uint goes_right(
    REAL value, uint place, ulong node, __global const REAL* thresholds,
    __global const long* spans, __global const ulong* rights, uint by_category)
{
    uint missing_right = (uint)(node >> 31) & 1u;
    if (by_category && spans[2 * (ulong)place] >= 0) {
        long count = spans[2 * (ulong)place + 1];
        if (isnan(value))
            return missing_right;
        if (!(value >= 0 && (double)value < (double)count))
            return 0;
        ulong category = (ulong)value;
        return (uint)(rights[spans[2 * (ulong)place] + (category >> 6)] >> (category & 63)) & 1u;
    }
    return isnan(value) ? missing_right : value >= thresholds[place];
}

// Adds the leaf values of all trees to the margins of rows, in the order of the trees.
// Sums are rounded to float32 if `single`.
KERNEL void add_trees(
    __global const REAL* values,      // (rows, columns), NaN missing
    uint columns,
    uint rows,
    uint tile,                        // rows of a work-group
    __global const int* roots,        // (trees, 5): root, depth, output, ...
    uint trees,
    __global const ulong* nodes,
    __global const REAL* thresholds,  // (nodes,)
    __global const long* spans,       // (nodes, 2): first word and number of categories
    __global const ulong* rights,     // bit sets of the categories that go right
    uint by_category,                 // whether there are any
    __global const float* leaves,     // (nodes, width)
    uint width,                       // outputs that a leaf has values for
    uint outputs,
    uint single,
    ulong first,                      // of the rows, among those of the margins
    __global double* margins)         // (all rows, outputs), in and out
{
    uint begin = get_group_id(0) * tile;
    uint end = min(begin + tile, rows);
    for (uint i = begin + get_local_id(0); i < end; i += GROUP_SIZE) {
        __global const REAL* row = values + (ulong)i * columns;
        __global double* own = margins + (first + i) * outputs;
        for (uint t = 0; t < trees; t++) {
            uint place = roots[5 * t];
            int depth = roots[5 * t + 1];
            for (int level = 0; level < depth; level++) {
                ulong node = nodes[place];
                uint left = (uint)(node >> 32);
                if (left == place)
                    break;
                REAL value = row[node & 0x7fffffffUL];
                place = left + goes_right(
                    value, place, node, thresholds, spans, rights, by_category);
            }
            __global double* sums = width > 1 ? own : own + roots[5 * t + 2];
            for (uint k = 0; k < width; k++) {
                double total = sums[k] + leaves[(ulong)place * width + k];
                sums[k] = single ? (double)(float)total : total;
            }
        }
    }
}
