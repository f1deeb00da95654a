"""Export to files: suffixes, replaced files and errors."""

from __future__ import annotations

import numpy as np
import pytest
from exported_models import exported

import hornbeam
from hornbeam import Booster, HornbeamClassifier, NotTrainedError, ParameterError
from hornbeam.export import save, to_c, to_onnx, to_python

ENDINGS = [".onnx", ".c", ".py", ".json", ".ubj"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_existing_file_is_replaced_atomically(ending, tmp_path):
    path = tmp_path / f"model{ending}"
    path.write_text("what was there")
    booster = exported("float32").booster
    booster.export(path)
    size = path.stat().st_size
    assert size > 1000
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        booster.export(tmp_path / "none" / path.name)


def test_the_same_model_is_the_same_file(tmp_path):
    booster = exported("sets").booster
    again = Booster(model_file=bytes(booster.save_raw()))
    for ending in ENDINGS:
        booster.export(tmp_path / f"a{ending}")
        again.export(tmp_path / f"b{ending}")
        files = [(tmp_path / f"{name}{ending}").read_bytes() for name in "ab"]
        assert files[0] == files[1]


@pytest.mark.parametrize("name", ["model.txt", "model", "model.pmml"])
def test_unknown_suffixes_are_an_error(name, tmp_path):
    with pytest.raises(ParameterError, match=r"must be one of \.onnx, \.c, \.py"):
        exported("float32").booster.export(tmp_path / name)


class Absolute(hornbeam.objectives.compiled.ScalarLoss):
    """An objective with a custom transformation."""

    @staticmethod
    def gradient(y, m):
        return m - y

    @staticmethod
    def hessian(y, m):
        return 1.0

    @staticmethod
    def transform(m):
        return abs(m)


@pytest.mark.jit
def test_custom_transformations_are_not_exported(tmp_path):
    case = exported("float32")
    rows, y = case.codes, case.margins[:, 0]
    data = hornbeam.DMatrix(rows, y)
    booster = hornbeam.train({}, data, 2, obj=Absolute())
    for to in (to_onnx, to_c, to_python):
        with pytest.raises(ParameterError, match=r"Absolute\.transform.*output_margin"):
            to(booster)
    names_of_source = {}
    exec(to_python(booster, output_margin=True), names_of_source)
    margin = booster.predict(data, output_margin=True)[0]
    assert names_of_source["predict"](rows[0]) == margin


@pytest.mark.parametrize("to", [to_onnx, to_c, to_python])
def test_untrained_models_are_an_error(to):
    with pytest.raises(NotTrainedError, match="is not trained"):
        to(Booster())
    data = exported("float32").data
    with pytest.raises(NotTrainedError, match="is not trained"):
        to(hornbeam.train({}, data, 0))


def test_objects_without_a_model_are_an_error():
    with pytest.raises(ParameterError, match=r"must be a Booster.*not a dict"):
        save({}, "model.c")


def test_a_classifier_of_one_class():
    model = HornbeamClassifier(n_estimators=2).fit(np.eye(4), ["a"] * 4)
    with pytest.raises(ParameterError, match="was fitted to 1 class"):
        to_c(model)


def test_invalid_iteration_ranges_are_an_error():
    booster = exported("float32").booster
    with pytest.raises(IndexError, match=r"range of rounds \[5, 99\) is not valid"):
        to_c(booster, iteration_range=(5, 99))
    with pytest.raises(ParameterError, match=r"changes all weights|no separate rounds"):
        to_c(exported("linear").booster, iteration_range=(0, 2))
