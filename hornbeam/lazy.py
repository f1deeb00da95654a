"""Lazy loading: names of packages whose modules are imported on first use."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import Any, TypeVar

__all__ = [
    "extension",
    "forward_modules",
    "look_up",
    "names_from",
    "register_extension",
]

Entry = TypeVar("Entry")

#: The modules of functions that packages below them call, by name.
_EXTENSIONS: dict[str, str] = {}


def register_extension(name: str, module: str) -> None:
    """Register a function for packages below its own, which may not import it."""
    _EXTENSIONS[name] = module


def extension(name: str) -> Callable[..., Any]:
    """Return a registered function; its module is loaded on first use."""
    function: Callable[..., Any] = getattr(
        importlib.import_module(_EXTENSIONS[name]), name
    )
    return function


def names_from(
    package: str, homes: Mapping[str, str], modules: Collection[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and ``__dir__`` of a package (PEP 562).

    Parameters
    ----------
    package
        Its ``__name__``; it must define ``__all__``.
    homes
        The module of each lazily loaded name; ``"module:attribute"`` if it has
        another name there.
    modules
        Submodules of the package that are loaded lazily too.
    """
    module = sys.modules[package]

    def get(name: str) -> Any:
        if name in modules:
            return importlib.import_module(f"{package}.{name}")
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        origin, _, attribute = home.partition(":")
        value = getattr(importlib.import_module(origin), attribute or name)
        setattr(module, name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(module), *module.__all__, *modules})

    return get, names


def look_up(
    registry: Mapping[str, Entry], name: str, modules: Sequence[str]
) -> Entry | None:
    """Return the entry of a name, None if there is none.

    Parameters
    ----------
    registry
        The entries, which modules add when they are imported.
    name
        The name of the entry.
    modules
        These modules, which are imported in this order until the name is there.
    """
    for module in modules:
        if name in registry:
            break
        importlib.import_module(module)
    return registry.get(name)


def forward_modules(package: str, renamed: Mapping[str, str]) -> None:
    """Keep the former names of a package's modules importable.

    Pickles name the modules of classes. The module of today is imported when a name of
    the former one is first used.

    Parameters
    ----------
    package
        The ``__name__`` of the package, which calls this when it is imported.
    renamed
        The present name of each former module, both without the package.
    """
    for former, present in renamed.items():
        module = ModuleType(f"{package}.{former}", f"Renamed to {package}.{present}.")
        module.__getattr__ = partial(_forward, f"{package}.{present}")  # type: ignore[method-assign]
        sys.modules[module.__name__] = module


def _forward(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)
