"""What XGBoost's errors say, where Hornbeam's say it in other words.

Code matches on the words of errors, so an error of Hornbeam's begins with XGBoost's
words for it, where there are such.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from hornbeam.errors import HornbeamError

__all__ = ["FileError", "UnsupportedTypeError", "in_their_words"]

P = ParamSpec("P")
T = TypeVar("T")


class UnsupportedTypeError(HornbeamError, TypeError):
    """Data comes as an object of a type that cannot be read."""


class FileError(HornbeamError, OSError):
    """A file cannot be read or written."""


_FRAMES = (
    "DataFrame.dtypes for data must be int, float, bool or category. When categorical "
    "type is supplied, the experimental DMatrix parameter`enable_categorical` must be "
    "set to `True`.  Invalid columns:"
)
#: How an error of Hornbeam's begins, or what it holds, and XGBoost's words for it. They
#: may take up what the pattern has found.
_WORDS = {
    # Data
    r"cannot read features from this (.*?);": r"Not supported type for data.\1",
    r"features must be 2-d": "Please reshape the input data into 2-dimensional matrix.",
    r"there are categories or text in (.*?);": _FRAMES + r"\1",
    r"these columns hold neither numbers nor categories: (.*?);": _FRAMES + r"\1",
    r" holds -?inf in row ": "Input data contains `inf` or a value too large, while "
    "`missing` is not set to `inf`",
    r"^label is .* in row \d+ \(so": "Label contains NaN, infinity or a value too "
    "large.",
    r"^(label|base_margin) has .* for \d+ rows": r"Invalid size for `\1`.",
    r"^weight has .* for \d+ rows": "Invalid size of sample weight. Size of weights "
    "must equal to number of rows.",
    r"^batch .*: (label|base_margin) has .* for \d+ rows": r"Invalid size for `\1`.",
    r"^the .* has no batches, so": "Quantile DMatrix must have at least 1 batch.",
    r"^batch .*: it has \d+ columns, and the first": "Inconsistent number of columns.",
    r"no cuts before it is trained on": "The quantile cut hasn't been generated yet.",
    r"^feature_(names|types) has (\d+) entries for (\d+) columns": r"feature \1 must "
    r"have the same length as the number of data columns, expected \3, got \2",
    r"^feature names must differ.* once: (.*);": "feature_names must be unique. "
    r"Duplicates found: [\1]",
    r"^the feature name .* holds one of|^feature_names must be": "feature_names must "
    "be string, and may not contain [, ] or <",
    r"^feature_types has '.*' for column": "All feature_types must be one of {int, "
    "float, i, q, c}.",
    r"^there is no field '(.*?)'": r"Unknown key:\1",
    r"^the training data has no labels": "Invalid shape of labels.",
    r"weights must not be negative": "Weights must be positive values.",
    r"^group and qid are both": "Either one of `group` or `qid` should be None.",
    r"^the sizes in group add up to": "Invalid query group structure. The number of "
    "rows obtained from group doesn't equal to the number of rows.",
    r" needs whole grades from 0 to": "Relevance degress must be lesser than or equal "
    "to 31 when the exponential NDCG gain function is used. When using relevance "
    "degree as target, label must be either 0 or positive integer.",
    r"^qid is not sorted": "`qid` must be sorted in non-decreasing order along with "
    "data.",
    r"^this matrix has groups;": "slice does not support group structure",
    r"was made with max_bin=": "Inconsistent `max_bin`.",
    r"need the values themselves, and": "Only the `hist` tree method can use the "
    "`QuantileDMatrix`.",
    r"^the columns are not those of training; "
    r"(numbers|categories|strings|names of categories) (where|as)": "The data type "
    "doesn't match the one used in the training dataset. Both should be either numeric "
    "or categorical. For a categorical feature, the index type must match between the "
    "training and test set.",
    r"but a column of type 'c' holds codes": "Invalid categorical value detected.",
    r"^batch .* holds (numbers|categories), and": "Inconsistent number of categories "
    "between batches. Inconsistent feature types.",
    # Objectives
    r"is outside \[0, 1\]": "label must be in (0, 1) for logistic regression",
    r"is not above 0, and reg:gamma": "label must be positive for gamma regression.",
    r"is negative, and (count:poisson|reg:tweedie)": "label must be non-negative for "
    "Poisson/Tweedie regression.",
    r"is not above -1, as": "label must be greater than -1 for rmsle so that "
    "log(label + 1) can be valid.",
    r"is not a class of multi:": "SoftmaxMultiClassObj: label must be discrete values "
    "in the range of [0, num_class).",
    r"needs num_class.* it is (\d+)": r"value \1 for Parameter num_class should be "
    "greater equal to 1",
    r"^base_score=.* must be above 0 and below 1": "base_score must be in (0,1) for "
    "the logistic loss.",
    # Parameters
    r"^there is no objective '(.*?)'": r"Unknown objective function: `\1`",
    r"^eval_metric '(.*?)' is unknown": r"Unknown metric function \1",
    r"_constraints names .* no feature of": "Constrained features are not a subset of "
    "training data feature names",
    r"^monotone_constraints has .* numbers": "The size of monotone constraint should "
    "be less or equal to the number of features.",
    r"is split by category, which has": "Split value histogram doesn't support "
    "categorical split.",
    # Training
    r"needs labels of 1 for relevant rows": "map can only be used with binary labels.",
    r"has no labels to measure against": "label and prediction size not match",
    r"^a callback watches the data set '(.*?)'": r"No dataset named: \1",
    r"^a callback watches the metric '(.*?)'": r"No metric named: \1",
    r"^(gradients|hessians) have the shape": "The number of columns in gradient should "
    "be equal to the number of targets/classes in the model.",
    # Models
    r"^there is no file (.*)": r"Opening \1 failed: No such file or directory",
    r"^iteration_range=": "Out of range for tree layers.",
    r"^there are (\d+) columns in training.*, but this data has (\d+)": "Feature shape "
    r"mismatch, expected: \1, got \2. Number of columns does not match number of "
    "features in booster.",
    r"^this Booster has neither": "0 feature is supplied.  Are you using raw Booster "
    "interface?",
    r"^the format '(.*)' is unknown; give 'json' or": r"Unknown model format: `\1`.",
    r"^dump_format must be .*, not '(.*?)'": r"Unknown Model Builder:\1",
    r"^the importances of a model of booster='gblinear' are": "gblinear only has "
    "`weight` defined for feature importance.",
    r"^importance_type must be": "Unknown feature importance type",
    r"holds the category (.*), which training did not see": "Found a category not in "
    r"the training set: `\1`",
}
_PATTERNS = [
    (re.compile(pattern, re.DOTALL), words) for pattern, words in _WORDS.items()
]


def in_their_words(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function with errors that begin with XGBoost's words for them."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except HornbeamError as error:
            message = str(error)
            words = _words_of(message)
            if words is None or words in message:
                raise
            error.args = (f"{words}\n{message}",)
            if words.startswith("Not supported type"):
                raise UnsupportedTypeError(*error.args) from None
            raise
        except OSError as error:
            # An error of ours says more, and names no file of the system's.
            words = f"Opening {error.filename} failed: {error.strerror}"
            ours = f"No such file or directory\n{error}"
            message = words if error.filename else ours
            raise FileError(message) from error

    return call


def _words_of(message: str) -> str | None:
    for pattern, words in _PATTERNS:
        found = pattern.search(message)
        if found is not None:
            return found.expand(words) if "\\" in words else words
    return None
