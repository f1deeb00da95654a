"""What XGBoost has in its module of this name."""

from hornbeam.xgboost.booster import Booster
from hornbeam.xgboost.build import build_info
from hornbeam.xgboost.categories import Categories
from hornbeam.xgboost.data_iter import DataIter
from hornbeam.xgboost.deprecation import require_keyword_args
from hornbeam.xgboost.errors import XGBoostError
from hornbeam.xgboost.matrices import (
    DataSplitMode,
    DMatrix,
    ExtMemQuantileDMatrix,
    QuantileDMatrix,
)

__all__ = [
    "Booster",
    "Categories",
    "DMatrix",
    "DataIter",
    "DataSplitMode",
    "ExtMemQuantileDMatrix",
    "QuantileDMatrix",
    "XGBoostError",
    "build_info",
    "require_keyword_args",
]
