"""Export to C: the source compiles without warnings, and its predictions."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
from exported_models import CASES, codes_of, exported
from selection import half_slow

import hornbeam
from hornbeam import ParameterError
from hornbeam.export import to_c

CC = shutil.which("cc")
FLAGS = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1"]
pytestmark = pytest.mark.skipif(CC is None, reason="there is no compiler of C")


def compiled(source, folder, *more):
    """Return the path of the program compiled from these sources, by file name."""
    (folder / "model.c").write_text(source)
    target = folder / "model"
    parts = [*more, folder / "model.c", "-o", target, "-lm"]
    process = subprocess.run([CC, *FLAGS, *parts], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return target


def run(source, codes, case, folder, name="model"):
    """Return the margins and the predictions of rows."""
    library = ctypes.CDLL(str(compiled(source, folder, "-shared", "-fPIC")))
    results = []
    for function, like in (
        ("margins", case.margins),
        ("predict", case.predictions),
    ):
        call = getattr(library, f"{name}_{function}")
        call.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        call.restype = None
        out = np.empty((len(codes), like.shape[1]), like.dtype)
        for row, values in zip(codes, out, strict=True):
            call(row.ctypes.data, values.ctypes.data)
        results.append(out)
    return results


# To compile one takes most of the time.
@pytest.mark.parametrize("name", half_slow(CASES, pytest.mark.slow))
def test_margins_are_bitwise_equal(name, tmp_path):
    case = exported(name)
    margins, predictions = run(to_c(case.booster), case.codes, case, tmp_path)
    np.testing.assert_array_equal(margins, case.margins)
    np.testing.assert_allclose(predictions, case.predictions, rtol=1e-6)


PROGRAM = """
#include <math.h>
#include <stdio.h>
#include <string.h>
void late_predict(const double features[9], float predictions[1]);
extern const char *const late_feature_names[9];
extern const char *const *const late_categories[9];
int main(void)
{
    double row[9] = {0, NAN, 1, 12, 30, 50, 8, NAN, 1015};
    float prediction;
    int code = 0;
    while (strcmp(late_categories[0][code], "JFK") != 0)
        code++;
    row[0] = code;
    late_predict(row, &prediction);
    printf("%s %d %.9g", late_feature_names[8], code, prediction);
    return 0;
}
"""


def test_c_source_in_a_program(tmp_path):
    case = exported("logistic")
    (tmp_path / "main.c").write_text(PROGRAM)
    source = to_c(case.booster, name="late")
    program = compiled(source, tmp_path, tmp_path / "main.c")
    said = subprocess.run([program], capture_output=True, text=True, check=True)
    name, code, prediction = said.stdout.split()
    assert (name, code) == ("pressure", "1")
    row = [[1, np.nan, 1, 12, 30, 50, 8, np.nan, 1015]]
    booster = case.booster
    data = hornbeam.DMatrix(
        np.array(row),
        feature_names=booster.feature_names,
        feature_types=booster.feature_types,
    )
    assert float(prediction) == pytest.approx(booster.predict(data)[0], rel=1e-6)


HOSTILE = [
    "quote \" and ' end */ of /* comment // and \\",
    "line\nbreak\r\ttab",
    "trigraph ??/ ??= ??' \\777",
    "größe 体重 \u202e bidi",
]


def test_feature_names_are_escaped(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.normal(size=99) for name in HOSTILE})
    frame["c"] = pd.Categorical(rng.choice(HOSTILE, 99))
    data = hornbeam.DMatrix(frame, frame.iloc[:, 0])
    booster = hornbeam.train({}, data, 2)
    library = ctypes.CDLL(str(compiled(to_c(booster), tmp_path, "-shared", "-fPIC")))
    names = (ctypes.c_char_p * 5).in_dll(library, "model_feature_names")
    assert [name.decode() for name in names] == [*HOSTILE, "c"]
    lists = ctypes.POINTER(ctypes.c_char_p) * 5
    levels = lists.in_dll(library, "model_categories")[4]
    assert sorted(levels[code].decode() for code in range(4)) == sorted(HOSTILE)
    assert levels[4] is None
    assert codes_of(frame).shape == (99, 5)


def test_long_feature_names():
    frame = pd.DataFrame({"x" * 5000: [1.0, 2.0]})
    booster = hornbeam.train({}, hornbeam.DMatrix(frame, [0, 1]), 1)
    with pytest.raises(ParameterError, match="has 5,000 bytes, and C compilers"):
        to_c(booster)


@pytest.mark.parametrize("name", ["a b", "1st", "größe", "a;b", ""])
def test_invalid_c_identifiers_are_an_error(name):
    with pytest.raises(ParameterError, match="is not a C identifier"):
        to_c(exported("float32").booster, name=name)


def test_classes_of_an_estimator(tmp_path):
    case = exported("class")
    X, y = (
        case.codes,
        np.array(["a", "b", "c", "d"])[case.predictions[:, 0].astype(int)],
    )
    model = hornbeam.HornbeamClassifier(n_estimators=3).fit(X, y)
    library = ctypes.CDLL(str(compiled(to_c(model), tmp_path, "-shared", "-fPIC")))
    names = (ctypes.c_char_p * 4).in_dll(library, "model_classes")
    assert [*names] == [b"a", b"b", b"c", b"d"]
    shares = np.empty(4, np.float32)
    library.model_predict(X[:1].ctypes.data_as(ctypes.c_void_p), shares.ctypes)
    np.testing.assert_allclose(shares, model.predict_proba(X[:1])[0], rtol=1e-6)
