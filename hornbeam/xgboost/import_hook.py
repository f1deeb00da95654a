"""An import hook by which ``import xgboost`` imports ``hornbeam.xgboost``."""

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

#: Modules that other packages look up in `sys.modules`.
_PRELOADED = ("core", "sklearn", "training", "callback")


class _Finder(MetaPathFinder, Loader):
    """Finds ``hornbeam.xgboost`` and its modules by the name ``xgboost``."""

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
        # The module is already executed; restore the spec that the import replaced.
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


def stand_in() -> None:
    """Make ``import xgboost`` import ``hornbeam.xgboost`` in the whole process.

    Packages that check for XGBoost by name, such as ``shap`` and ``mlflow.xgboost``,
    then accept Hornbeam's boosters. Call this before they are imported.

    Raises
    ------
    HornbeamError
        If XGBoost itself is already imported.
    """
    ours = importlib.import_module("hornbeam.xgboost")
    if sys.modules.get("xgboost", ours) is not ours:
        raise HornbeamError(
            "xgboost itself is already imported, and modules that use it would keep "
            "using it; call stand_in() before any import of xgboost",
            code=ErrorCode.XGBOOST_ALREADY_IMPORTED,
        )
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    importlib.import_module("xgboost")
    for name in _PRELOADED:
        with contextlib.suppress(ImportError):  # scikit-learn may not be installed
            importlib.import_module(f"xgboost.{name}")
