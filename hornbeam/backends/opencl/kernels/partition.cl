// A stable partition of the rows of nodes, from one side of a list to the other.
//
// The rows of a node lie side by side. A tile is TILE_ROWS of them, of which each
// work-item has a run. `find_sides` counts the rows of each tile that go left,
// `scan_tiles` adds these up over the tiles before, and `move_rows` writes each row to
// its place. So rows stay in ascending order, and neighbours are read together.

#define RUN_ROWS (TILE_ROWS / GROUP_SIZE)

static inline int goes_left(__global const Node* node, __global const ulong* lefts, uint bin)
{
    if (node->is_categorical)
        return (lefts[bin >> 6] >> (bin & 63)) & 1;
    return (bin - (uint)node->low < (uint)node->count) != node->inside_right;
}

KERNEL void find_sides(
    __global const Node* nodes,     // those from `first_node` on are split
    __global const ulong* lefts,    // (nodes, words): the bit sets of their splits
    uint words,
    uint first_node,
    uint n_nodes,
    __global const BIN* by_feature, // (columns, n_rows)
    uint n_rows,
    __global const uint* rows,      // (2, n_rows)
    __global const uint2* extents,
    __global uchar* is_left,        // (n_rows,), out, by the place in the list
    __global uint* tile_lefts)      // (tasks,), out
{
    __local uint scratch[GROUP_SIZE];
    int task = get_group_id(0);
    if (task >= nodes[first_node + n_nodes].first_task)
        return;
    uint number = first_node + node_of_task(nodes + first_node, n_nodes, task, scratch);
    __global const Node* node = nodes + number;
    uint2 extent = extents[node->place];
    __global const BIN* column = by_feature + (ulong)node->column * n_rows;
    __global const uint* own_rows = rows + (ulong)node->side * n_rows;
    __global const ulong* own_lefts = lefts + (ulong)number * words;
    uint begin = extent.x + (task - node->first_task) * TILE_ROWS;
    uint end = min(begin + TILE_ROWS, extent.y);
    uint count = 0;
    for (uint i = begin + get_local_id(0); i < end; i += GROUP_SIZE) {
        uint left = goes_left(node, own_lefts, column[own_rows[i]]);
        is_left[i] = left;
        count += left;
    }
    uint total;
    SYNC();
    scan_group(count, scratch, &total);
    if (get_local_id(0) == 0)
        tile_lefts[task] = total;
}

// The same, where a mask of all rows says which go left.
KERNEL void find_taken(
    __global const uchar* taken,
    uint n_rows,
    __global uchar* is_left,
    __global uint* tile_lefts)
{
    __local uint scratch[GROUP_SIZE];
    uint begin = get_group_id(0) * TILE_ROWS;
    uint end = min(begin + TILE_ROWS, n_rows);
    uint count = 0;
    for (uint i = begin + get_local_id(0); i < end; i += GROUP_SIZE) {
        is_left[i] = taken[i] != 0;
        count += taken[i] != 0;
    }
    uint total;
    scan_group(count, scratch, &total);
    if (get_local_id(0) == 0)
        tile_lefts[get_group_id(0)] = total;
}

// Replaces the counts of the tiles of each node by those of the tiles before, and
// writes the extents of the children. There is a work-group for each node.
KERNEL void scan_tiles(
    __global const Node* nodes,       // those without children have no tiles
    uint first_node,
    __global uint* tile_lefts,
    __global uint2* extents)
{
    __local uint scratch[GROUP_SIZE];
    __global const Node* node = nodes + first_node + get_group_id(0);
    if (node->left < 0)
        return;
    uint first = node->first_task;
    uint last = node[1].first_task;
    uint before = 0;
    for (uint begin = first; begin < last; begin += GROUP_SIZE) {
        uint i = begin + get_local_id(0);
        uint total;
        uint place = scan_group(i < last ? tile_lefts[i] : 0, scratch, &total);
        if (i < last)
            tile_lefts[i] = before + place;
        before += total;
    }
    if (get_local_id(0) == 0) {
        uint2 extent = extents[node->place];
        extents[node->left] = (uint2)(extent.x, extent.x + before);
        extents[node->left + 1] = (uint2)(extent.x + before, extent.y);
    }
}

KERNEL void move_rows(
    __global const Node* nodes,
    uint first_node,
    uint n_nodes,
    uint n_rows,
    __global uint* rows,
    __global const uint2* extents,
    __global const uchar* is_left,
    __global const uint* tile_lefts)
{
    __local uint scratch[GROUP_SIZE];
    int task = get_group_id(0);
    if (task >= nodes[first_node + n_nodes].first_task)
        return;
    __global const Node* node = nodes + first_node;
    node += node_of_task(node, n_nodes, task, scratch);
    uint2 extent = extents[node->place];
    __global const uint* source = rows + (ulong)node->side * n_rows;
    __global uint* target = rows + (ulong)(1 - node->side) * n_rows;
    uint tile = extent.x + (task - node->first_task) * TILE_ROWS;
    uint begin = min(tile + (uint)get_local_id(0) * RUN_ROWS, extent.y);
    uint end = min(begin + RUN_ROWS, extent.y);
    uint count = 0;
    for (uint i = begin; i < end; i++)
        count += is_left[i];
    uint total;
    SYNC();
    uint before = scan_group(count, scratch, &total) + tile_lefts[task];
    uint left = extent.x + before;
    uint right = extents[node->left + 1].x + (begin - extent.x - before);
    for (uint i = begin; i < end; i++) {
        // One of two places is written, and moves on.
        uint to_left = is_left[i];
        target[to_left ? left : right] = source[i];
        left += to_left;
        right += 1 - to_left;
    }
}
