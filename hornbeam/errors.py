"""The exceptions and their codes.

Each message says what is wrong, where, and how to correct it. Each error has a stable
`ErrorCode`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from enum import StrEnum, auto
from functools import wraps
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

__all__ = [
    "ClusterError",
    "DataError",
    "DeviceError",
    "ErrorCode",
    "HornbeamError",
    "MissingExtraError",
    "ModelFileError",
    "NotTrainedError",
    "ParameterError",
    "require",
    "short_traceback",
]

P = ParamSpec("P")
T = TypeVar("T")


class ErrorCode(StrEnum):
    """The stable code of each kind of error: the name of the member in lower case.

    Messages may change from one version to the next; codes do not.
    """

    # General
    HORNBEAM_ERROR = auto()

    # Parameters
    INVALID_PARAMETER = auto()
    UNKNOWN_PARAMETER = auto()
    INVALID_PARAMETER_TYPE = auto()
    PARAMETER_OUT_OF_RANGE = auto()
    UNKNOWN_OPTION = auto()
    MISSING_PARAMETER = auto()
    CONFLICTING_PARAMETERS = auto()
    INEFFECTIVE_PARAMETER = auto()
    UNSUPPORTED_PARAMETER_VALUE = auto()
    INVALID_CONFIGURATION = auto()
    MODEL_PARAMETER_MISMATCH = auto()
    BASE_SCORE_NOT_PROBABILITY = auto()
    BASE_SCORE_NOT_POSITIVE = auto()
    MONOTONE_CONSTRAINTS_TOO_LONG = auto()
    CONSTRAINT_UNKNOWN_FEATURE = auto()

    # Combinations that are not supported
    UNSUPPORTED_COMBINATION = auto()
    UNSUPPORTED_ON_CLUSTER = auto()
    CATEGORICAL_UNSUPPORTED = auto()

    # Objectives and metrics
    UNKNOWN_OBJECTIVE = auto()
    INVALID_NUM_CLASS = auto()
    OBJECTIVE_ESTIMATOR_MISMATCH = auto()
    INVALID_CUSTOM_OBJECTIVE = auto()
    INVALID_FORMULA = auto()
    UNKNOWN_METRIC = auto()
    INVALID_METRIC_PARAMETER = auto()
    METRIC_OBJECTIVE_MISMATCH = auto()
    INVALID_CUSTOM_METRIC = auto()
    EVALUATION_SIZE_MISMATCH = auto()

    # Features
    INVALID_DATA = auto()
    EMPTY_DATA = auto()
    UNSUPPORTED_DATA_TYPE = auto()
    UNSUPPORTED_ELEMENT_TYPE = auto()
    NON_NUMERIC_COLUMNS = auto()
    INTEGER_NOT_EXACT = auto()
    FEATURES_NOT_2D = auto()
    WRONG_DIMENSIONS = auto()
    FEATURE_NOT_FINITE = auto()
    NOT_A_DMATRIX = auto()
    INVALID_ROW_INDEX = auto()
    SLICE_OF_GROUPS = auto()
    INVALID_REF = auto()
    MAX_BIN_MISMATCH = auto()
    CUTS_MISSING = auto()
    RAW_VALUES_NEEDED = auto()
    RAW_VALUES_DROPPED = auto()

    # Feature names, feature types and columns
    INVALID_FEATURE_NAME = auto()
    DUPLICATE_FEATURE_NAMES = auto()
    INVALID_FEATURE_TYPE = auto()
    FEATURE_TYPE_CONFLICT = auto()
    SCHEMA_LENGTH_MISMATCH = auto()
    FEATURE_SHAPE_MISMATCH = auto()
    FEATURE_COUNT_MISMATCH = auto()
    FEATURE_NAMES_MISMATCH = auto()
    FEATURE_TYPES_MISMATCH = auto()
    UNKNOWN_FEATURE = auto()
    COLUMN_NOT_FOUND = auto()

    # Categories
    CATEGORICAL_NOT_ENABLED = auto()
    INVALID_FEATURE_FORMULA = auto()
    DERIVED_FEATURES_MISMATCH = auto()
    UNKNOWN_TIME_ZONE = auto()
    INVALID_CATEGORY_CODE = auto()
    UNSEEN_CATEGORY = auto()
    UNSEEN_CATEGORY_CODE = auto()
    INVALID_CATEGORIES = auto()

    # Labels
    LABEL_MISSING = auto()
    LABEL_SIZE_MISMATCH = auto()
    LABEL_TARGETS_MISMATCH = auto()
    LABEL_NOT_FINITE = auto()
    LABEL_OUT_OF_DOMAIN = auto()
    LABEL_NOT_PROBABILITY = auto()
    LABEL_NOT_A_CLASS = auto()
    LABEL_NEGATIVE = auto()
    GAMMA_LABEL_NOT_POSITIVE = auto()
    LABEL_NOT_ABOVE_MINUS_ONE = auto()
    LABEL_NOT_GRADE = auto()
    LABEL_NOT_RELEVANCE = auto()
    LABEL_NOT_IN_TRAINING = auto()
    CLASSES_NOT_CONSECUTIVE = auto()

    # Weights, base margins, groups and other meta info
    UNKNOWN_FIELD = auto()
    META_INFO_MISSING = auto()
    META_INFO_GIVEN_TWICE = auto()
    META_INFO_SETTLED = auto()
    META_INFO_SIZE_MISMATCH = auto()
    META_INFO_NOT_NUMERIC = auto()
    META_INFO_NOT_FINITE = auto()
    WEIGHT_SIZE_MISMATCH = auto()
    WEIGHT_NEGATIVE = auto()
    WEIGHTS_ALL_ZERO = auto()
    WEIGHT_NOT_BY_GROUP = auto()
    BASE_MARGIN_SIZE_MISMATCH = auto()
    BASE_MARGIN_OUTPUTS_MISMATCH = auto()
    GROUPS_MISSING = auto()
    GROUP_AND_QID = auto()
    INVALID_GROUPS = auto()
    GROUP_SIZES_MISMATCH = auto()
    QID_NOT_SORTED = auto()

    # Files, sources and batches
    FILE_NOT_FOUND = auto()
    FILE_NOT_READABLE = auto()
    FILES_MISMATCH = auto()
    FOLDER_NOT_FOUND = auto()
    NO_FILES = auto()
    UNKNOWN_FILE_FORMAT = auto()
    INVALID_NAME = auto()
    INVALID_URI = auto()
    INVALID_QUERY = auto()
    INVALID_DMATRIX_FILE = auto()
    UNSUPPORTED_SOURCE = auto()
    SOURCE_CHANGED = auto()
    INVALID_BATCH = auto()
    NO_BATCHES = auto()
    BATCH_COLUMNS_MISMATCH = auto()
    BATCH_NAMES_MISMATCH = auto()
    BATCH_TYPES_MISMATCH = auto()
    BATCH_FIELD_MISMATCH = auto()

    # External memory
    NOT_ENOUGH_MEMORY = auto()
    MEMORY_LIMIT_TOO_SMALL = auto()
    INVALID_CACHE_FOLDER = auto()
    CACHE_FOLDER_IN_USE = auto()
    CACHE_FOLDER_NOT_WRITABLE = auto()
    CACHE_MISMATCH = auto()
    CACHE_DAMAGED = auto()
    DISK_FULL = auto()

    # Training
    INVALID_EVALS = auto()
    EVALS_MISSING = auto()
    EVAL_LABEL_MISSING = auto()
    INVALID_GRADIENT = auto()
    GRADIENT_SHAPE_MISMATCH = auto()
    GRADIENT_SIZE_MISMATCH = auto()
    FLOAT_OVERFLOW = auto()
    NOTHING_TO_LEARN = auto()
    INVALID_CALLBACK = auto()
    UNKNOWN_EVAL_DATA = auto()
    UNKNOWN_EVAL_METRIC = auto()
    UNKNOWN_SCORE = auto()
    INVALID_FOLDS = auto()

    # Models and prediction
    NOT_TRAINED = auto()
    EMPTY_BOOSTER = auto()
    NOT_A_MODEL = auto()
    MODEL_OUTPUTS_MISMATCH = auto()
    MODELS_NOT_MERGEABLE = auto()
    INVALID_ITERATION_RANGE = auto()
    ITERATION_RANGE_OUT_OF_BOUNDS = auto()
    CONFLICTING_PREDICTION_TYPES = auto()
    PREDICTION_UNSUPPORTED_BY_OBJECTIVE = auto()
    CUSTOM_TRANSFORM_MISSING = auto()
    CONFORMAL_SCORES_MISSING = auto()
    CONFORMAL_TOO_FEW_ROWS = auto()
    CONFORMAL_UNKNOWN_GROUP = auto()
    UNKNOWN_IMPORTANCE_TYPE = auto()
    IMPORTANCE_UNSUPPORTED_BY_GBLINEAR = auto()
    UNKNOWN_DUMP_FORMAT = auto()
    INVALID_DOT_STYLE = auto()
    INVALID_FEATURE_MAP = auto()
    CATEGORICAL_SPLIT_VALUES = auto()

    # Model files
    INVALID_MODEL_FILE = auto()
    UNKNOWN_MODEL_FORMAT = auto()
    MODEL_FILE_NOT_PARSABLE = auto()
    MODEL_FILE_CHECKSUM_MISMATCH = auto()
    MODEL_FILE_UNSUPPORTED = auto()
    MODEL_FILE_ESTIMATOR_MISMATCH = auto()
    MODEL_FILE_MISSING_KEY = auto()
    MODEL_FILE_UNKNOWN_KEY = auto()
    MODEL_FILE_WRONG_TYPE = auto()
    MODEL_FILE_INVALID_NUMBER = auto()
    MODEL_FILE_INVALID_CATEGORIES = auto()
    MODEL_FILE_INVALID_OBJECTIVE = auto()
    MODEL_FILE_INVALID_TREE = auto()
    MODEL_FILE_INCONSISTENT = auto()

    # Explanations and plots
    AMBIGUOUS_OUTPUT = auto()
    NO_SPLITS = auto()
    INVALID_PREDICTIONS = auto()
    CLASS_NAMES_MISMATCH = auto()
    PICTURE_TOO_LARGE = auto()

    # Export
    NOT_EXPORTABLE = auto()

    # Clusters
    CLUSTER_FAILURE = auto()
    INVALID_CLIENT = auto()
    SCHEDULER_LOST = auto()
    WORKERS_LOST = auto()
    TOO_FEW_SLOTS = auto()
    WORKER_VERSION_MISMATCH = auto()
    UNSUPPORTED_COLLECTION = auto()
    PARTITION_LOST = auto()
    PARTITION_SIZE_MISMATCH = auto()
    PARTITION_COLUMNS_MISMATCH = auto()
    GROUP_FAILED = auto()
    GROUP_TOKEN_REFUSED = auto()
    TRACKER_NOT_BOUND = auto()
    TRACKER_NOT_FOUND = auto()
    TRACKER_STOPPED = auto()
    SPARK_CONNECT = auto()
    JAVA_MISSING = auto()
    TRACKER_TIMEOUT = auto()

    # OpenCL devices
    DEVICE_NOT_FOUND = auto()
    DEVICE_NOT_SUPPORTED = auto()
    DEVICE_OUT_OF_MEMORY = auto()
    DEVICE_FAILED = auto()

    # Optional packages and programs
    MISSING_EXTRA = auto()
    MISSING_KERNEL = auto()
    GRAPHVIZ_MISSING = auto()
    XGBOOST_ALREADY_IMPORTED = auto()


class HornbeamError(ValueError):
    """Base class of the errors that Hornbeam raises for invalid input.

    Parameters
    ----------
    message
        What is wrong, where, and how to correct it.
    code
        The error code; by default that of the class.
    details
        Values in the message, such as the name of an unknown parameter.

    Attributes
    ----------
    code
        The error code.
    details
        The values in the message, by name.

    Examples
    --------
    >>> import hornbeam
    >>> data = hornbeam.DMatrix([[1.0], [2.0]], label=[0, 1])
    >>> try:
    ...     hornbeam.train({"max_dept": 3}, data)
    ... except hornbeam.HornbeamError as error:
    ...     print(error.code, error, sep=": ")
    unknown_parameter: unknown parameter 'max_dept'; did you mean 'max_depth'?
    """

    code: ErrorCode = ErrorCode.HORNBEAM_ERROR
    details: dict[str, Any]

    def __init__(
        self, message: str = "", *, code: ErrorCode | None = None, **details: Any
    ) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code
        self.details = details

    def shorten(self) -> None:
        """Remove the frames that the error came through, before it is raised again.

        Functions that a wrapper would slow or hide call it themselves (see
        `short_traceback`).
        """
        self.__traceback__ = None


def short_traceback(function: Callable[P, T]) -> Callable[P, T]:
    """Return `function` with errors of bad input raised from its call.

    Frames inside of Hornbeam say nothing of the input. The cause of an error is kept.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except HornbeamError as error:
            error.shorten()
            raise

    return call


class ParameterError(HornbeamError):
    """A parameter is unknown, out of range, or in conflict with another."""

    code = ErrorCode.INVALID_PARAMETER


class DataError(HornbeamError):
    """Features, labels, weights or other data are invalid."""

    code = ErrorCode.INVALID_DATA


class ModelFileError(HornbeamError):
    """A model file is damaged, edited, or not supported by Hornbeam."""

    code = ErrorCode.INVALID_MODEL_FILE


class NotTrainedError(HornbeamError):
    """An operation needs a trained model."""

    code = ErrorCode.NOT_TRAINED


class ClusterError(HornbeamError):
    """A cluster has failed: its scheduler, workers or processes, or partitions."""

    code = ErrorCode.CLUSTER_FAILURE


class DeviceError(HornbeamError):
    """An OpenCL device is missing, too small, or has failed."""

    code = ErrorCode.DEVICE_FAILED


class MissingExtraError(HornbeamError, ImportError):
    """An optional dependency is not installed; the message names the extra."""

    code = ErrorCode.MISSING_EXTRA


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Return the imported `module`, or raise an error that names its extra.

    Parameters
    ----------
    module
        The dotted name, such as ``"matplotlib.pyplot"``.
    extra
        The extra of Hornbeam that installs it.
    purpose
        The feature that needs it, as the subject of a sentence.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtraError(
            f"{purpose} needs the package {package!r}, which is not installed; "
            f'install it with: pip install "hornbeam[{extra}]"',
            code=ErrorCode.MISSING_EXTRA,
        ) from error
