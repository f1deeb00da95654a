// The leaves of rows, their sums, and the addition of their values to margins.

// Writes the leaf of each row, and adds the rows' fine gradients and hessians to the
// sums of the leaves. A node with a split, whose rows have not been moved, has a leaf
// on each side.
KERNEL void mark_leaves(
    __global const Node* nodes,
    __global const ulong* lefts,
    uint words,
    uint n_nodes,
    __global const BIN* by_feature,
    uint n_rows,
    __global const uint* rows,
    __global const uint2* extents,
    __global const REAL* gradients,
    __global const REAL* hessians,
    double gradient_scale,
    double hessian_scale,
    __global uint* leaf_of,      // (n_rows,), out
    __global long* sums)         // (leaves, 2), in and out
{
    __local long scratch[GROUP_SIZE];
    int task = get_group_id(0);
    if (task >= nodes[n_nodes].first_task)
        return;
    uint number = node_of_task(nodes, n_nodes, task, (__local uint*)scratch);
    SYNC();
    __global const Node* node = nodes + number;
    uint2 extent = extents[node->place];
    __global const uint* own_rows = rows + (ulong)node->side * n_rows;
    __global const ulong* own_lefts = lefts + (ulong)number * words;
    int is_split = node->left >= 0;
    __global const BIN* column =
        by_feature + (is_split ? (ulong)node->column * n_rows : 0);
    int left_leaf = node->left_leaf;
    int right_leaf = node->right_leaf;
    uint begin = extent.x + (task - node->first_task) * TILE_ROWS;
    uint end = min(begin + TILE_ROWS, extent.y);
    long left_gradient = 0, left_hessian = 0, gradient = 0, hessian = 0;
    for (uint i = begin + get_local_id(0); i < end; i += GROUP_SIZE) {
        uint row = own_rows[i];
        long g = round_long(gradients[row] * gradient_scale);
        long h = round_long(hessians[row] * hessian_scale);
        int left = !is_split || goes_left(node, own_lefts, column[row]);
        leaf_of[row] = left ? left_leaf : right_leaf;
        left_gradient += left ? g : 0;
        left_hessian += left ? h : 0;
        gradient += g;
        hessian += h;
    }
    add_of_group(sums + 2 * left_leaf, left_gradient, scratch);
    add_of_group(sums + 2 * left_leaf + 1, left_hessian, scratch);
    if (is_split) {
        add_of_group(sums + 2 * right_leaf, gradient - left_gradient, scratch);
        add_of_group(sums + 2 * right_leaf + 1, hessian - left_hessian, scratch);
    }
}

// Writes a leaf to rows that are outside of the tree's sample.
KERNEL void mark_left_out(
    __global const uint* rows,  // (n_rows,)
    uint first,                 // those from here on
    uint n_rows,
    uint leaf,
    __global uint* leaf_of)
{
    uint begin = first + get_group_id(0) * TILE_ROWS;
    uint end = min(begin + TILE_ROWS, n_rows);
    for (uint i = begin + get_local_id(0); i < end; i += GROUP_SIZE)
        leaf_of[rows[i]] = leaf;
}

// Routes rows that are outside of the tree's sample from the root to their leaves.
KERNEL void route_rows(
    __global const Node* nodes,   // all of the tree; children are numbers of these
    __global const ulong* lefts,  // (nodes, words)
    uint words,
    __global const BIN* by_feature,
    __global const uint* rows,    // (n_rows,)
    uint first,                   // those from here on
    uint n_rows,
    __global uint* leaf_of)
{
    uint begin = first + get_group_id(0) * TILE_ROWS;
    uint end = min(begin + TILE_ROWS, n_rows);
    for (uint i = begin + get_local_id(0); i < end; i += GROUP_SIZE) {
        uint row = rows[i];
        int number = 0;
        while (nodes[number].left >= 0) {
            __global const Node* node = nodes + number;
            uint bin = by_feature[(ulong)node->column * n_rows + row];
            int left = goes_left(node, lefts + (ulong)number * words, bin);
            number = node->left + 1 - left;
        }
        leaf_of[row] = nodes[number].left_leaf;
    }
}

// Adds the value of each row's leaf to its margin; sums are rounded to float32 if
// `single`.
KERNEL void add_leaf_values(
    __global const uint* leaf_of,
    __global const float* values,
    uint rows,
    uint single,
    __global double* margins)
{
    uint begin = get_group_id(0) * TILE_ROWS;
    uint end = min(begin + TILE_ROWS, rows);
    for (uint i = begin + get_local_id(0); i < end; i += GROUP_SIZE) {
        double total = margins[i] + values[leaf_of[i]];
        margins[i] = single ? (double)(float)total : total;
    }
}
