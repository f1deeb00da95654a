"""Without a package, one error names the extra to install.

One process trains a model and explains it, for which it needs none of these packages.
Each case runs in a fork of it where a package is absent.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from hornbeam import explain

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")

PICTURES = [name for name in explain.__all__ if name.startswith("plot_")]
REPORT = "booster.report(data)"
#: The package that is absent, what needs it, the extra, and other words of the error.
CASES = [
    *(
        ("matplotlib", f"hornbeam.explain.{name}(None)", "plot", name)
        for name in PICTURES
    ),
    ("matplotlib", "hornbeam.xgboost.plot_importance(None)", "plot", ""),
    ("matplotlib", "hornbeam.xgboost.plot_tree(None)", "plot", ""),
    ("graphviz", "hornbeam.explain.to_graphviz(None)", "plot", ""),
    ("jinja2", REPORT, "report", "'jinja2', which is not installed"),
    ("matplotlib", REPORT, "report", "'matplotlib', which is not installed"),
    ("onnx", "booster.export('model.onnx')", "onnx", ""),
    ("optuna", "hornbeam.OptunaPruning(None, 'valid-rmse')", "optuna", ""),
    ("pyopencl", "hornbeam.train({'device': 'gpu'}, data, 1)", "gpu", ""),
    ("distributed", "import hornbeam.dask", "dask", "dask"),
    ("dask", "import hornbeam.dask", "dask", "dask"),
    ("distributed", "import hornbeam.xgboost.dask", "dask", "dask"),
    ("ray", "import hornbeam.ray", "ray", "ray"),
    ("pyspark", "import hornbeam.spark", "spark", "spark"),
    ("pyarrow", "import hornbeam.spark", "spark", "spark"),
    ("pyspark", "import hornbeam.xgboost.spark", "spark", "spark"),
]
SCRIPT = """
import json, os, sys
import numpy as np
import hornbeam
import hornbeam.explain
import hornbeam.xgboost

cases = json.loads(sys.argv[1])
data = hornbeam.DMatrix(np.arange(60.0).reshape(-1, 2), np.arange(30.0), nthread=1)
booster = hornbeam.train({"nthread": 1}, data, 2)
hornbeam.explain.residuals_of(booster, data).trend()
hornbeam.explain.partial_dependence(booster, data, 0).centred()
hornbeam.explain.contributions_of(booster, data).ranked()
assert hornbeam.explain.tree_text(booster).startswith("f")
loaded = sorted({package for package, _ in cases} & set(sys.modules))
print(json.dumps(loaded), flush=True)
for package, code in cases:
    if os.fork() == 0:
        sys.modules[package], found = None, ["nothing", ""]
        try:
            exec(code)
        except Exception as error:
            found = [getattr(error, "code", "none"), str(error)]
        print(json.dumps(found), flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.fixture(scope="module")
def said():
    """Return what the process says, line by line."""
    given = json.dumps([case[:2] for case in CASES])
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, given]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_numbers_need_none_of_these_packages(said):
    assert said[0] == []


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case[1] for case in CASES])
def test_the_error_names_the_extra(number, said):
    _, _, extra, words = CASES[number]
    code, error = said[1 + number]
    assert code == "missing_extra", error
    assert f'pip install "hornbeam[{extra}]"' in error
    assert words in error
