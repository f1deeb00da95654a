"""Train as one process of a group, and print the digest of the model.

`benchmarks.ray_cluster` runs it in a folder with the rows of each process. Arguments:
host, port and token of the tracker, parameters and rounds as JSON, and the rank.
"""

from __future__ import annotations

import json
import sys

import numpy as np

import hornbeam
from hornbeam.distributed.group import join, leave


def main() -> None:
    """Join the group, train, and print the digest."""
    host, port, token, job, rank = sys.argv[1:]
    params, rounds = json.loads(job)
    join(host, int(port), token, task=rank)
    try:
        x, y = (np.load(f"{name}{rank}.npy") for name in "xy")
        n_columns = x.shape[1]
        data = hornbeam.DMatrix(
            x,
            y,
            feature_names=[f"f{n}" for n in range(n_columns)],
            feature_types=["float"] * n_columns,
        )
        model = hornbeam.train(params, data, rounds, verbose_eval=False)
    finally:
        leave()
    print(model.digest())


if __name__ == "__main__":
    main()
