"""Tree methods: preparation and memory checks."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("resource", reason="this system has no limits of memory")

#: 32 million entries, of which a quarter is stored.
SCRIPT = """
import json
import resource
import numpy as np
import hornbeam

rng = np.random.default_rng(0)
rows = rng.random((500_000, 64), np.float32)
rows[100_000:, 4:] = np.nan
data = hornbeam.DMatrix(rows, rows[:, 0])
filled = data.num_nonmissing()
few = hornbeam.DMatrix(rows[:1000], rows[:1000, 0])

def train(params, data):
    return hornbeam.train({"nthread": 1, "max_depth": 2, **params}, data, 1)

for method in ("hist", "approx", "exact"):
    train({"tree_method": method}, few)  # whatever is loaded is there now

def taken():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()

def leave(size):
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (taken() + size, hard))

def refused(params):
    before = taken()
    try:
        train(params, data)
    except hornbeam.DataError as error:
        assert taken() - before < filled, taken() - before
        return str(error)
    return ""

def of_little():
    leave(16 * filled)
    yield refused({"tree_method": "exact"})
    yield refused({"tree_method": "approx", "sketch_scope": "local"})
    few_histograms = {"tree_method": "hist", "max_cached_hist_node": 8}
    yield train(few_histograms, data).num_boosted_rounds()
    leave(9 * filled)
    yield refused({"tree_method": "approx"})

def of_entries():
    # Enough memory for the stored entries, but not for a dense table.
    leave(40 * filled)
    yield refused({"tree_method": "exact"})
    yield train({"tree_method": "exact"}, data).num_boosted_rounds()

print(json.dumps([*{limited}()]))
"""


def said(limited):
    """Return what training says with so much memory."""
    command = [sys.executable, "-c", SCRIPT.replace("{limited}", limited)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_training_beyond_the_memory_is_rejected_early():
    exact, local, rounds, approx = said("of_little")
    assert "tree_method='exact' sorts all values in memory" in exact
    assert "135 MB or more for 500,000 rows of 64 columns" in exact
    assert "use tree_method='hist'" in exact
    assert "sketch_scope='local' sorts" in local
    assert "tree_method='approx' sorts" in approx and "80 MB or more" in approx
    assert rounds == 1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_only_stored_entries_need_memory():
    assert said("of_entries") == ["", 1]
