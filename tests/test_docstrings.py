"""The examples in the docstrings of the public names."""

import doctest
import inspect
from importlib import import_module

import pytest

import hornbeam
import hornbeam.explain

#: Classes of results; the functions that return them have the examples.
RESULTS = {name for name in hornbeam.explain.__all__ if name[0].isupper()}
#: Kinds of errors and their codes: `HornbeamError` has the example.
ERRORS = {name for name in hornbeam.__all__ if name.endswith(("Error", "Code"))}
#: docs/tools.md has an example with a server.
ELSEWHERE = {"MLflowLogger"}
NAMES = [
    *((hornbeam, name) for name in hornbeam.__all__),
    *((hornbeam.explain, name) for name in hornbeam.explain.__all__),
]


def examples_of(name, public):
    doc = inspect.getdoc(public)
    home = import_module(public.__module__)
    test = doctest.DocTestParser().get_doctest(doc, {}, name, home.__file__, None)
    return test if test.examples else None


@pytest.mark.parametrize(("package", "name"), NAMES, ids=[name for _, name in NAMES])
def test_examples_print_what_they_show(package, name, tmp_path, monkeypatch, capsys):
    test = examples_of(name, getattr(package, name))
    if test is None:
        assert name in RESULTS | ELSEWHERE | ERRORS - {"HornbeamError"}
        return
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    said = []
    options = doctest.NORMALIZE_WHITESPACE
    doctest.DocTestRunner(optionflags=options).run(test, out=said.append)
    assert not said, "".join(said)
