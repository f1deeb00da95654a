"""Imports and loads what workers need, in the process that they are forked from."""

import distributed  # noqa: F401
import numpy as np
import pandas as pd  # noqa: F401

import hornbeam
import hornbeam.dask.training
import hornbeam.distributed.shard

# Loads kernels, on one thread: a fork has no others.
_data = hornbeam.DMatrix(np.arange(40.0).reshape(20, 2), np.arange(20.0), nthread=1)
hornbeam.train({"nthread": 1}, _data, 2, verbose_eval=False)
