"""Errors of bad input end with the public call; the lines of the logger."""

from __future__ import annotations

import inspect
import logging
import traceback
from concurrent.futures import ThreadPoolExecutor
from enum import EnumType

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hornbeam
import hornbeam.explain
import hornbeam.xgboost
from hornbeam.errors import HornbeamError
from hornbeam.log import LOGGER

X = np.random.default_rng(0).normal(size=(60, 2))
BAD = X.copy()
BAD[7, 1] = np.inf
FRAME = pd.DataFrame(X, columns=["a", "b"])


def model():
    return hornbeam.train({}, hornbeam.DMatrix(X, X[:, 0]), 2, verbose_eval=False)


def fitted(kind=hornbeam.HornbeamRegressor):
    labels = X[:, 0] > 0 if kind is hornbeam.HornbeamClassifier else X[:, 0]
    return kind(quality=None, n_estimators=2).fit(FRAME, labels)


def update():
    booster, data = hornbeam.Booster(), hornbeam.DMatrix(BAD, X[:, 0])
    return lambda: booster.update(data, 0)


CALLS = {
    "train": lambda: (lambda data: lambda: hornbeam.train({"max_depth": -3}, data, 2))(
        hornbeam.DMatrix(X, X[:, 0])
    ),
    "infinite": lambda: (lambda data: lambda: hornbeam.train({}, data, 2))(
        hornbeam.DMatrix(BAD, X[:, 0])
    ),
    "cv": lambda: lambda: hornbeam.cv({"eta": "x"}, hornbeam.DMatrix(X, X[:, 0]), 2),
    "update": update,
    "DMatrix": lambda: lambda: hornbeam.DMatrix(X, X[:5, 0]),
    "QuantileDMatrix": lambda: lambda: hornbeam.QuantileDMatrix(BAD, X[:, 0]),
    "Booster": lambda: lambda: hornbeam.Booster({"etta": 1}),
    "load": lambda: lambda: hornbeam.Booster(model_file=b"{}"),
    "inplace": lambda: (lambda b: lambda: b.inplace_predict(X[:, :1]))(model()),
    "predict": lambda: (lambda b: lambda: b.predict(hornbeam.DMatrix(X[:, :1])))(
        model()
    ),
    "fit": lambda: lambda: hornbeam.HornbeamRegressor(max_depth=-1).fit(X, X[:, 0]),
    "forest": lambda: (
        lambda: hornbeam.RandomForestRegressor(n_estimators=-1).fit(X, X[:, 0])
    ),
    "pipeline": lambda: (
        lambda: make_pipeline(
            StandardScaler(), hornbeam.HornbeamRegressor(max_depth=-1)
        ).fit(X, X[:, 0])
    ),
    "drop-in": lambda: (
        lambda: hornbeam.xgboost.train(
            {"max_depth": -3}, hornbeam.xgboost.DMatrix(X, X[:, 0]), 2
        )
    ),
    "drop-in matrix": lambda: lambda: hornbeam.xgboost.DMatrix(X, X[:5, 0]),
    "drop-in fit": lambda: (
        lambda: hornbeam.xgboost.XGBRegressor(max_depth=-1).fit(X, X[:, 0])
    ),
}


def frames_of(error):
    """Return the frames of a traceback that are in Hornbeam."""
    found = traceback.extract_tb(error.__traceback__)
    return [frame for frame in found if "/hornbeam/" in frame.filename]


@pytest.mark.parametrize("name", CALLS)
def test_errors_are_raised_from_the_public_call(name):
    call = CALLS[name]()
    with pytest.raises(HornbeamError) as found:
        call()
    assert len(frames_of(found.value)) <= 3, frames_of(found.value)


#: Arguments that no function takes, or few.
JUNK = (object(), "junk", -3, FRAME.assign(a="x"), X[:, :1], {"junk": 1}, None)


def estimators_of(module):
    """Yield each estimator of a module by name, trained and not."""
    for name in module.__all__:
        kind = getattr(module, name)
        if inspect.isclass(kind) and hasattr(kind, "fit") and "Ranker" not in name:
            small = {"n_estimators": 2} if "Tree" not in name else {}
            labels = X[:, 0] > 0 if "Classifier" in name else X[:, 0]
            yield f"{module.__name__}.{name}()", kind()
            yield f"{module.__name__}.{name}", kind(**small).fit(FRAME, labels)


def public_calls():
    """Yield all public functions and methods, with their names."""
    labels = X[:, 0]
    objects = {
        "Booster": model(),
        "Booster()": hornbeam.Booster(),
        "DMatrix": hornbeam.DMatrix(FRAME, labels),
        "QuantileDMatrix": hornbeam.QuantileDMatrix(FRAME, labels),
        "xgboost.Booster": hornbeam.xgboost.Booster(),
        "xgboost.DMatrix": hornbeam.xgboost.DMatrix(FRAME, labels),
        **dict(estimators_of(hornbeam)),
        **dict(estimators_of(hornbeam.xgboost)),
        "hornbeam": hornbeam,
        "hornbeam.explain": hornbeam.explain,
    }
    for name, owner in objects.items():
        public = getattr(owner, "__all__", dir(owner))
        for attribute in public:
            if attribute.startswith("_"):
                continue
            try:
                function = getattr(owner, attribute)
            except (AttributeError, ValueError):  # a property without a trained model
                continue
            if callable(function) and not isinstance(function, EnumType):
                yield f"{name}.{attribute}", function


def junk_calls(function, trained):
    """Yield calls of a function with junk for the arguments that it requires."""
    required = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    for value in JUNK if required else ():
        yield {one.name: value for one in required}
        if len(required) > 1:  # explanations of a model
            yield {required[0].name: trained, required[1].name: value}


@pytest.mark.filterwarnings("ignore")  # of junk
def test_no_public_call_shows_the_inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # "junk" is a good name of a file
    refused, trained = set(), model()
    for name, function in public_calls():
        for arguments in junk_calls(function, trained):
            try:
                function(**arguments)
            except HornbeamError as error:
                refused.add(name)
                assert len(frames_of(error)) <= 3, (name, arguments, frames_of(error))
            except (
                AttributeError,
                LookupError,
                OSError,
                RuntimeError,
                TypeError,
                ValueError,
            ):
                pass  # of Python and scikit-learn
    assert len(refused) > 200


def test_a_thread_pool_prints_one_short_message():
    booster = model()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(booster.inplace_predict, X[:, :1])
        with pytest.raises(HornbeamError) as found:
            future.result()
    lines = traceback.format_exception(found.value)
    assert "columns in training" in lines[-1]
    assert len(frames_of(found.value)) <= 1


def test_the_cause_is_kept(tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n1\n")
    with pytest.raises(HornbeamError) as found:
        hornbeam.DMatrix(str(tmp_path / "rows.csv"), label="a")
    assert found.value.__cause__ is not None
    assert found.value.__cause__.__traceback__ is not None


def test_other_errors_keep_their_frames():
    def broken(predictions, data):
        return 1 / 0

    data = hornbeam.DMatrix(X, X[:, 0])
    with pytest.raises(ZeroDivisionError) as found:
        hornbeam.train({}, data, 2, obj=broken)
    assert len(frames_of(found.value)) > 3


VERBOSE = {"quality": "fast", "verbosity": 2}


def test_lines_are_printed_to_stderr(capsys):
    hornbeam.HornbeamRegressor(**VERBOSE).fit(X, X[:, 0])
    lines = capsys.readouterr().err.splitlines()
    assert any(line.startswith("hornbeam: chosen: quality fast") for line in lines)


def test_a_program_takes_the_lines_by_a_handler(capsys, monkeypatch):
    records = []
    handler = logging.Handler()
    handler.emit = records.append
    monkeypatch.setattr(LOGGER, "handlers", [handler])
    hornbeam.HornbeamRegressor(**VERBOSE).fit(X, X[:, 0])
    messages = [record.getMessage() for record in records]
    assert any(text.startswith("chosen: quality fast") for text in messages)
    assert {record.levelno for record in records} == {logging.INFO}
    assert "chosen" not in capsys.readouterr().err


def test_the_level_of_the_logger_silences_it(capsys):
    LOGGER.setLevel(logging.WARNING)
    try:
        hornbeam.HornbeamRegressor(**VERBOSE).fit(X, X[:, 0])
    finally:
        LOGGER.setLevel(logging.INFO)
    assert "chosen" not in capsys.readouterr().err
