"""The names of the module `xgboost.core`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

import numpy.typing as npt

from hornbeam.errors import ErrorCode
from hornbeam.xgboost._typing import (
    ArrayLike,
    ArrowCatList,
    BoosterParam,
    DataType,
    FeatureInfo,
    FeatureNames,
    FeatureTypes,
    Integer,
    IterationRange,
    ModelIn,
    NumpyOrCupy,
    PathLike,
    TransformedData,
    c_bst_ulong,
)
from hornbeam.xgboost.booster import Booster
from hornbeam.xgboost.categories import Categories
from hornbeam.xgboost.compat import (
    import_polars,
    import_pyarrow,
    is_pandas_available,
    is_pyarrow_available,
    py_str,
)
from hornbeam.xgboost.data import DataIter
from hornbeam.xgboost.deprecation import (
    deprecate_positional_args,
    require_keyword_args,
)
from hornbeam.xgboost.dmatrix import (
    DataSplitMode,
    DMatrix,
    ExtMemQuantileDMatrix,
    QuantileDMatrix,
)
from hornbeam.xgboost.error_messages import XGBoostError
from hornbeam.xgboost.objective import Objective, TreeObjective

__all__ = [
    "ArrayLike",
    "ArrowCatList",
    "Booster",
    "BoosterParam",
    "Categories",
    "CustomObj",
    "DMatrix",
    "DataIter",
    "DataSplitMode",
    "DataType",
    "ExtMemQuantileDMatrix",
    "FeatureInfo",
    "FeatureNames",
    "FeatureTypes",
    "Integer",
    "IterationRange",
    "Metric",
    "ModelIn",
    "NumpyOrCupy",
    "Objective",
    "PathLike",
    "PlainObj",
    "QuantileDMatrix",
    "TransformedData",
    "TreeObjective",
    "XGBoostError",
    "build_info",
    "c_bst_ulong",
    "import_polars",
    "import_pyarrow",
    "is_pandas_available",
    "is_pyarrow_available",
    "py_str",
    "require_keyword_args",
]

#: A function of (predictions, matrix) that returns gradients and hessians.
PlainObj: TypeAlias = Callable[
    [npt.NDArray[Any], DMatrix], tuple[npt.NDArray[Any], npt.NDArray[Any]]
]
#: A function of (predictions, matrix) that returns the metric's name and value.
Metric: TypeAlias = Callable[[npt.NDArray[Any], DMatrix], tuple[str, float]]

#: A custom objective of `train`.
CustomObj: TypeAlias = PlainObj | Objective

_deprecate_positional_args = deprecate_positional_args


def _parse_eval_str(result: str) -> list[tuple[str, float]]:
    """Return the names and values of a line of `Booster.eval_set`."""
    pairs = [score.split(":") for score in result.split()[1:]]
    return [(name, float(value)) for name, value in pairs]


class _NoLibrary:
    """Stands for XGBoost's compiled library.

    Packages look up its functions to learn that XGBoost is installed, and recent.
    """

    def __getattr__(self, name: str) -> Callable[..., NoReturn]:
        if not name.startswith(("XGB", "XGD")):
            raise AttributeError(name)

        def call(*args: Any) -> NoReturn:
            raise XGBoostError(
                f"hornbeam.xgboost has no compiled library that {name} could be called "
                "in; use the classes and functions of the package",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )

        return call


_LIB = _NoLibrary()


def build_info() -> dict[str, Any]:
    """Return XGBoost's build flags.

    All flags of parts that are compiled into XGBoost's library are False.
    """
    return {
        "BUILTIN_PREFETCH_PRESENT": True,
        "DEBUG": False,
        "GCC_VERSION": [0, 0, 0],
        "MM_PREFETCH_PRESENT": True,
        "USE_CUDA": False,
        "USE_DLOPEN_NCCL": False,
        "USE_FEDERATED": False,
        "USE_NCCL": False,
        "USE_OPENMP": False,
        "USE_RMM": False,
        "libxgboost": __file__,
    }
