// Trees that grow by level without the host: what is split, and where it goes. Numbers
// of nodes and of leaves are those of hornbeam/growth/grower.py.
//
// Level k has room for 2**k nodes, which follow those of the levels before, in tables
// of all nodes. A node's place among the extents is one more. A split adds one leaf and
// one histogram, so that slots are numbered as leaves are.

// FEATURE_DTYPE of hornbeam/kernels/layout.py.
typedef struct {
    long column, low, bins, cell, is_categorical;
} FeatureColumn;

// Begins a tree with its root. One work-item has all to do.
KERNEL void plan_root(
    uint task_rows,
    __global const uint2* extents,
    __global int* counts,          // (levels + 1,), out: nodes of each level
    __global Searched* searched,
    __global Built* built)
{
    if (get_local_id(0) != 0)
        return;
    int parts = (extents[1].y - extents[1].x + task_rows - 1) / task_rows;
    Searched root = {0, -1};
    Built whole = {0, 1, 0, 0}, end = {parts, 0, 0, 0};
    counts[0] = 1;
    searched[0] = root;
    built[0] = whole;
    built[1] = end;
}

// Writes the bins of a column that go left: all but `rights`, and perhaps missing ones.
static inline void list_lefts(
    __global const ulong* rights, FeatureColumn feature, int missing_left,
    __global ulong* lefts, uint words)
{
    for (uint w = 0; w < words; w++)
        lefts[w] = missing_left ? ~0UL : 0UL;
    for (long category = 0; category < feature.bins; category++) {
        long code = category + feature.low;
        ulong bit = 1UL << (code & 63);
        if ((rights[category >> 6] >> (category & 63)) & 1)
            lefts[code >> 6] &= ~bit;
        else
            lefts[code >> 6] |= bit;
    }
}

// Chooses the nodes of a level that are split, and lists what their rows and those of
// their children are to do. There is one work-group.
KERNEL void plan_level(
    uint level,
    uint is_last,                  // whether the children stay leaves
    double least_gain,
    uint most_leaves,
    uint task_rows,                // of a part, where histograms are built
    __global const ulong* splits,  // of all nodes: a Split, and its set
    uint words,                    // of a set
    __global const FeatureColumn* features,
    uint column_words,             // of a bit set of bins
    __global const uint2* extents,
    __global int* counts,          // (levels + 1,), in and out
    __global Node* nodes,          // out
    __global ulong* lefts,         // (nodes, column_words), out
    __global Searched* searched,   // in, and of the next level out
    __global long4* totals,        // (slots,), in and out
    __global Built* built)         // out: of the next level
{
    __local uint scratch[GROUP_SIZE];
    uint item = get_local_id(0), size = 1u << level;
    uint first = size - 1, below = 2 * size - 1, count = counts[level];
    uint leaves = 1;
    for (uint k = 1; k <= level; k++)
        leaves += counts[k] / 2;
    uint chosen = 0, tiles = 0, parts = 0;
    for (uint begin = 0; begin < size; begin += GROUP_SIZE) {
        uint i = begin + item;
        __global const ulong* record =
            splits + (ulong)(first + i) * (sizeof(Split) / sizeof(ulong) + words);
        __global const Split* split = (__global const Split*)record;
        uint is_chosen = i < count && split->gain >= least_gain, own_chosen;
        uint rank = chosen + scan_group(is_chosen, scratch, &own_chosen);
        is_chosen = is_chosen && rank < most_leaves - leaves;
        uint rows = is_chosen ? extents[1 + first + i].y - extents[1 + first + i].x : 0;
        uint own_tiles, own_parts;
        uint tile = tiles +
            scan_group((rows + TILE_ROWS - 1) / TILE_ROWS, scratch, &own_tiles);
        uint part = parts +
            scan_group((rows + task_rows - 1) / task_rows, scratch, &own_parts);
        chosen = min(chosen + own_chosen, most_leaves - leaves);
        tiles += own_tiles;
        parts += own_parts;
        if (i >= size)
            continue;
        Node node = {tile, 1 + first + i, level & 1, -1, 0, 0, 0, 0, 0, 0, 0};
        if (is_chosen) {
            FeatureColumn feature = features[split->feature];
            int is_right = split->missing_left, bins_left = split->bin + 1;
            node.left = 1 + below + 2 * rank;
            node.column = feature.column;
            node.is_categorical = split->is_categorical;
            node.inside_right = is_right;
            // Values outside of the range go where missing values go.
            node.low = feature.low + (is_right ? bins_left : 0);
            node.count = is_right ? feature.bins - bins_left : bins_left;
            if (split->is_categorical)
                list_lefts(
                    record + sizeof(Split) / sizeof(ulong), feature, is_right,
                    lefts + (ulong)(first + i) * column_words, column_words);
        }
        nodes[first + i] = node;
        if (is_chosen && !is_last) {
            // The histogram of the child of less hessian is built.
            int slot = searched[first + i].slot, new_slot = leaves + rank;
            long4 left = (long4)(split->left_gradient, split->left_hessian, 0, 0);
            long4 right =
                (long4)(split->total_gradient, split->total_hessian, 0, 0) - left;
            int is_left = left.y <= right.y;
            Searched smaller = {new_slot, -1}, larger = {slot, new_slot};
            searched[below + 2 * rank] = is_left ? smaller : larger;
            searched[below + 2 * rank + 1] = is_left ? larger : smaller;
            totals[new_slot] = is_left ? left : right;
            totals[slot] = is_left ? right : left;
            Built own = {part, node.left + 1 - is_left, 1 - node.side, 2 * new_slot};
            built[rank] = own;
        }
    }
    Searched none = {-1, -1};
    Built end = {parts, 0, 0, 0};
    for (uint i = chosen + item; i <= size && !is_last; i += GROUP_SIZE) {
        built[i] = end;
        if (i < size)
            searched[below + 2 * i] = searched[below + 2 * i + 1] = none;
    }
    if (item == 0) {
        counts[level + 1] = 2 * chosen;
        nodes[first + size].first_task = tiles;
    }
}

// Numbers the nodes and the leaves of a tree, and lists the rows of its leaves. There is
// one work-group. Rows of the splits of the last level are still with the parents.
KERNEL void plan_leaves(
    uint levels,                   // of splits
    __global const int* counts,
    __global const uint2* extents,
    __global Node* nodes,          // in and out
    __global long* sums,           // (2**levels, 2), out: zeros
    __global int2* tree)           // out: the numbers of nodes and of leaves; then of
                                   // each node its left child and its place in tables
{
    __local uint scratch[GROUP_SIZE];
    uint item = get_local_id(0);
    uint number = 0, leaves = 0, tiles = 0;
    for (uint i = item; i < 2u << levels; i += GROUP_SIZE)
        sums[i] = 0;
    for (uint level = 0; level < levels; level++) {
        uint size = 1u << level, first = size - 1, count = counts[level];
        for (uint begin = 0; begin < size; begin += GROUP_SIZE) {
            uint i = begin + item;
            int left = i < count ? nodes[first + i].left : 0;
            uint rows = 0, own_tiles, own_leaves;
            if (i < count && (left < 0 || level + 1 == levels))
                rows = extents[1 + first + i].y - extents[1 + first + i].x;
            uint tile = tiles +
                scan_group((rows + TILE_ROWS - 1) / TILE_ROWS, scratch, &own_tiles);
            uint leaf = leaves + scan_group(left < 0, scratch, &own_leaves);
            tiles += own_tiles;
            leaves += own_leaves;
            if (i >= size)
                continue;
            nodes[first + i].first_task = tile;
            if (left < 0)
                nodes[first + i].left_leaf = leaf;
            if (i < count) {
                // Its children are among those of the next level.
                int child = number + count + left - 2 * size;
                tree[1 + number + i] = (int2)(left < 0 ? -1 : child, first + i);
            }
        }
        number += count;
    }
    uint size = (1u << levels) / 2, first = size - 1;
    for (uint i = item; i < (uint)counts[levels - 1]; i += GROUP_SIZE) {
        __global Node* node = nodes + first + i;
        if (node->left >= 0) {
            node->left_leaf = leaves + node->left - 2 * size;
            node->right_leaf = node->left_leaf + 1;
        }
    }
    for (uint i = item; i < (uint)counts[levels]; i += GROUP_SIZE)
        tree[1 + number + i] = (int2)(-1, -1);
    if (item == 0) {
        nodes[2 * size - 1].first_task = tiles;
        tree[0] = (int2)(number + counts[levels], leaves + counts[levels]);
    }
}
