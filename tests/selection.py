"""Which tests a run leaves out: files of another kind, most cases of a second run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hornbeam.kernels.jit import COMPILED, NATIVE

__all__ = [
    "IS_SECOND",
    "IS_WHOLE",
    "REPEATS",
    "half_slow",
    "pytest_ignore_collect",
    "pytest_itemcollected",
    "share_of",
    "takes_part",
]

FOLDER = Path(__file__).parent

#: With WHOLE_TABLE=1 in the environment no part of a table is left out.
IS_WHOLE = bool(os.environ.get("WHOLE_TABLE"))

#: Whether kernels are plain Python or those of a wheel, so that a run repeats tests of
#: compiled ones, for kernels that another way makes from the same sources.
IS_SECOND = not COMPILED or NATIVE is not None

#: Tests that a second run is for, each with what is recorded.
ALL_CASES = ("tests/test_digests.py",)

#: Marks of cases that repeat what a fast test holds.
REPEATS = (pytest.mark.slow, pytest.mark.repeats)


def half_slow(cases: Iterable[Any], marks: Any = REPEATS) -> list[Any]:
    """Return cases for `parametrize`, of which the second, fourth ... are slow.

    They repeat what the others hold, unless they are marked otherwise. A tuple has the
    values of several parameters.
    """
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else [case]),
            marks=marks if place % 2 else [],
        )
        for place, case in enumerate(cases)
    ]


#: Folders and files of slow tests alone.
SLOW_FOLDERS = (FOLDER / "ray", FOLDER / "spark")
SLOW_FILES = (
    FOLDER / "distributed/test_engines.py",
    FOLDER / "explain/report/test_report_browser.py",
)

#: What a file has that marks a test as slow, by itself or as a helper does.
SLOW_MARK = re.compile(
    r"mark\.slow|REPEATS|half_slow|own_cluster|own_scheduler|from recovery import"
)


@cache
def _has_slow_tests(file: Path) -> bool:
    in_folder = any(folder in file.parents for folder in SLOW_FOLDERS)
    return in_folder or SLOW_MARK.search(file.read_text()) is not None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out of a run of folders the files of which it selects no test.

    Each process imports all files, and what they import, before the first test.
    """
    if not _is_of_folders(config):
        return None
    if "not slow" in config.option.markexpr:
        return collection_path in SLOW_FOLDERS + SLOW_FILES or None
    if config.option.markexpr.startswith("slow") and collection_path.suffix == ".py":
        return not _has_slow_tests(collection_path) or None
    return None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Refuse a slow test in a file that `make test-slow` would leave out."""
    if item.get_closest_marker("slow") and not _has_slow_tests(item.path):
        raise pytest.UsageError(f"{item.nodeid} is slow; see SLOW_MARK in {__file__}")


def takes_part(config: pytest.Config) -> bool:
    """Return whether a run leaves cases out: a second one, or one of folders.

    Who names files gets all their cases.
    """
    return not IS_WHOLE and (IS_SECOND or _is_of_folders(config))


def _is_of_folders(config: pytest.Config) -> bool:
    folder = config.invocation_params.dir
    return all((folder / name.partition("::")[0]).is_dir() for name in config.args)


def share_of(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return of the cases of each test those that a run takes that is not whole.

    They are the first case and each fifth after it, which takes turns with every axis
    of two to four values, and what it takes to have each value of each parameter once.
    Of a product of parameters that is a part. Elsewhere each case has values of its
    own, so that it is all of them. Second runs leave it at one in five. A test marked
    `repeats` has each value of each parameter once, where these are combined, or else
    one case in five; one marked `whole` has none.
    """
    cases = dict[str, list[pytest.Item]]()
    for item in items:
        if item.get_closest_marker("whole") is None:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = set[pytest.Item]()
    for test, own in cases.items():
        of_all = test.startswith(ALL_CASES)
        kept.update(own if of_all else _share_of_a_test(own))
    return [item for item in items if item in kept]


def _share_of_a_test(cases: list[pytest.Item]) -> list[pytest.Item]:
    one_in_five = cases[::5]
    if IS_SECOND:
        return one_in_five
    found = _with_each_value(cases)
    if cases[0].get_closest_marker("repeats") is None:
        return one_in_five + found
    return found if len(found) < len(cases) else one_in_five


def _with_each_value(cases: list[pytest.Item]) -> list[pytest.Item]:
    """Return cases that together have each value of each parameter.

    Those of new values only are taken first, so that all parameters change at a time.
    """
    kept, seen = [], set[tuple[str, int]]()
    for wanted in (all, any):
        for case in cases:
            params = case.callspec.params if hasattr(case, "callspec") else {}
            values = {(name, id(value)) for name, value in params.items()}
            if wanted(value not in seen for value in values):
                kept.append(case)
                seen |= values
    return kept
