"""The public interface: its names, and the cost of its import."""

from __future__ import annotations

import importlib.metadata
import inspect
import subprocess
import sys

import pytest

import hornbeam
from hornbeam.kernels.jit import NATIVE

HEAVY = {
    "blosc2",
    "dask",
    "distributed",
    "duckdb",
    "lightgbm",
    "llvmlite",
    "matplotlib",
    "mlflow",
    "numba",
    "onnx",
    "optuna",
    "pandas",
    "polars",
    "pyarrow",
    "pyspark",
    "ray",
    "rich",
    "scipy",
    "sklearn",
    "typer",
    "xgboost",
}


def run(code: str) -> str:
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return process.stdout


def test_all_is_sorted_and_every_name_exists():
    assert hornbeam.__all__ == sorted(hornbeam.__all__)
    assert set(hornbeam.__all__) <= set(dir(hornbeam))


@pytest.mark.parametrize("name", hornbeam.__all__)
def test_every_name_is_documented(name):
    value = getattr(hornbeam, name)
    assert value.__name__ == name
    assert inspect.getdoc(value)


def test_all_holds_every_public_class_of_callbacks_and_errors():
    from hornbeam import callbacks, errors

    inside = {"CallbackContainer", "EvalsLog", "require", "short_traceback"}
    offered = {*callbacks.__all__, *errors.__all__} - inside
    assert offered <= set(hornbeam.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Boster'"):
        _ = hornbeam.Boster


def test_the_version_is_the_installed_one():
    assert hornbeam.__version__ == importlib.metadata.version("hornbeam")


def test_import_loads_nothing_heavy():
    code = "import sys, hornbeam; print(*sys.modules)"
    assert not HEAVY & {name.split(".")[0] for name in run(code).split()}


@pytest.mark.alone
def test_import_is_fast():
    code = (
        "import numpy; from time import perf_counter as now; start = now(); "
        "import hornbeam; print(now() - start)"
    )
    assert min(float(run(code)) for _ in range(3)) <= 0.1


FIRST_TRAINING = """
import sys
import numpy as np
before = set(sys.modules)
import hornbeam
X = np.random.default_rng(0).normal(size=(50, 3))
data = hornbeam.DMatrix(X, X[:, 0] > 0)
hornbeam.train({"objective": "binary:logistic", "nthread": 1}, data, 2).predict(data)
print(*(set(sys.modules) - before))
"""


def test_a_first_training_starts_without_what_it_does_not_need():
    modules = set(run(FIRST_TRAINING).split())
    parts = {".".join(name.split(".")[:3]) for name in modules}
    assert parts.isdisjoint(
        {
            "hornbeam.backends.external",
            "hornbeam.boosting.gblinear",
            "hornbeam.boosting.tree_shap",
            "hornbeam.data.sources",
            "hornbeam.external_memory",
            "hornbeam.forest.model_file",
            "hornbeam.objectives.survival",
        }
    )
    if NATIVE is not None:  # Numba imports most of these
        costly = {"concurrent", "difflib", "logging", "statistics", "subprocess"}
        assert modules.isdisjoint({*costly, "numpy.ma", "zoneinfo", "numba"})


def test_a_worker_of_dask_starts_without_collections():
    pytest.importorskip("distributed")
    code = "import distributed, sys; import hornbeam.dask.cluster; print(*sys.modules)"
    modules = set(run(code).split())
    assert "hornbeam.backends.cluster_rows" in modules
    # They import SciPy or pandas, which takes longer than all else.
    assert modules.isdisjoint({"dask.array", "dask.dataframe"})
