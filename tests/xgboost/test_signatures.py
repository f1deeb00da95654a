"""All public names of XGBoost exist with their parameters, or docs/ list them."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

pytest.importorskip("xgboost")
pytest.importorskip("pyspark")  # for the names of xgboost.spark

PAGE = Path(__file__).parents[2] / "docs" / "xgboost.md"
MODULES = (
    "",
    "callback",
    "collective",
    "compat",
    "config",
    "core",
    "dask",
    "data",
    "federated",
    "objective",
    "plotting",
    "sklearn",
    "spark",
    "tracker",
    "training",
)


def exceptions():
    """Return the names in the first column of the table, each with its reason."""
    table = PAGE.read_text().partition("## Missing names")[2]
    found = {}
    for names, reason in re.findall(r"^\| (`.*`) \| (.*) \|$", table, re.MULTILINE):
        for name in re.findall(r"`([^`]+)`", names):
            assert name not in found, f"{name} stands twice in the table"
            found[name] = reason.strip()
    return found


EXCEPTIONS = exceptions()


def in_module(package, module):
    return importlib.import_module(".".join(filter(None, (package, module))))


def public_names(module):
    """Return the names in `__all__`, and others without a leading underscore."""
    own = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isroutine(value))
        and getattr(value, "__module__", "") == module.__name__
    ]
    return sorted({*own, *getattr(module, "__all__", ())})


def members(kind):
    """Return the public methods and attributes of a class."""
    return sorted(name for name in dir(kind) if not name.startswith("_"))


def spelled(default):
    """Return a default in a comparable form."""
    if inspect.isroutine(default):
        return default.__name__
    return "nan" if default != default else default


def parameters(function):
    """Return the parameters of a function; those of `**` have no names."""
    if getattr(function, "__bases__", ()) == (dict,):  # of a type of dicts
        return sorted(function.__annotations__)
    return [
        (parameter.name, parameter.kind, spelled(parameter.default))
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        else parameter.kind
        for parameter in inspect.signature(function).parameters.values()
    ]


def differences(name, ours, theirs):
    """Yield the names that differ between the two modules."""
    if inspect.isclass(theirs):
        if not issubclass(theirs, Exception) and parameters(ours) != parameters(theirs):
            yield f"{name}.__init__"
        for member in members(theirs):
            if not hasattr(ours, member):
                yield f"{name}.{member}"
            elif inspect.isfunction(getattr(theirs, member)):
                yield from differences(
                    f"{name}.{member}", getattr(ours, member), getattr(theirs, member)
                )
    elif inspect.isroutine(theirs) and parameters(ours) != parameters(theirs):
        yield name


def all_differences():
    for module in MODULES:
        try:
            theirs = in_module("xgboost", module)
        except ImportError:  # it needs an optional package, and so does ours
            continue
        try:
            ours = in_module("hornbeam.xgboost", module)
        except ImportError:
            yield module
            continue
        for name in public_names(theirs):
            full = ".".join(filter(None, (module, name)))
            if hasattr(ours, name):
                yield from differences(full, getattr(ours, name), getattr(theirs, name))
            else:
                yield full


@pytest.mark.filterwarnings("ignore")
def test_the_table_lists_exactly_the_differences():
    assert sorted(set(all_differences())) == sorted(EXCEPTIONS)


def test_every_exception_has_a_reason():
    assert EXCEPTIONS
    assert all(len(reason) > 10 for reason in EXCEPTIONS.values())
