"""Columns at predict are those of training, or the error lists what differs."""

from __future__ import annotations

import pytest

from hornbeam.data.schema import Schema, check_schema, column_label
from hornbeam.errors import DataError

ABC = Schema(3, ["a", "b", "c"], ["int", "float", "i"])


@pytest.mark.parametrize(
    ("expected", "given"),
    [
        (ABC, ABC),
        (ABC, Schema(3, ["a", "b", "c"])),  # types do not count
        (Schema(3), Schema(3)),
        (Schema(3), ABC),  # the model knows no names
        (Schema(3, []), Schema(3, [])),
    ],
)
def test_same_columns(expected, given):
    check_schema(expected, given)


@pytest.mark.parametrize(
    ("expected", "given", "needed"),
    [
        (ABC, Schema(2, ["a", "c"]), ["missing: 'b';"]),
        (ABC, Schema(4, ["a", "b", "c", "d"]), ["not in the model: 'd'"]),
        (ABC, Schema(3, ["a", "B", "c"]), ["missing: 'b'", "not in the model: 'B'"]),
        (ABC, Schema(3, ["b", "a", "c"]), ["another order", "'b', 'a' moved"]),
        (ABC, Schema(2), ["3 columns", "has 2"]),
        (ABC, Schema(3), ["named columns ('a', 'b', 'c')", "validate_features"]),
        (Schema(3), Schema(4), ["3 columns", "has 4"]),
        (Schema(3), Schema(4, list("abcd")), ["3 columns", "has 4"]),
        (
            Schema(20, [f"x{i}" for i in range(20)]),
            Schema(1, ["x0"]),
            ["'x10' and 9 more"],
        ),
    ],
)
def test_other_columns(expected, given, needed):
    with pytest.raises(DataError) as error:
        check_schema(expected, given)
    for words in needed:
        assert words in str(error.value)


def test_columns_without_names_may_be_allowed():
    check_schema(ABC, Schema(3), unnamed_allowed=True)
    with pytest.raises(DataError, match="3 columns"):
        check_schema(ABC, Schema(2), unnamed_allowed=True)
    with pytest.raises(DataError, match="order"):
        check_schema(ABC, Schema(3, ["c", "b", "a"]), unnamed_allowed=True)


def test_column_label():
    assert column_label(["age"], 0) == "column 'age'"
    assert column_label(None, 2) == "column 2"
