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
        if (value != value)
            return missing_right;
        if (!(value >= 0 && (double)value < (double)count))
            return 0;
        ulong category = (ulong)value;
        return (uint)(rights[spans[2 * (ulong)place] + (category >> 6)] >> (category & 63)) & 1u;
    }
    uint right = value >= thresholds[place];
    return value != value ? missing_right : right;
}

// Rows of a work-item that descend a tree together: on a processor their steps are
// independent of one another, and on a GPU those of the other work-items are.
#define ROWS_TOGETHER (GROUP_SIZE == 1 ? 64 : 1)

// Adds the leaf values of all trees to the margins of rows, in the order of the trees.
// Sums are rounded to float32 if `single`.
KERNEL void add_trees(
    __global const REAL* values,      // (rows, columns), NaN missing
    uint columns,
    uint rows,
    uint tile,                        // rows of a work-group
    __global const int* roots,        // (trees, 5): root, depth, output, splits by category, ...
    uint trees,
    __global const ulong* nodes,
    __global const REAL* thresholds,  // (nodes,)
    __global const long* spans,       // (nodes, 2): first word and number of categories
    __global const ulong* rights,     // bit sets of the categories that go right
    __global const float* leaves,     // (nodes, width)
    uint width,                       // outputs that a leaf has values for
    uint outputs,
    uint single,
    ulong first,                      // of the rows, among those of the margins
    __global double* margins)         // (all rows, outputs), in and out
{
    uint places[ROWS_TOGETHER];
    uint begin = get_group_id(0) * tile;
    uint end = min(begin + tile, rows);
    uint step = GROUP_SIZE * ROWS_TOGETHER;
    for (uint i = begin + get_local_id(0) * ROWS_TOGETHER; i < end; i += step) {
        uint count = min((uint)ROWS_TOGETHER, end - i);
        __global const REAL* block = values + (ulong)i * columns;
        __global double* own = margins + (first + i) * outputs;
        for (uint t = 0; t < trees; t++) {
            int depth = roots[5 * t + 1];
            uint by_category = roots[5 * t + 3] > 0;
            for (uint k = 0; k < count; k++)
                places[k] = roots[5 * t];
            for (int level = 0; level < depth; level++)
                for (uint k = 0; k < count; k++) {
                    uint place = places[k];
                    ulong node = nodes[place];
                    REAL value = block[(ulong)k * columns + (node & 0x7fffffffUL)];
                    places[k] = (uint)(node >> 32) + goes_right(
                        value, place, node, thresholds, spans, rights, by_category);
                }
            uint output = width > 1 ? 0 : roots[5 * t + 2];
            for (uint k = 0; k < count; k++)
                for (uint j = 0; j < width; j++) {
                    __global double* sum = own + (ulong)k * outputs + output + j;
                    double total = *sum + leaves[(ulong)places[k] * width + j];
                    *sum = single ? (double)(float)total : total;
                }
        }
    }
}
