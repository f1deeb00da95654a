"""How a tree grows, whatever its rows are stored in.

Thread 0 chooses the nodes to split: a level of them, or the leaf of the highest gain.
Their children get the constraints that follow from the splits above, and each node the
features that it may be split by.
"""

from __future__ import annotations

import numpy as np

from hornbeam.kernels.interactions import allow_together, extend_path
from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.leaves import bound_children, bound_nodes
from hornbeam.kernels.sampling import draw_columns
from hornbeam.kernels.split import write_leaf
from hornbeam.kernels.tree_tables import (
    BEGIN,
    DEPTH,
    END,
    FULL,
    HESSIAN,
    N_LEAVES,
    N_NODES,
    N_PENDING,
    N_QUEUE,
    N_SEARCHED,
    N_TASKS,
    NEXT,
    PARENT,
    SLOT,
    STATUS,
)

__all__ = [
    "add_children",
    "bound_new_nodes",
    "choose_nodes",
    "clear_leaves",
    "enter_root",
    "is_worthwhile",
    "list_nodes",
    "mask_features",
    "may_split",
    "push",
    "split_next",
    "store_sides",
    "store_splits",
]


@kernel
def enter_root(family, used, state):
    """Let a tree be its root alone, which the kernel of a tree continues."""
    state[:] = 0
    state[N_NODES] = state[N_LEAVES] = state[END] = 1
    state[STATUS] = FULL
    family[PARENT, 0] = family[SLOT, 0] = -1
    family[HESSIAN, 0] = family[DEPTH, 0] = 0
    for word in range(used.shape[1]):
        used[0, word] = 0


# The queue of lossguide: the highest gain comes first, of equal gains the lower node.


@inline
def _comes_first(splits, one, other):
    gain, other_gain = splits[one]["gain"], splits[other]["gain"]
    return gain > other_gain or (gain == other_gain and one < other)


@inline
def push(tables, node):
    """Add a node to the queue."""
    queue, splits = tables.queue, tables.splits
    place = tables.state[N_QUEUE]
    tables.state[N_QUEUE] += 1
    while place > 0 and _comes_first(splits, node, queue[(place - 1) // 2]):
        queue[place] = queue[(place - 1) // 2]
        place = (place - 1) // 2
    queue[place] = node


@inline
def _pop(tables):
    queue, splits = tables.queue, tables.splits
    first = queue[0]
    tables.state[N_QUEUE] -= 1
    size = tables.state[N_QUEUE]
    node = queue[size]
    place = np.int64(0)
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and _comes_first(splits, queue[child + 1], queue[child]):
            child += 1
        if not _comes_first(splits, queue[child], node):
            break
        queue[place] = queue[child]
        place = child
    queue[place] = node
    return first


@inline
def _splits_left(tables, rules):
    """Return how many more splits the tree may have."""
    if rules.max_leaves == 0:
        return np.int64(tables.nodes.size)
    return rules.max_leaves - tables.state[N_LEAVES]


@inline
def is_worthwhile(tables, node, rules):
    """Return whether the best split of a node has enough gain."""
    return tables.splits[node]["gain"] >= rules.gamma


@inline
def choose_nodes(tables, rules, batch):
    """Write the nodes to split next; return their number, or -1 without room."""
    state = tables.state
    most = _splits_left(tables, rules)
    room = (tables.nodes.size - state[N_NODES]) // 2
    if rules.lossguide:
        if state[N_QUEUE] == 0 or most <= 0:
            return np.int64(0)
        if room < 1:
            return np.int64(-1)
        batch[0] = _pop(tables)
        return np.int64(1)
    count = np.int64(0)
    for node in range(state[BEGIN], state[END]):
        if count < most and is_worthwhile(tables, node, rules):
            if count == room:
                return np.int64(-1)
            batch[count] = node
            count += 1
    return count


@inline
def add_children(node, tables):
    """Enter the children of a node that is split; they are the last nodes then."""
    family, left = tables.family, tables.state[N_NODES]
    split = tables.splits[node]
    extend_path(node, split["feature"], left, tables.used)
    for child in range(left, left + 2):
        family[PARENT, child] = node
        family[SLOT, child] = -1
        family[DEPTH, child] = family[DEPTH, node] + 1
    family[HESSIAN, left] = split["left_hessian"]
    family[HESSIAN, left + 1] = split["total_hessian"] - split["left_hessian"]
    tables.state[N_NODES] += 2


@kernel
def bound_new_nodes(parents, limits, tables):
    """Write the weights and the bounds of the children of split nodes.

    Where bounds follow the tree, those of all nodes are written anew: the children are
    the only nodes that grow.
    """
    own, count = limits.tables, tables.state[N_NODES]
    if limits.follows:
        for node in range(count):
            own.grows[node] = 0
    for i in range(parents.size):
        node = parents[i]
        split = tables.splits[node]
        left = tables.nodes[node]["left"]
        own.left[node] = left
        direction = limits.of_nodes.directions[split["feature"]]
        own.directions[node] = direction
        for side in range(2):
            own.left[left + side] = -1
            own.grows[left + side] = 1
        for column in range(own.weights.shape[1]):
            reach, bounds = own.reach[:, column], own.bounds[:, column]
            for side in range(2):
                weight = own.sides[node, column, side]
                own.weights[left + side, column] = weight
                reach[left + side, 0] = reach[left + side, 1] = weight
            bound_children(node, left, direction, True, reach, bounds)
    if limits.follows:
        for column in range(own.weights.shape[1]):
            for node in range(count):
                own.reach_below[node, 0] = own.reach[node, column, 0]
                own.reach_below[node, 1] = own.reach[node, column, 1]
                own.grows_below[node] = own.grows[node]
            bound_nodes(
                own.left[:count],
                own.directions[:count],
                True,
                own.reach_below[:count],
                own.grows_below[:count],
                own.bounds[:count, column],
            )


@inline
def store_sides(split, node, found, own):
    """Enter the weights of the children that a node would get.

    They are `found` in the columns of multi-output trees, otherwise in the split.
    """
    for column in range(own.weights.shape[1]):
        left, right = split["left_weight"], split["right_weight"]
        if found.size > 0:
            left, right = found[column, 0], found[column, 1]
        own.sides[node, column, 0] = left
        own.sides[node, column, 1] = right
        if split["gain"] > 0.0:
            reach = own.reach[node, column]
            reach[0] = min(reach[0], min(left, right))
            reach[1] = max(reach[1], max(left, right))


@inline
def may_split(node, rules, tables):
    """Return whether nodes of this depth may be split."""
    deep = rules.max_depth > 0 and tables.family[DEPTH, node] >= rules.max_depth
    return not deep and _splits_left(tables, rules) > 0


@inline
def mask_features(node, features, tables, scratch, allowed):
    """Write which features a node may use to the mask `allowed`.

    Returns the number of masks: none, which is not written then, stands for all.
    `scratch` is (3, features) uint64.
    """
    draws = features.draws
    draws_some = draws.by_level < 1.0 or draws.by_node < 1.0
    if draws_some:
        draw_columns(
            features.chosen,
            draws,
            tables.family[DEPTH, node],
            node,
            scratch,
            allowed,
        )
    # The root may use any feature: one without a group does not interact with others.
    has_group = features.groups.size > 0 and node > 0
    if has_group:
        if not draws_some:
            for feature in range(allowed.size):
                allowed[feature] = 1
        allow_together(tables.used[node], features.groups, allowed)
    return np.int64(draws_some or has_group)


@inline
def list_nodes(most, features, tables, buffers):
    """List the next nodes whose splits are searched, and what they may be split by."""
    state = tables.state
    begin, end = state[NEXT], min(state[NEXT] + most, state[END])
    masks = np.int64(0)
    for node in range(begin, end):
        # Without masks there is one row, which is not written.
        own = buffers.allowed[(node - begin) % buffers.allowed.shape[0]]
        masks += mask_features(node, features, tables, buffers.columns, own)
    state[NEXT], state[N_SEARCHED], state[N_TASKS] = end, end - begin, masks


@inline
def store_splits(found, found_sides, rules, limits, tables):
    """Store the best split of each node that has been searched."""
    state = tables.state
    first = state[NEXT] - state[N_SEARCHED]
    for i in range(state[N_SEARCHED]):
        node = first + i
        tables.splits[node] = found[i]
        if limits is not None:
            store_sides(tables.splits[node], node, found_sides[i], limits.tables)
        if rules.lossguide and is_worthwhile(tables, node, rules):
            push(tables, node)


@inline
def _enter_nodes(batch, count, tables):
    """Enter the children of the chosen nodes; these are the last nodes then."""
    state = tables.state
    state[BEGIN] = state[N_NODES]
    for i in range(count):
        left = state[N_NODES]
        tables.nodes[batch[i]]["left"] = left
        tables.nodes[left]["left"] = tables.nodes[left + 1]["left"] = -1
        add_children(batch[i], tables)
    state[N_LEAVES] += count
    state[END] = state[N_NODES]


@inline
def split_next(batch, rules, limits, tables):
    """Split the next nodes, where rows do not move; return the number of the batch.

    The rows of the batch are sent to the children next. Nodes whose children stay
    leaves wait: all of them are the last batch. Returns 0 where the tree is complete,
    -1 where the tables are full.
    """
    state = tables.state
    count = choose_nodes(tables, rules, batch)
    while count > 0:
        _enter_nodes(batch, count, tables)
        if may_split(state[BEGIN], rules, tables):
            if limits is not None:
                bound_new_nodes(batch[:count], limits, tables)
            state[NEXT] = state[BEGIN]
            return count
        state[BEGIN] = state[NEXT] = state[END]
        for i in range(count):
            tables.pending[state[N_PENDING] + i] = batch[i]
        state[N_PENDING] += count
        count = choose_nodes(tables, rules, batch)
    if count == 0:
        count = state[N_PENDING]
        for i in range(count):
            batch[i] = tables.pending[i]
        state[N_PENDING] = 0
    return count


@inline
def clear_leaves(tables):
    """Clear the splits of the nodes that stay leaves."""
    for node in range(tables.state[N_NODES]):
        if tables.nodes[node]["left"] < 0:
            write_leaf(tables.splits[node])
