"""The sizes, sentinels and record types that kernels and their callers share."""

from __future__ import annotations

import numpy as np

__all__ = [
    "AVERAGE_PRECISION",
    "BEST_DTYPE",
    "BLOCK_ROWS",
    "BYTE_CELLS",
    "CART_DTYPE",
    "COARSE_GRADIENT_BITS",
    "COARSE_HESSIAN_BITS",
    "CODED_DTYPE",
    "COLUMN_DTYPE",
    "EDGE_DTYPE",
    "FEATURE_DTYPE",
    "GAIN",
    "JOIN_CELLS",
    "NODE_DTYPE",
    "PRECISION",
    "RUN_DTYPE",
    "SIZE_CLASSES",
    "SPLIT_DTYPE",
    "SUM_BITS",
    "TASK_ROWS",
    "WAYS_DTYPE",
]

#: Magnitude bits of a coarse gradient and of a coarse hessian. A sum over BLOCK_ROWS
#: rows then fits a signed and an unsigned 32-bit half of one int64.
COARSE_GRADIENT_BITS = 17
COARSE_HESSIAN_BITS = 18

#: Rows that may be added to a packed histogram before it is flushed to wide sums.
BLOCK_ROWS = 1 << 14

#: Packed cells of a feature whose codes are bytes.
BYTE_CELLS = 256

#: Magnitude bits of a sum over all rows in fixed point; one bit is left as margin.
SUM_BITS = 62

#: Cells of one task that adds histograms up or takes one from another.
JOIN_CELLS = 1 << 14

#: Rows of one task where a flat loop over rows is shared out among threads.
TASK_ROWS = 1 << 14

#: What the order of a list is judged by. Of pairs the first two say how much a swap
#: changes; by the third all pairs are alike.
GAIN, AVERAGE_PRECISION, PRECISION = range(3)

#: Classes of the sizes of gradients: non-negative float32 numbers that agree in the
#: exponent and in the first 8 bits of the mantissa.
SIZE_CLASSES = 1 << 16

#: Where a feature is found. Features may share a column of codes: one whose rows have
#: codes outside of ``low`` to ``low + bins`` misses the feature.
FEATURE_DTYPE = np.dtype(
    [
        ("column", np.int64),  # of codes
        ("low", np.int64),  # the code of its first bin
        ("bins", np.int64),
        ("cell", np.int64),  # of its first bin in a histogram
        ("is_categorical", np.int64),
    ]
)

#: A column of codes as rows hold it: a feature's, or those of several features in one.
COLUMN_DTYPE = np.dtype(
    [
        ("codes", np.int64),  # how many
        ("width", np.int64),  # in so many cells of a histogram each code is counted
        ("cell", np.int64),  # where that is one: the cell of the first code
        ("spread", np.int64),  # else where the list of the cells of its codes begins
    ]
)

#: The best split of a node. A gain of zero or less means that there is none.
SPLIT_DTYPE = np.dtype(
    [
        ("gain", np.float64),
        ("left_gradient", np.int64),
        ("left_hessian", np.int64),
        ("total_gradient", np.int64),
        ("total_hessian", np.int64),
        ("feature", np.int32),
        # The last bin that goes left; -1: only the missing do. Of categories a set
        # beside the split says which go right.
        ("bin", np.int32),
        # Only from an exact search, where bins are values: the first of the node's
        # that goes right; -1: only the missing do.
        ("next_bin", np.int32),
        ("missing_left", np.int32),
        ("is_categorical", np.int32),
        # Only where the search was limited: what the children weigh, and the rows.
        ("left_weight", np.float64),
        ("right_weight", np.float64),
        ("left_rows", np.int64),
        ("total_rows", np.int64),
    ],
    align=True,
)

#: What is known of a node where rows are. Its own lie together, on one of two sides.
NODE_DTYPE = np.dtype(
    [
        ("side", np.int64),
        ("begin", np.int64),
        ("end", np.int64),
        ("left", np.int64),  # the left child, the right one follows; -1 at leaves
        ("column", np.int64),  # of the codes that tell left from right
        ("low", np.int64),  # codes from here on
        ("count", np.int64),  # so many
        ("inside_right", np.int64),  # go right, and all others left; or the reverse
        ("is_categorical", np.int64),  # a set of codes goes left instead
    ]
)

#: A node of a tree that was grown whole.
CART_DTYPE = np.dtype(
    [
        ("left", np.int32),  # the left child, the right one follows; -1 at leaves
        ("parent", np.int32),  # -1 at the root
        ("depth", np.int32),
        ("feature", np.int32),  # -1 at leaves
        ("bin", np.int32),  # the last code that goes left
        ("next_bin", np.int32),  # the node's first that goes right; -1: the missing do
        ("missing_left", np.int32),
        ("n_categories", np.int32),  # that go right, and where their list begins
        ("first_category", np.int64),
        ("begin", np.int64),  # of the rows that came here
        ("end", np.int64),
        ("threshold", np.float64),  # where it was drawn, else NaN
        ("gain", np.float64),  # how much less impure the children are, by weight
    ],
    align=True,
)

#: The best split of such a node.
BEST_DTYPE = np.dtype(
    [
        ("score", np.float64),
        ("threshold", np.float64),
        ("feature", np.int32),
        ("bin", np.int32),
        ("next_bin", np.int32),
        ("missing_left", np.int32),
    ],
    align=True,
)

#: An edge of a tree, from a split down to one of its children.
#: `hornbeam.forest.tree_paths` says in which order they come.
EDGE_DTYPE = np.dtype(
    [
        ("parent", np.int64),  # the places of both ends in a layout
        ("child", np.int64),
        ("feature", np.int64),  # of the split
        ("level", np.int64),  # edges from the root down to here, this one included
        ("above", np.int64),  # level of the last edge by the same feature; 0: none
        ("bit", np.int64),  # the number of its feature among those from the root down
        ("features", np.int64),  # how many those are, this one included
        # The part of the rows that takes this edge and all those by the same feature
        # above, out of those that come to them; and the part without this edge.
        ("share", np.float64),
        ("share_above", np.float64),
        ("is_right", np.int64),
        ("is_leaf", np.int64),  # whether it ends in one
    ],
    align=True,
)

#: The edges of one tree.
WAYS_DTYPE = np.dtype(
    [
        ("begin", np.int64),
        ("end", np.int64),
        ("points", np.int64),  # at which its integrals are taken
        ("output", np.int64),  # -1: all
    ],
    align=True,
)

#: Trees that compare the same codes.
RUN_DTYPE = np.dtype(
    [
        ("begin", np.int64),  # the first tree, and the one after the last
        ("end", np.int64),
        ("first_column", np.int64),  # of their codes, and the one after the last
        ("end_column", np.int64),
    ]
)

#: A column of such codes: a feature, with the missing on one side of all splits.
CODED_DTYPE = np.dtype(
    [
        ("feature", np.int64),
        ("first_cut", np.int64),  # of 2 ** steps: the first is not used
        ("steps", np.int64),  # of the search among them
        ("missing_code", np.int64),
    ]
)
