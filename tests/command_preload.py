"""Loads modules and kernels in the process that those of commands are forked from."""

from importlib import import_module

import numpy as np

import hornbeam

for name in (
    *("hornbeam.cli.app", "hornbeam.cli.training", "duckdb", "pydantic"),
    "hornbeam.distributed.worker_process",
    *("pyarrow.csv", "pyarrow.parquet"),
    *("scipy.sparse", "sklearn.datasets", "xgboost"),
):
    import_module(name)

rows = np.random.default_rng(0).normal(size=(300, 3))
# One thread, since the threads of a process are not in those that are forked from it.
data = hornbeam.DMatrix(rows, rows[:, 0] > 0, weight=np.ones(300), nthread=1)
params = {"objective": "binary:logistic", "eval_metric": ["auc", "logloss"]}
booster = hornbeam.train(
    {**params, "nthread": 1}, data, 2, evals=[(data, "a")], verbose_eval=False
)
booster.report(data)
