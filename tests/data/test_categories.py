"""Categories are all strings or all numbers, unique, and compared by value."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import hornbeam
from hornbeam.data.categories import MAX_LEVELS, Categories, union
from hornbeam.errors import DataError


def test_categories_of_each_feature():
    categories = hornbeam.Categories([["x", "y"], None, [3, 1]], ["a", "b", "c"])
    assert not categories.empty()
    assert categories.of(0).tolist() == ["x", "y"]
    assert categories.of(1) is None
    assert categories.of(2).dtype == np.int64
    assert categories.to_arrow() == [
        ("a", pa.array(["x", "y"])),
        ("b", None),
        ("c", pa.array([3, 1])),
    ]
    assert categories.select([2, 1]) == Categories([[3, 1], None])
    with pytest.raises(ValueError, match="read-only"):
        categories.of(0)[0] = "z"


def test_no_categories_are_empty():
    assert Categories().empty() and Categories([None, None]).empty()
    assert Categories([None, None]) == Categories()
    assert Categories([None]).of(5) is None
    assert Categories().select([1, 0]).empty()


def test_equality():
    one = Categories([["x", "y"], [1, 2]])
    assert one == Categories([np.array(["x", "y"]), np.array([1.0, 2.0])])
    assert hash(one) == hash(Categories([["x", "y"], [1.0, 2.0]], ["a", "b"]))
    for other in (
        Categories([["y", "x"], [1, 2]]),
        Categories([["x", "y"], ["1", "2"]]),
        Categories([["x", "y"], None]),
        Categories(),
        "x",
    ):
        assert one != other


@pytest.mark.parametrize(
    ("values", "needed"),
    [
        (["x", "y", "x"], ["'x' more than once", "column 'k'"]),
        ([1, 2.0, 2], ["more than once"]),
        (["x", None], ["null", "column 'k'"]),
        ([1.0, float("nan")], ["null"]),
        (["x", 1], ["int and str"]),
        ([b"x"], ["bytes"]),
        (range(MAX_LEVELS + 1), ["65,536 categories", "65,535"]),
    ],
)
def test_bad_levels(values, needed):
    with pytest.raises(DataError) as error:
        Categories([values], ["k"])
    for words in needed:
        assert words in str(error.value)


def test_the_maximum_number_of_categories():
    assert len(Categories([range(MAX_LEVELS)]).of(0)) == MAX_LEVELS


def test_union():
    first = Categories([["b", "a"], ["x", "y"], None])
    second = Categories([["b", "a"], ["c", "y"], None])
    names = ["p", "q", "r"]
    assert union([first, second], names) == Categories([["b", "a"], "cxy", None])
    assert union([Categories(), Categories()], names).empty()
    with pytest.raises(DataError, match=r"'q'.*strings.*numbers"):
        union([first, Categories([None, [1, 2], None])], names)
