"""The worked diffs of CONTRIBUTING.md apply, and do what the page says."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

SCRIPT = """
import logging
import numpy as np
import hornbeam

lines = []
handler = logging.Handler()
handler.emit = lambda record: lines.append(record.getMessage())
logging.getLogger("hornbeam").addHandler(handler)
logging.getLogger("hornbeam").setLevel(logging.INFO)

x = np.random.default_rng(0).normal(size=(300, 2))
records = np.rec.fromarrays(x.T, names="one,other")
data = hornbeam.DMatrix(records, x[:, 0] ** 2)
assert data.feature_names == ["one", "other"]
history = {}
params = {"objective": "reg:logcosh", "max_depth": 2}
booster = hornbeam.train(
    params, data, 20, evals=[(data, "train")], evals_result=history, verbose_eval=False
)
scores = history["train"]["logcosh"]
assert scores == sorted(scores, reverse=True)
error = booster.predict(data) - x[:, 0] ** 2
np.testing.assert_allclose(scores[-1], np.log(np.cosh(error)).mean(), rtol=1e-5)
assert not lines
logged = hornbeam.train({**params, "device": "logged"}, data, 20)
assert logged.digest() == booster.digest()
assert any(line.endswith("nodes split") for line in lines)
"""


@pytest.fixture
def edited(tmp_path):
    """Return a folder with the package as the diffs of the page make it."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "hornbeam", tmp_path / "hornbeam", ignore=ignored)
    page = (ROOT / "CONTRIBUTING.md").read_text()
    diffs = re.findall(r"```diff\n(.*?)```", page, re.DOTALL)
    assert len(diffs) == 4
    for diff in diffs:
        subprocess.run(
            ["git", "apply", "-"], input=diff, text=True, cwd=tmp_path, check=True
        )
    return tmp_path


def test_the_worked_diffs_apply(edited):
    for path in edited.rglob("*.py"):
        ast.parse(path.read_text())


@pytest.mark.slow
@pytest.mark.whole  # all kernels that a training calls are compiled
def test_the_worked_diffs_work(edited):
    subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=edited,
        env=os.environ | {"PYTHONPATH": str(edited), "HORNBEAM_KERNELS": "jit"},
        check=True,
    )
