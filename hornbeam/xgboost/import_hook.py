"""Hornbeam for other packages that look for XGBoost by its name."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from hornbeam.errors import ErrorCode, HornbeamError

__all__ = ["stand_in"]

#: What packages that know XGBoost ask the modules in memory for.
_LOOKED_FOR = ("core", "sklearn", "training", "callback")


class _Names(MetaPathFinder, Loader):
    """Finds ``hornbeam.xgboost`` and its modules where ``xgboost`` is asked for."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != "xgboost":
            return None
        if importlib.util.find_spec(f"hornbeam.{fullname}") is None:
            return None
        return ModuleSpec(fullname, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(f"hornbeam.{spec.name}")
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The module has run; the machinery has put the other name on it.
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


def stand_in() -> None:
    """Have ``import xgboost`` find ``hornbeam.xgboost``, from now on and everywhere.

    It is for packages that look for XGBoost by its name and would not know a booster of
    Hornbeam: ``shap``, ``mlflow.xgboost`` and so on. Call it before they are imported.

    Raises
    ------
    HornbeamError
        If XGBoost itself has been imported before.
    """
    ours = importlib.import_module("hornbeam.xgboost")
    if sys.modules.get("xgboost", ours) is not ours:
        raise HornbeamError(
            "xgboost itself is imported already, and what holds it would not learn of "
            "another; call stand_in() before anything that imports xgboost",
            code=ErrorCode.XGBOOST_ALREADY_IMPORTED,
        )
    if not any(isinstance(finder, _Names) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Names())
    importlib.import_module("xgboost")
    for name in _LOOKED_FOR:
        with contextlib.suppress(ImportError):  # scikit-learn may not be installed
            importlib.import_module(f"xgboost.{name}")
