"""Error codes: each error has one, and keeps it when it is copied or pickled."""

from __future__ import annotations

import ast
import copy
import copyreg
import pickle
import string
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tblib import pickling_support

import hornbeam
from hornbeam import errors
from hornbeam.errors import ErrorCode, HornbeamError
from hornbeam.forest.validation import UnsupportedModelError
from hornbeam.xgboost.error_messages import (
    _MESSAGES,
    FileError,
    UnsupportedTypeError,
)

PACKAGE = Path(hornbeam.__file__).parent
CLASSES = [
    errors.HornbeamError,
    errors.ParameterError,
    errors.DataError,
    errors.ModelFileError,
    errors.NotTrainedError,
    errors.ClusterError,
    errors.MissingExtraError,
    UnsupportedModelError,
    UnsupportedTypeError,
    FileError,
]
NAMES = {kind.__name__ for kind in CLASSES} | {"XGBoostError"}

X = np.arange(12.0).reshape(6, 2)
Y = np.arange(6.0)


@cache
def nodes():
    """Return the calls and the attributes in the package, with the file of each."""
    return [
        (place, node)
        for path in sorted(PACKAGE.rglob("*.py"))
        if "Error" in (text := path.read_text())
        for place in [path.relative_to(PACKAGE)]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call | ast.Attribute)
    ]


def calls():
    """Yield the place of each call that makes an error, and the call."""
    for path, node in nodes():
        function = getattr(node, "func", None)
        if isinstance(function, ast.Name) and function.id in NAMES:
            yield f"{path}:{node.lineno}", node


def keywords(call):
    """Return the keywords of a call; None stands for a dictionary of them."""
    return {keyword.arg: keyword.value for keyword in call.keywords}


def test_values_are_the_names_in_lower_case():
    assert {code.value for code in ErrorCode} == {
        name.lower() for name in ErrorCode.__members__
    }
    assert all(code.value == code.name.lower() for code in ErrorCode)
    assert len(ErrorCode.__members__) == len(list(ErrorCode))


def test_every_error_is_made_with_a_code():
    found = list(calls())
    assert len(found) > 700
    without = [place for place, call in found if "code" not in keywords(call)]
    assert without == []


def test_every_code_is_in_use():
    used = {
        node.attr
        for _, node in nodes()
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "ErrorCode"
    }
    assert used == set(ErrorCode.__members__)


def test_errors_have_the_details_that_xgboosts_messages_need():
    for place, call in calls():
        given = keywords(call)
        if None in given or "code" not in given:
            continue
        codes = [
            ErrorCode[node.attr]
            for node in ast.walk(given["code"])
            if isinstance(node, ast.Attribute) and node.attr in ErrorCode.__members__
        ]
        for code in codes:
            fields = {
                part[1] for part in string.Formatter().parse(_MESSAGES.get(code, ""))
            }
            assert fields - {None} <= given.keys(), (place, code)


def pickled(error):
    return pickle.loads(pickle.dumps(error))


def sent_by_dask(error):
    """Return the error as Dask does, which changes the way that errors are pickled."""
    before = copyreg.dispatch_table.copy()
    pickling_support.install(error)
    try:
        return pickled(error)
    finally:
        copyreg.dispatch_table.clear()
        copyreg.dispatch_table.update(before)


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("again", [copy.copy, pickled, sent_by_dask])
def test_copies_and_pickles_keep_code_and_details(kind, again):
    plain = again(kind("what is wrong"))
    assert plain.code is kind.code
    assert plain.details == {}
    error = again(kind("what is wrong", code=ErrorCode.UNKNOWN_METRIC, name="no"))
    assert type(error) is kind
    assert str(error) == "what is wrong"
    assert error.code is ErrorCode.UNKNOWN_METRIC
    assert error.details == {"name": "no"}


CASES = {
    ErrorCode.UNKNOWN_PARAMETER: lambda: hornbeam.train({"no": 1}, matrix(), 1),
    ErrorCode.PARAMETER_OUT_OF_RANGE: lambda: hornbeam.train({"eta": -1}, matrix(), 1),
    ErrorCode.UNKNOWN_OBJECTIVE: lambda: hornbeam.train({"objective": "no"}, matrix()),
    ErrorCode.LABEL_SIZE_MISMATCH: lambda: hornbeam.DMatrix(X, Y[1:]),
    ErrorCode.LABEL_NOT_FINITE: lambda: hornbeam.DMatrix(X, Y * np.nan),
    ErrorCode.LABEL_MISSING: lambda: hornbeam.train({}, hornbeam.DMatrix(X), 1),
    ErrorCode.LABEL_NOT_PROBABILITY: lambda: hornbeam.train(
        {"objective": "binary:logistic"}, matrix(), 1
    ),
    ErrorCode.FEATURE_NOT_FINITE: lambda: hornbeam.QuantileDMatrix(X / 0.0),
    ErrorCode.FEATURES_NOT_2D: lambda: hornbeam.DMatrix(Y),
    ErrorCode.UNSUPPORTED_DATA_TYPE: lambda: hornbeam.DMatrix(object()),
    ErrorCode.FEATURE_SHAPE_MISMATCH: lambda: hornbeam.train(
        {"max_depth": 1}, matrix(), 1
    ).predict(hornbeam.DMatrix(X[:, :1])),
    ErrorCode.EMPTY_BOOSTER: lambda: hornbeam.Booster().predict(matrix()),
    ErrorCode.MODEL_FILE_NOT_PARSABLE: lambda: hornbeam.Booster(model_file=b"{no"),
}


def matrix():
    """Return a matrix with labels."""
    return hornbeam.DMatrix(X, Y)


@pytest.mark.parametrize("code", CASES)
def test_public_calls_give_their_codes(code):
    with np.errstate(all="ignore"), pytest.raises(HornbeamError) as caught:
        CASES[code]()
    assert caught.value.code is code


def test_details_have_the_values_of_the_message():
    with pytest.raises(HornbeamError) as caught:
        hornbeam.train({"eval_metric": "no"}, matrix(), 1)
    assert caught.value.code is ErrorCode.UNKNOWN_METRIC
    assert caught.value.details == {"name": "no"}


def test_an_error_of_a_batch_keeps_the_code():
    with pytest.raises(HornbeamError, match=r"^batch 0 .*: label has") as caught:
        hornbeam.QuantileDMatrix([(X, Y[1:])])
    assert caught.value.code is ErrorCode.LABEL_SIZE_MISMATCH
