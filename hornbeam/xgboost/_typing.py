"""XGBoost's names of types, for code that annotates with them."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hornbeam.callbacks.base import EvalsLog

__all__ = [
    "ArrayLike",
    "ArrowCatCol",
    "ArrowCatList",
    "BoosterParam",
    "CupyT",
    "DataType",
    "EvalsLog",
    "FPreProcCallable",
    "FeatureInfo",
    "FeatureNames",
    "FeatureTypes",
    "FloatCompatible",
    "Integer",
    "IterationRange",
    "ModelIn",
    "NumpyDType",
    "NumpyOrCupy",
    "PandasDType",
    "PathLike",
    "TransformedData",
    "c_bst_ulong",
]

ArrayLike: TypeAlias = Any
CupyT: TypeAlias = Any
DataType: TypeAlias = Any
PandasDType: TypeAlias = Any

FeatureInfo: TypeAlias = Sequence[str]
FeatureNames: TypeAlias = FeatureInfo
FeatureTypes: TypeAlias = FeatureInfo
BoosterParam: TypeAlias = list[Any] | dict[str, Any]

FloatCompatible: TypeAlias = float | np.float32 | np.float64
Integer: TypeAlias = int | np.integer[Any]
IterationRange: TypeAlias = tuple[Integer, Integer]
NumpyDType: TypeAlias = str | type[np.number[Any]]
NumpyOrCupy: TypeAlias = npt.NDArray[Any] | Any

PathLike: TypeAlias = str | os.PathLike[str]
ModelIn: TypeAlias = str | os.PathLike[str] | bytearray
FPreProcCallable: TypeAlias = Callable[..., Any]

ArrowCatCol: TypeAlias = Any
ArrowCatList: TypeAlias = list[tuple[str, ArrowCatCol]]
TransformedData: TypeAlias = tuple[Any, FeatureNames | None, FeatureTypes | None]

c_bst_ulong = ctypes.c_uint64
