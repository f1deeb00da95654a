"""Packages that import XGBoost work after `stand_in`; names that they import exist."""

from __future__ import annotations

import importlib
import json
import pickle
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from packages import PACKAGES

from hornbeam import xgboost as xgb

pytest.importorskip("xgboost")


@pytest.fixture(scope="module")
def results():
    """What went wrong with each package, all in one process."""
    program = Path(__file__).with_name("packages.py")
    ran = subprocess.run([sys.executable, program], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_works(results, package):
    if find_spec(package.removesuffix("_xgboost")) is None:
        pytest.skip(f"{package} is not installed")
    assert results[package] is None, results[package]


def test_classes_have_the_names_by_which_packages_recognise_them():
    kinds = (xgb.Booster, xgb.DMatrix, xgb.XGBModel, xgb.XGBClassifier, xgb.XGBRanker)
    for kind in kinds:
        theirs = getattr(importlib.import_module("xgboost"), kind.__name__)
        name = f"{kind.__module__}.{kind.__qualname__}"
        assert name == f"hornbeam.{theirs.__module__}.{theirs.__qualname__}"
    model = xgb.XGBRegressor(n_estimators=2).fit(np.eye(4), np.arange(4))
    copy = pickle.loads(pickle.dumps(model))
    assert copy.get_booster().digest() == model.get_booster().digest()


@pytest.mark.parametrize(
    "module",
    "_typing callback collective compat core data libpath sklearn training".split(),
)
def test_names_that_are_not_documented(module):
    names = {
        "_typing": "ArrayLike BoosterParam EvalsLog FPreProcCallable FeatureNames "
        "Integer ModelIn NumpyOrCupy PathLike c_bst_ulong",
        "callback": "EvalsLog TrainingCallback",
        "collective": "_ArgVals _Args",
        "compat": "SKLEARN_INSTALLED XGBClassifierBase XGBModelBase XGBRegressorBase "
        "XGBStratifiedKFold _is_cudf_df _is_cupy_alike _is_pandas_df _is_polars "
        "import_polars scipy_csr",
        "core": "_LIB ArrayLike FeatureTypes Integer Metric Objective PlainObj "
        "_deprecate_positional_args _parse_eval_str c_bst_ulong py_str",
        "data": "pandas_nullable_mapper pandas_pyarrow_mapper",
        "libpath": "XGBoostLibraryNotFound find_lib_path",
        "sklearn": "ArrayLike DEFAULT_N_ESTIMATORS Metric PlainObj SklObjective "
        "XGBModelBase _metric_decorator _objective_decorator",
        "training": "_PackedBooster",
    }
    ours = importlib.import_module(f"hornbeam.xgboost.{module}")
    theirs = importlib.import_module(f"xgboost.{module}")
    for name in names[module].split():
        assert hasattr(ours, name), name
        assert hasattr(theirs, name), name


def test_values_of_undocumented_names_equal_those_of_xgboost():
    from xgboost import compat, core, data

    ours = importlib.import_module("hornbeam.xgboost.data")
    assert ours.pandas_nullable_mapper == data.pandas_nullable_mapper
    assert ours.pandas_pyarrow_mapper == data.pandas_pyarrow_mapper
    for name in "XGBModelBase XGBStratifiedKFold scipy_csr SKLEARN_INSTALLED".split():
        assert getattr(xgb.compat, name) is getattr(compat, name)
    line = "[3]\ttrain-rmse:0.5\ttrain-mae:0.25"
    assert xgb.core._parse_eval_str(line) == core._parse_eval_str(line)


def test_there_is_no_compiled_library_and_no_federated_training():
    with pytest.raises(xgb.core.XGBoostError, match="no compiled library"):
        xgb.core._LIB.XGBoosterDumpModelEx()
    with pytest.raises(AttributeError):
        _ = xgb.core._LIB.name
    libpath = importlib.import_module("hornbeam.xgboost.libpath")
    with pytest.raises(libpath.XGBoostLibraryNotFound):
        libpath.find_lib_path()
    federated = importlib.import_module("hornbeam.xgboost.federated")
    with pytest.raises(xgb.core.XGBoostError, match="federated"):
        federated.FederatedTracker(2, 9091, secure=False)
    with pytest.raises(xgb.core.XGBoostError, match="federated"):
        federated.run_federated_server(2, 9091)


def test_callbacks_of_cv_get_the_best_iteration():
    seen = []

    class Note(xgb.callback.TrainingCallback):
        def after_training(self, model):
            seen.append((model.best_iteration, model.best_score))
            model.best_iteration, model.best_score = 1, 0.5
            seen.append((model.best_iteration, model.best_score))
            return model

    X = np.random.default_rng(0).normal(size=(60, 3))
    stopping = xgb.callback.EarlyStopping(rounds=2)
    table = xgb.cv({}, xgb.DMatrix(X, X[:, 0]), 3, callbacks=[stopping, Note()])
    best = int(np.argmin(table["test-rmse-mean"]))
    assert seen[0] == (best, pytest.approx(table["test-rmse-mean"][best]))
    assert seen[1] == (1, 0.5)
