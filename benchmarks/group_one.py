"""Train as one process of a group, once for each line of the standard input.

`benchmarks.ray_cluster` runs it in a folder with the rows of each process. Arguments:
host, port and token of the tracker, parameters and rounds as JSON, and the rank. It
prints an empty line once kernels are loaded, and the digest of each model.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

import hornbeam
from hornbeam.distributed.group import member

#: The rows and the rounds of the training that loads kernels.
_WARM_UP = slice(0, 1000), 1


def trained(x: Any, y: Any, params: dict[str, Any], rounds: int) -> str:
    """Train on the rows of all processes; return the digest."""
    n_columns = x.shape[1]
    data = hornbeam.DMatrix(
        x,
        y,
        feature_names=[f"f{n}" for n in range(n_columns)],
        feature_types=["float"] * n_columns,
    )
    return hornbeam.train(params, data, rounds, verbose_eval=False).digest()


def main() -> None:
    """Join the group, train whenever asked to, and print the digests."""
    host, port, token, job, rank = sys.argv[1:]
    params, rounds = json.loads(job)
    with member(host, int(port), token, task=rank):
        x, y = (np.load(f"{name}{rank}.npy", mmap_mode="r") for name in "xy")
        few, one = _WARM_UP
        trained(x[few], y[few], params, one)
        print(flush=True)
        for _ in sys.stdin:
            x, y = (np.load(f"{name}{rank}.npy") for name in "xy")
            print(trained(x, y, params, rounds), flush=True)


if __name__ == "__main__":
    main()
