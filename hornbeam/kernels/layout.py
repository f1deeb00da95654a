"""Sizes, sentinels and record types that kernels and their callers share."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

__all__ = [
    "ADD",
    "AVERAGE_PRECISION",
    "BEST_DTYPE",
    "BINNED_COLUMN_DTYPE",
    "BLOCK_ROWS",
    "BYTE_BINS",
    "CART_DTYPE",
    "CATEGORY_SETS",
    "COARSE_GRADIENT_BITS",
    "COARSE_HESSIAN_BITS",
    "COLUMN_DTYPE",
    "EDGE_DTYPE",
    "FEATURE_DTYPE",
    "GAIN",
    "JOIN_BINS",
    "NODE_DTYPE",
    "ONE_CATEGORY",
    "PACK",
    "PATHS_DTYPE",
    "PRECISION",
    "REPLACE",
    "RUN_DTYPE",
    "SIZE_CLASSES",
    "SPLIT_DTYPE",
    "SUM_BITS",
    "TASK_ROWS",
    "TERM_DTYPE",
    "SplitRules",
]


class SplitRules(NamedTuple):
    """The regularisation of splits and leaf weights, as kernels take it.

    All fields are floats, so that kernels are compiled for one type only.

    Attributes
    ----------
    reg_lambda, reg_alpha
        The L2 and L1 penalties on leaf weights.
    max_delta_step
        The largest magnitude of a leaf weight; 0: unlimited.
    min_child_weight
        The least sum of hessians of a child.
    max_cat_to_onehot
        Features of fewer categories are split one category against the rest.
    max_cat_threshold
        The most categories on one side of a split of sorted categories.
    min_samples_leaf
        The least number of rows of a child.
    path_smooth
        How strongly a child's weight is pulled towards its parent's; 0: not at all.
    cat_smooth
        Added to the L2 penalty in the weights that categories are sorted by.
    cat_l2
        Added to the L2 penalty of the children of splits of sorted categories.
    min_category_weight
        The least sum of hessians of a category that is sorted.
    min_group_weight
        The least sum of hessians of the categories between two cuts that are tried,
        and of what is beyond the last of them; 0: all cuts are tried.
    """

    reg_lambda: float
    reg_alpha: float
    max_delta_step: float
    min_child_weight: float
    max_cat_to_onehot: float = 4.0
    max_cat_threshold: float = 64.0
    min_samples_leaf: float = 0.0
    path_smooth: float = 0.0
    cat_smooth: float = 0.0
    cat_l2: float = 0.0
    min_category_weight: float = -math.inf
    min_group_weight: float = 0.0


#: Magnitude bits of a coarse gradient and of a coarse hessian. The sums over BLOCK_ROWS
#: rows then fit a signed and an unsigned 32-bit half of one int64.
COARSE_GRADIENT_BITS = 17
COARSE_HESSIAN_BITS = 18

#: The most rows added to a packed histogram before it is flushed to wide sums.
BLOCK_ROWS = 1 << 14

#: Packed histogram bins of a column whose bin indices are bytes.
BYTE_BINS = 256

#: Magnitude bits of a fixed-point sum over all rows; one bit is left as a reserve.
SUM_BITS = 62

#: What the sums of a task do to a histogram: replace it, add to it, or replace it by a
#: packed one.
REPLACE, ADD, PACK = range(3)

#: Histogram bins of one task that adds or subtracts histograms.
JOIN_BINS = 1 << 12

#: Rows of one task of a flat loop over rows that threads share.
TASK_ROWS = 1 << 12

#: The metrics of a ranked list: NDCG, average precision and precision. The first two
#: give the change of the metric when a pair is swapped; for the third it is constant.
GAIN, AVERAGE_PRECISION, PRECISION = range(3)

#: The splits by category, as `is_categorical` of a split has them: one category against
#: the others, and two sets of sorted ones.
ONE_CATEGORY, CATEGORY_SETS = 1, 2

#: Classes of gradient magnitudes: non-negative float32 numbers that agree in the
#: exponent and in the first 8 bits of the mantissa.
SIZE_CLASSES = 1 << 16

#: Position of a feature in bin columns and histograms. Features may share a column of
#: bin indices (EFB): a row whose index is outside of ``low`` to ``low + bins`` has no
#: value of the feature.
FEATURE_DTYPE = np.dtype(
    [
        ("column", np.int64),  # of bin indices
        ("low", np.int64),  # the column's index of the feature's first bin
        ("bins", np.int64),
        ("cell", np.int64),  # the histogram position of its first bin
        ("is_categorical", np.int64),
    ]
)

#: A stored column of bin indices: of one feature, or of several packed features.
COLUMN_DTYPE = np.dtype(
    [
        ("n_bins", np.int64),  # the number of different values
        ("width", np.int64),  # histogram bins that each value is added to
        ("cell", np.int64),  # width 1: the histogram bin of the first value
        ("spread", np.int64),  # else: where the list of its histogram bins begins
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
        # The last bin that goes left; -1: only missing values do. Splits by category
        # have a separate bit set of the categories that go right.
        ("bin", np.int32),
        # Only from an exact search, where bins are values: the node's first value
        # that goes right; -1: only missing values do.
        ("next_bin", np.int32),
        ("missing_left", np.int32),
        ("is_categorical", np.int32),  # 0, ONE_CATEGORY or CATEGORY_SETS
        # Only under `NodeConstraints`: the weights of the children, and the rows.
        ("left_weight", np.float64),
        ("right_weight", np.float64),
        ("left_rows", np.int64),
        ("total_rows", np.int64),
    ],
    align=True,
)

#: The rows of a node, contiguous in one of two buffers (sides), and its split.
NODE_DTYPE = np.dtype(
    [
        ("side", np.int64),
        ("begin", np.int64),
        ("end", np.int64),
        ("left", np.int64),  # the left child, the right one follows; -1 at leaves
        ("column", np.int64),  # the column of bin indices of the split
        # Bin indices in ``low`` to ``low + count`` go right if `inside_right`, and
        # all others left; or the reverse.
        ("low", np.int64),
        ("count", np.int64),
        ("inside_right", np.int64),
        ("is_categorical", np.int64),  # a bit set of bin indices goes left instead
    ]
)

#: A node of a CART tree.
CART_DTYPE = np.dtype(
    [
        ("left", np.int32),  # the left child, the right one follows; -1 at leaves
        ("parent", np.int32),  # -1 at the root
        ("depth", np.int32),
        ("feature", np.int32),  # -1 at leaves
        ("bin", np.int32),  # the last bin that goes left
        # The node's first bin that goes right; -1: only missing values do.
        ("next_bin", np.int32),
        ("missing_left", np.int32),
        ("n_categories", np.int32),  # that go right, and the begin of their list
        ("first_category", np.int64),
        ("begin", np.int64),  # of the node's rows
        ("end", np.int64),
        ("threshold", np.float64),  # if it was drawn at random, else NaN
        ("gain", np.float64),  # the decrease of the weighted impurity
    ],
    align=True,
)

#: The best split of a CART node.
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
        ("parent", np.int64),  # the positions of both ends in a layout
        ("child", np.int64),
        ("feature", np.int64),  # of the split
        ("level", np.int64),  # edges from the root down to here, this one included
        ("above", np.int64),  # level of the last edge by the same feature; 0: none
        ("bit", np.int64),  # the number of its feature among those from the root down
        ("features", np.int64),  # the number of those features, this one included
        # The product of the cover ratios of this edge and all edges by the same
        # feature above it; and the product without this edge.
        ("share", np.float64),
        ("share_above", np.float64),
        ("is_right", np.int64),
        ("is_leaf", np.int64),  # whether it ends in a leaf
    ],
    align=True,
)

#: The edges of one tree.
PATHS_DTYPE = np.dtype(
    [
        ("begin", np.int64),
        ("end", np.int64),
        ("points", np.int64),  # quadrature points of its integrals
        ("output", np.int64),  # -1: all
    ],
    align=True,
)

#: Consecutive trees that compare the same bin indices.
RUN_DTYPE = np.dtype(
    [
        ("begin", np.int64),  # the first tree, and the one after the last
        ("end", np.int64),
        ("first_column", np.int64),  # of bin indices, and the one after the last
        ("end_column", np.int64),
    ]
)

#: A column of such bin indices: a feature whose missing values take one side.
BINNED_COLUMN_DTYPE = np.dtype(
    [
        ("feature", np.int64),
        ("first_cut", np.int64),  # of 2 ** steps: the first is not used
        ("steps", np.int64),  # of the search among them
        ("missing_code", np.int64),
    ]
)

#: A term of a linear leaf: ``slope * (min(max(x, low), high) - centre)``; 0 where the
#: feature x is missing.
TERM_DTYPE = np.dtype(
    [
        ("feature", np.int64),
        ("slope", np.float64),
        ("centre", np.float64),  # the mean of the leaf's training rows
        ("low", np.float64),  # the range of these rows
        ("high", np.float64),
    ]
)
