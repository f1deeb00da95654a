"""Names and types of columns are checked and listed."""

from __future__ import annotations

import pytest

from hornbeam.data.schema import check_names, check_types, column_label, listed
from hornbeam.errors import DataError


def test_valid_names_and_types():
    assert check_names(("a", "b"), 2) == ["a", "b"]
    assert check_types(["c", "float", "int", "q", "i"], 5) == [
        *"c",
        "float",
        "int",
        *"qi",
    ]
    assert check_names(None, 3) is None and check_types(None, 3) is None


@pytest.mark.parametrize(
    ("check", "needed"),
    [
        (lambda: check_names(["a"], 2), "1 entries for 2 columns"),
        (lambda: check_names(["a", "a"], 2), "'a'"),
        (lambda: check_names(["a<"], 1), "'a<'"),
        (lambda: check_types("q", 2), "1 entries for 2 columns"),
        (lambda: check_types(["x"], 1), "'x' for column 0"),
    ],
)
def test_invalid_names_and_types(check, needed):
    with pytest.raises(DataError, match=needed):
        check()


def test_column_label():
    assert column_label(["age"], 0) == "column 'age'"
    assert column_label(None, 2) == "column 2"


def test_long_lists_are_shortened():
    assert listed(["a", "b"]) == "'a', 'b'"
    assert listed(f"x{i}" for i in range(12)).endswith("'x9' and 2 more")
