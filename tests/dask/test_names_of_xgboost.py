"""The names and the arguments of hornbeam.dask are those of xgboost.dask."""

import inspect

import pytest

import hornbeam.dask
from hornbeam.dask import DaskDMatrix

xgboost_dask = pytest.importorskip("xgboost.dask")

SAME = ["DaskDMatrix", "DaskQuantileDMatrix", "train", "predict", "inplace_predict"]
ESTIMATORS = ["Regressor", "Classifier", "Ranker"]
# Parameters of XGBoost that Hornbeam's own estimators do not have.
NOT_YET = {"coll_cfg"}
METHODS = ["fit", "predict", "apply", "score", "evals_result", "save_model", "client"]


def arguments(function):
    found = dict(inspect.signature(function).parameters)
    if found.pop("others", None) is not None:
        found |= inspect.signature(DaskDMatrix).parameters
    return found


@pytest.mark.parametrize("name", SAME)
def test_functions_take_the_same_arguments(name):
    theirs = arguments(getattr(xgboost_dask, name))
    ours = arguments(getattr(hornbeam.dask, name))
    assert theirs.keys() <= ours.keys()
    order = [argument for argument in ours if argument in theirs]
    assert order[:3] == list(theirs)[:3]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_have_the_same_methods_and_parameters(name):
    theirs = getattr(xgboost_dask, f"DaskXGB{name}")
    ours = getattr(hornbeam.dask, f"DaskHornbeam{name}")
    assert theirs().get_params().keys() - ours().get_params().keys() <= NOT_YET
    methods = METHODS + (["predict_proba"] if name == "Classifier" else [])
    for method in methods:
        if hasattr(theirs, method):
            assert hasattr(ours, method), method
    for method in ("fit", "predict", "apply"):
        wanted = arguments(getattr(theirs, method))
        assert wanted.keys() <= arguments(getattr(ours, method)).keys()


def test_all_public_names_exist():
    assert hornbeam.dask.__all__ == sorted(hornbeam.dask.__all__)
    for name in hornbeam.dask.__all__:
        assert getattr(hornbeam.dask, name).__name__ == name
        assert name in dir(hornbeam.dask)
    with pytest.raises(AttributeError, match="has no attribute 'cv'"):
        _ = hornbeam.dask.cv
