"""The model of a training on a cluster, compared with docs/scale.md and a real one."""

import subprocess
import sys
from pathlib import Path

import pytest

from hornbeam.distributed.scale import (
    MEASURED,
    Cluster,
    Job,
    estimate,
    exchange_of,
    least_workers,
    memory_of,
    traffic_of,
)

TRAIN = """
import re
from pathlib import Path
import numpy as np
import hornbeam

def peak():
    # Not ru_maxrss, in which the memory of the parent process counts.
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", status)[1])

def train(rows):
    rng = np.random.default_rng(0)
    x = rng.random((rows, 20), np.float32)
    data = hornbeam.DMatrix(x, x[:, 0] + x[:, 1])
    hornbeam.train({"nthread": 1}, data, 2, verbose_eval=False)

train(1000)
before = peak()
train(400_000)
print(peak() - before)
"""


@pytest.mark.parametrize(
    ("rows", "features", "workers", "exchange", "seconds"),
    [
        (1e9, 28, 100, "star", 0.55),
        (1e9, 28, 100, "tree", 0.21),
        (1e9, 28, 1000, "halving", 0.26),
        (1e11, 1000, 1000, "slices", 21.4),
        (1e11, 28, 10, "tree", 1520),
    ],
)
def test_rounds_take_what_the_page_says(rows, features, workers, exchange, seconds):
    found = estimate(Job(rows, features), Cluster(workers), MEASURED, exchange)
    assert found.seconds == pytest.approx(seconds, rel=0.06)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
def test_memory_is_that_of_a_real_training():
    command = [sys.executable, "-c", TRAIN]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    expected = memory_of(Job(400_000, 20), 1)
    assert 0.5 < (expected.values + expected.rows) / float(done.stdout) < 2


def test_memory_falls_and_traffic_rises_with_the_workers():
    job = Job(1e9, 200)
    few, many = memory_of(job, 10), memory_of(job, 20)
    assert few.rows == 2 * many.rows
    assert few.histograms == many.histograms
    cluster = Cluster(least_workers(job, Cluster(1)))
    assert memory_of(job, cluster.workers).most <= cluster.memory
    assert memory_of(job, cluster.workers - 1).most > cluster.memory
    star = [traffic_of(job, Cluster(n), "star") for n in (2, 4)]
    assert star[1] == 2 * star[0]
    assert traffic_of(job, Cluster(1), "group") == 0
    group = [traffic_of(job, Cluster(n), "group") for n in (4, 5, 64)]
    assert group == [group[0], 1.5 * group[0], 3 * group[0]]


def test_engines_add_histograms_in_their_way():
    assert [exchange_of("dask", n) for n in (15, 16)] == ["star", "tree"]
    assert exchange_of("ray", 100) == exchange_of("spark", 2) == "group"
