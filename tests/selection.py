"""Which tests a run leaves out: files of another kind, most cases of a second run."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

import pytest

from hornbeam.kernels.jit import COMPILED, NATIVE

__all__ = [
    "IS_SECOND",
    "IS_WHOLE",
    "one_in_five",
    "pytest_ignore_collect",
    "pytest_itemcollected",
]

FOLDER = Path(__file__).parent

#: With WHOLE_TABLE=1 in the environment no part of a table is left out.
IS_WHOLE = bool(os.environ.get("WHOLE_TABLE"))

#: Whether kernels are plain Python or those of a wheel, so that a run repeats tests of
#: compiled ones, for kernels that another way makes from the same sources.
IS_SECOND = not COMPILED or NATIVE is not None

#: Tests that a second run is for, each with what is recorded.
ALL_CASES = ("tests/test_digests.py",)

#: Folders of slow tests alone.
SLOW_FOLDERS = (FOLDER / "ray", FOLDER / "spark")

#: What a file has that marks a test as slow, by itself or as a helper does.
SLOW_MARK = re.compile(r"mark\.slow|own_cluster|own_scheduler|from recovery import")


@cache
def _has_slow_tests(file: Path) -> bool:
    in_folder = any(folder in file.parents for folder in SLOW_FOLDERS)
    return in_folder or SLOW_MARK.search(file.read_text()) is not None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out of a run of the whole suite the files of which it selects no test.

    Each process imports all files, and what they import, before the first test.
    """
    if config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return None
    if "not slow" in config.option.markexpr:
        return collection_path in SLOW_FOLDERS or None
    if config.option.markexpr.startswith("slow") and collection_path.suffix == ".py":
        return not _has_slow_tests(collection_path) or None
    return None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Refuse a slow test in a file that `make test-slow` would leave out."""
    if item.get_closest_marker("slow") and not _has_slow_tests(item.path):
        raise pytest.UsageError(f"{item.nodeid} is slow; see SLOW_MARK in {__file__}")


def one_in_five(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the first of the cases of each test, and each fifth after it.

    Five takes turns with every axis of two to four values, whose product cases are.
    """
    kept, seen = [], dict[str, int]()
    for item in items:
        test = item.nodeid.partition("[")[0]
        seen[test] = number = seen.get(test, -1) + 1
        if number % 5 == 0 or test.startswith(ALL_CASES):
            kept.append(item)
    return kept
