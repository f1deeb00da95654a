"""Export to Python: the module runs without any package."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from exported_models import CASES, codes_of, exported, records_of

import hornbeam
from hornbeam.export import to_python

# Isolated: no user site, environment variables or installed packages.
ALONE = [sys.executable, "-I", "-S", "-c"]
RUN = """
import json, runpy, sys
for path, rows in json.load(sys.stdin):
    model = runpy.run_path(path)
    print(json.dumps([[model["margins"](row), model["predict"](row)] for row in rows]))
"""


def run(models, folder):
    """Return the margins and the predictions of the rows of each (source, rows)."""
    given = []
    for number, (source, rows) in enumerate(models):
        path = folder / f"model{number}.py"
        path.write_text(source)
        given.append((str(path), rows))
    process = subprocess.run(
        [*ALONE, RUN], input=json.dumps(given), capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    found = []
    for line, (_, rows) in zip(process.stdout.splitlines(), models, strict=True):
        columns = zip(*json.loads(line), strict=True)
        found.append([np.reshape(values, (len(rows), -1)) for values in columns])
    return found


@pytest.fixture(scope="module")
def by_the_sources(tmp_path_factory):
    """Return the margins and the predictions of each case, from one process."""
    cases = map(exported, CASES)
    models = [(to_python(case.booster), case.records[:200]) for case in cases]
    return dict(zip(CASES, run(models, tmp_path_factory.mktemp("models")), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_margins_are_bitwise_equal(name, by_the_sources):
    case = exported(name)
    margins, predictions = by_the_sources[name]
    np.testing.assert_array_equal(margins, case.margins[:200])
    np.testing.assert_allclose(predictions, case.predictions[:200], rtol=1e-6)


def test_rows_as_sequences_and_numpy_numbers():
    case = exported("float32")
    model = loaded(to_python(case.booster))
    got = [model["predict"](row) for row in case.codes[:50]]
    assert got == case.predictions[:50, 0].tolist()


def loaded(source):
    names = {}
    exec(compile(source, "model.py", "exec"), names)
    return names


def test_margins_alone():
    case = exported("logistic")
    model = loaded(to_python(case.booster, output_margin=True))
    row = case.records[0]
    assert model["predict"](row) == model["margins"](row) == case.margins[0, 0]
    assert "CLASSES" not in model


def test_classes_of_an_estimator():
    case = exported("class")
    X, y = (
        case.codes,
        np.array(["a", "b", "c", "é'"])[case.predictions[:, 0].astype(int)],
    )
    model = hornbeam.HornbeamClassifier(n_estimators=3).fit(X, y)
    source = loaded(to_python(model))
    assert source["CLASSES"] == ("a", "b", "c", "é'")
    got = [source["predict"](row) for row in X[:40]]
    np.testing.assert_allclose(got, model.predict_proba(X[:40]), rtol=1e-6)


HOSTILE = [
    'quote " and \' and """',
    "end */ of /* comment // and \\",
    "line\nbreak\r\ttab\0nul",
    "trigraph ??/ ??= ??'",
    "größe 体重 \u202e bidi",
    "{braces} %s $x `y`",
]


def test_feature_names_are_escaped(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.normal(size=200) for name in HOSTILE[:4]})
    frame[HOSTILE[5]] = pd.Categorical(rng.choice(HOSTILE[:5], 200))
    y = frame.iloc[:, 0] + (frame.iloc[:, 4] == HOSTILE[1])
    data = hornbeam.DMatrix(frame, y)
    booster = hornbeam.train({"max_cat_to_onehot": 1}, data, 5)
    source = to_python(booster)
    assert source.isascii()
    ((margins, _),) = run([(source, records_of(frame))], tmp_path)
    np.testing.assert_array_equal(margins[:, 0], booster.predict(data))
    assert loaded(source)["FEATURES"] == tuple(frame.columns)
    assert codes_of(frame).shape == (200, 5)


def test_invalid_rows_are_an_error():
    case = exported("squared error")
    predict = loaded(to_python(case.booster))["predict"]
    row = case.records[0]
    with pytest.raises(ValueError, match="the row has no 'humid'"):
        predict({name: value for name, value in row.items() if name != "humid"})
    with pytest.raises(ValueError, match="'origin' holds 'BOS'"):
        predict(row | {"origin": "BOS"})
    with pytest.raises(ValueError, match="'hour' holds '3', no number"):
        predict(row | {"hour": "3"})
    with pytest.raises(ValueError, match="the row has 2 values, not 9"):
        predict([1.0, 2.0])


def test_unseen_categories_may_be_missing():
    rows = pd.DataFrame({"c": pd.Categorical(list("aab") * 20)})
    params = {"unseen": "missing", "max_cat_to_onehot": 1}
    booster = hornbeam.train(params, hornbeam.DMatrix(rows, [1, 1, 0] * 20), 2)
    predict = loaded(to_python(booster))["predict"]
    assert predict({"c": "z"}) == predict({"c": None})
    assert predict({"c": "a"}) != predict({"c": "b"})


def test_infinite_categories():
    rows = pd.DataFrame({"c": pd.Categorical([1.0, np.inf, -np.inf] * 20)})
    data = hornbeam.DMatrix(rows, [1, 2, 3] * 20)
    booster = hornbeam.train({"max_cat_to_onehot": 1}, data, 2)
    predict = loaded(to_python(booster))["predict"]
    want = booster.predict(data)[:3]
    assert [predict([c]) for c in (1.0, np.inf, -np.inf)] == want.tolist()
