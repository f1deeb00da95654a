"""Loads modules and kernels in the process that those of commands are forked from."""

import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import hornbeam
from hornbeam.__main__ import main

for name in (
    *("hornbeam.distributed.worker_process", "duckdb"),
    *("pyarrow.csv", "pyarrow.parquet"),
    *("scipy.sparse", "sklearn.datasets", "xgboost"),
):
    import_module(name)

# One thread, since the threads of a process are not in those that are forked from it.
rng = np.random.default_rng(0)
rows = rng.normal(size=(300, 3))
data = hornbeam.DMatrix(rows, rows[:, 0] > 0, weight=np.ones(300), nthread=1)
params = {"objective": "binary:logistic", "eval_metric": ["auc", "logloss"]}
booster = hornbeam.train(
    {**params, "nthread": 1}, data, 2, evals=[(data, "a")], verbose_eval=False
)
booster.report(data)

# A command loads what options and files need, which would take longer than most do.
with TemporaryDirectory() as folder, open(os.devnull, "w") as nowhere:
    table, model = Path(folder, "rows.csv"), Path(folder, "model.ubj")
    header = "a,b,c,label"
    labels = rng.integers(2, size=300)
    np.savetxt(table, np.c_[rows, labels], "%.3f", ",", header=header, comments="")
    options = *("--target", "label"), *("--output", str(model)), "nthread=1"
    sys.argv = ["hornbeam", "train", str(table), *options]
    with redirect_stdout(nowhere), redirect_stderr(nowhere):
        try:
            main()
        except SystemExit as end:
            assert end.code == 0, end.code
