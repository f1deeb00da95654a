"""XGBoost's error class, and its messages by error code.

Code that catches XGBoost's errors matches on their messages. So the message of an
error begins with XGBoost's message, if XGBoost has one, and continues with Hornbeam's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from hornbeam.errors import ErrorCode, HornbeamError

__all__ = [
    "FileError",
    "UnsupportedTypeError",
    "XGBoostError",
    "with_xgboost_messages",
]

P = ParamSpec("P")
T = TypeVar("T")

#: XGBoost's name of the base class of errors; a `ValueError`, as in XGBoost.
XGBoostError = HornbeamError


class UnsupportedTypeError(HornbeamError, TypeError):
    """Data is an object of an unsupported type."""


class FileError(HornbeamError, OSError):
    """A file cannot be read or written."""

    # Dask creates the errors of its workers anew by this method; the one of ValueError,
    # which would be inherited, refuses to.
    __new__ = OSError.__new__  # type: ignore[assignment]


_COLUMNS = (
    "DataFrame.dtypes for data must be int, float, bool or category. When categorical "
    "type is supplied, the experimental DMatrix parameter`enable_categorical` must be "
    "set to `True`.  Invalid columns:{columns}"
)
#: XGBoost's message for an error code. Fields in braces are filled from the details of
#: the error.
_MESSAGES = {
    # Features
    ErrorCode.UNSUPPORTED_DATA_TYPE: "Not supported type for data.{type}",
    ErrorCode.FEATURES_NOT_2D: "Please reshape the input data into 2-dimensional "
    "matrix.",
    ErrorCode.CATEGORICAL_NOT_ENABLED: _COLUMNS,
    ErrorCode.NON_NUMERIC_COLUMNS: _COLUMNS,
    ErrorCode.FEATURE_NOT_FINITE: "Input data contains `inf` or a value too large, "
    "while `missing` is not set to `inf`",
    ErrorCode.INVALID_CATEGORY_CODE: "Invalid categorical value detected.",
    ErrorCode.UNSEEN_CATEGORY: "Found a category not in the training set: `{category}`",
    ErrorCode.FEATURE_TYPES_MISMATCH: "The data type doesn't match the one used in the "
    "training dataset. Both should be either numeric or categorical. For a categorical "
    "feature, the index type must match between the training and test set.",
    ErrorCode.FEATURE_SHAPE_MISMATCH: "Feature shape mismatch, expected: {expected}, "
    "got {got}. Number of columns does not match number of features in booster.",
    ErrorCode.SCHEMA_LENGTH_MISMATCH: "feature {kind} must have the same length as the "
    "number of data columns, expected {expected}, got {got}",
    ErrorCode.DUPLICATE_FEATURE_NAMES: "feature_names must be unique. Duplicates "
    "found: [{names}]",
    ErrorCode.INVALID_FEATURE_NAME: "feature_names must be string, and may not contain "
    "[, ] or <",
    ErrorCode.INVALID_FEATURE_TYPE: "All feature_types must be one of {{int, float, i, "
    "q, c}}.",
    ErrorCode.CATEGORICAL_UNSUPPORTED: "{learner} doesn't support categorical "
    "features.",
    # Matrices and batches
    ErrorCode.NO_BATCHES: "Quantile DMatrix must have at least 1 batch.",
    ErrorCode.BATCH_COLUMNS_MISMATCH: "Inconsistent number of columns.",
    ErrorCode.BATCH_TYPES_MISMATCH: "Inconsistent number of categories between "
    "batches. Inconsistent feature types.",
    ErrorCode.CUTS_MISSING: "The quantile cut hasn't been generated yet.",
    ErrorCode.SLICE_OF_GROUPS: "slice does not support group structure",
    ErrorCode.MAX_BIN_MISMATCH: "Inconsistent `max_bin`.",
    ErrorCode.RAW_VALUES_NEEDED: "Only the `hist` tree method can use the "
    "`QuantileDMatrix`.",
    # Labels and meta info
    ErrorCode.UNKNOWN_FIELD: "Unknown key:{name}",
    ErrorCode.LABEL_MISSING: "Invalid shape of labels.",
    ErrorCode.LABEL_SIZE_MISMATCH: "Invalid size for `label`.",
    ErrorCode.LABEL_NOT_FINITE: "Label contains NaN, infinity or a value too large.",
    ErrorCode.BASE_MARGIN_SIZE_MISMATCH: "Invalid size for `base_margin`.",
    ErrorCode.WEIGHT_SIZE_MISMATCH: "Invalid size of sample weight. Size of weights "
    "must equal to number of rows. Size of weight must equal to the number of query "
    "groups when ranking group is used.",
    ErrorCode.WEIGHT_NOT_BY_GROUP: "Size of weight must equal to the number of query "
    "groups when ranking group is used.",
    ErrorCode.WEIGHT_NEGATIVE: "Weights must be positive values.",
    ErrorCode.GROUP_AND_QID: "Either one of `group` or `qid` should be None.",
    ErrorCode.GROUP_SIZES_MISMATCH: "Invalid query group structure. The number of rows "
    "obtained from group doesn't equal to the number of rows.",
    ErrorCode.QID_NOT_SORTED: "`qid` must be sorted in non-decreasing order along with "
    "data.",
    # Objectives
    ErrorCode.UNKNOWN_OBJECTIVE: "Unknown objective function: `{name}`",
    ErrorCode.LABEL_NOT_PROBABILITY: "label must be in (0, 1) for logistic regression",
    ErrorCode.GAMMA_LABEL_NOT_POSITIVE: "label must be positive for gamma regression.",
    ErrorCode.LABEL_NEGATIVE: "label must be non-negative for Poisson/Tweedie "
    "regression.",
    ErrorCode.LABEL_NOT_ABOVE_MINUS_ONE: "label must be greater than -1 for rmsle so "
    "that log(label + 1) can be valid.",
    ErrorCode.LABEL_NOT_A_CLASS: "SoftmaxMultiClassObj: label must be discrete values "
    "in the range of [0, num_class).",
    ErrorCode.LABEL_NOT_GRADE: "Relevance degress must be lesser than or equal to 31 "
    "when the exponential NDCG gain function is used. Set `ndcg_exp_gain` to false to "
    "use custom DCG gain. When using relevance degree as target, label must be either "
    "0 or positive integer.",
    ErrorCode.LABEL_NOT_RELEVANCE: "map can only be used with binary labels.",
    ErrorCode.INVALID_NUM_CLASS: "value {value} for Parameter num_class should be "
    "greater equal to 1",
    ErrorCode.BASE_SCORE_NOT_PROBABILITY: "base_score must be in (0,1) for the "
    "logistic loss.",
    # Parameters
    ErrorCode.UNKNOWN_METRIC: "Unknown metric function {name}",
    ErrorCode.CONSTRAINT_UNKNOWN_FEATURE: "Constrained features are not a subset of "
    "training data feature names",
    ErrorCode.MONOTONE_CONSTRAINTS_TOO_LONG: "The size of monotone constraint should "
    "be less or equal to the number of features.",
    # Training
    ErrorCode.EVAL_LABEL_MISSING: "label and prediction size not match",
    ErrorCode.UNKNOWN_EVAL_DATA: "No dataset named: {name}",
    ErrorCode.UNKNOWN_EVAL_METRIC: "No metric named: {name}",
    ErrorCode.GRADIENT_SHAPE_MISMATCH: "The number of columns in gradient should be "
    "equal to the number of targets/classes in the model.",
    # Groups of processes
    ErrorCode.TRACKER_NOT_BOUND: "Failed to bind socket.",
    ErrorCode.TRACKER_NOT_FOUND: "Failed to bootstrap the communication. Failed to "
    "connect to the tracker.",
    ErrorCode.GROUP_TOKEN_REFUSED: "Failed to bootstrap the communication.",
    ErrorCode.TRACKER_TIMEOUT: "Timeout waiting for the tracker.",
    ErrorCode.TRACKER_STOPPED: "Failed to accept connection.",
    # Models
    ErrorCode.FILE_NOT_FOUND: "Opening {path} failed: No such file or directory",
    ErrorCode.ITERATION_RANGE_OUT_OF_BOUNDS: "Out of range for tree layers.",
    ErrorCode.EMPTY_BOOSTER: "0 feature is supplied.  Are you using raw Booster "
    "interface?",
    ErrorCode.UNKNOWN_MODEL_FORMAT: "Unknown model format: `{format}`.",
    ErrorCode.UNKNOWN_DUMP_FORMAT: "Unknown Model Builder:{format}",
    ErrorCode.UNKNOWN_IMPORTANCE_TYPE: "Unknown feature importance type",
    ErrorCode.IMPORTANCE_UNSUPPORTED_BY_GBLINEAR: "gblinear only has `weight` defined "
    "for feature importance.",
    ErrorCode.CATEGORICAL_SPLIT_VALUES: "Split value histogram doesn't support "
    "categorical split.",
}


def with_xgboost_messages(function: Callable[P, T]) -> Callable[P, T]:
    """Return `function` with XGBoost's messages put before those of its errors."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except HornbeamError as error:
            message = str(error)
            prefix = _xgboost_message(error)
            if prefix is None or prefix in message:
                error.shorten()
                raise
            error.args = (f"{prefix}\n{message}",)
            if error.code == ErrorCode.UNSUPPORTED_DATA_TYPE:
                raise UnsupportedTypeError(
                    *error.args, code=error.code, **error.details
                ) from None
            error.shorten()
            raise
        except OSError as error:
            if error.filename:
                message = f"Opening {error.filename} failed: {error.strerror}"
            elif isinstance(error, FileNotFoundError):
                message = f"No such file or directory\n{error}"
            else:  # raised by Hornbeam, with a message of its own
                message = str(error)
            raise FileError(message, code=ErrorCode.FILE_NOT_READABLE) from error

    return call


def _xgboost_message(error: HornbeamError) -> str | None:
    """Return XGBoost's message for the code of an error; None if XGBoost has none."""
    message = _MESSAGES.get(error.code)
    return None if message is None else message.format_map(error.details)
