"""Runs that leave out cases keep each test, and each value of each parameter."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace

import selection
from selection import FOLDER, share_of, takes_part


class Case:
    """A case of a test as pytest collects it: its parameters and its marks."""

    def __init__(self, test, marks=(), **params):
        values = "-".join(map(str, params.values()))
        self.nodeid = f"tests/test_file.py::{test}[{values}]"
        if params:
            self.callspec = SimpleNamespace(params=params)
        self.marks = marks

    def get_closest_marker(self, name):
        return name if name in self.marks else None


def squares(marks=()):
    """Return the product of two parameters of seven values."""
    ways, sizes = "abcdefg", range(7)
    return [Case("test_product", marks, x=x, n=n) for x, n in product(ways, sizes)]


def rows(number, marks=()):
    """Return cases of which each has a value of its own."""
    return [Case("test_rows", marks, row=row) for row in range(number)]


def test_the_first_run_keeps_each_value_of_each_parameter(monkeypatch):
    monkeypatch.setattr(selection, "IS_SECOND", False)
    single = [Case("test_one"), Case("test_other")]
    cases = [*single, *rows(6), *squares()]
    kept = share_of(cases)
    assert kept[:8] == cases[:8]
    of_product = kept[8:]
    assert len(of_product) < 7 + 49 / 5 + 1
    assert {case.callspec.params["x"] for case in of_product} == {*"abcdefg"}
    assert {case.callspec.params["n"] for case in of_product} == {*range(7)}


def test_cases_that_repeat_others_are_one_in_five(monkeypatch):
    monkeypatch.setattr(selection, "IS_SECOND", False)
    repeated = rows(11, ["repeats"])
    assert share_of(repeated) == repeated[::5]
    of_product = share_of(squares(["repeats"]))
    assert {case.callspec.params["x"] for case in of_product} == {*"abcdefg"}
    assert {case.callspec.params["n"] for case in of_product} == {*range(7)}
    assert len(of_product) == 7


def test_what_other_tests_hold_is_left_out(monkeypatch):
    monkeypatch.setattr(selection, "IS_SECOND", False)
    cases = [*rows(3, ["whole"]), *rows(2)]
    assert share_of(cases) == cases[3:]
    assert share_of([Case("test_one", ["whole"])]) == []


def test_a_second_run_keeps_one_case_in_five_and_all_digests(monkeypatch):
    monkeypatch.setattr(selection, "IS_SECOND", True)
    cases = [*rows(11), Case("test_one"), *squares()]
    kept = share_of(cases)
    assert kept == [*cases[:11:5], cases[11], *cases[12::5]]
    for case in cases:
        case.nodeid = case.nodeid.replace("test_file", "test_digests")
    assert share_of(cases) == cases


def test_who_names_a_file_gets_all_cases(pytestconfig, monkeypatch):
    monkeypatch.setattr(selection, "IS_SECOND", False)
    monkeypatch.setattr(selection, "IS_WHOLE", False)
    here = pytestconfig.invocation_params
    folders = SimpleNamespace(invocation_params=here, args=[str(FOLDER)])
    one = f"{FOLDER / 'test_file.py'}::test_one"
    files = SimpleNamespace(invocation_params=here, args=[str(FOLDER), one])
    assert takes_part(folders)
    assert not takes_part(files)
    monkeypatch.setattr(selection, "IS_WHOLE", True)
    assert not takes_part(folders)
