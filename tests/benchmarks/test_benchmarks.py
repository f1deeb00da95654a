"""Every benchmark runs, on few rows, and leaves its result."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest
from command_line import start_process

#: The benchmarks that draw a plot.
DRAWN = ("fit", "threads")
ROOT = Path(__file__).parents[2]
FEW = ["--rows", "3000", "--repeats", "1", "--threads", "1"]
#: `make test-slow` runs one in five of them.
SCRIPTS = {
    "binning": FEW,
    "histogram": FEW,
    "partition": FEW,
    "split": FEW,
    "start": ["--repeats", "1", "--rounds", "2"],
    "external_memory": [
        "--rows",
        "3000",
        "--rounds",
        "2",
        "--batch",
        "700",
        "--threads",
        "1",
    ],
    "cluster": ["--rows", "3000", "--repeats", "1", "--rounds", "4"],
    "gpu": [
        *("--rows", "3000", "--rounds", "2", "--repeats", "1", "--depths", "3"),
        *("--device", "opencl:0:0", "--group-size", "64", "--short-atomics"),
    ],
    "scale": ["--rows", "3000", "--repeats", "1"],
    "picture": [
        *(
            "--rows",
            "3000",
            "--rounds",
            "3",
            "--repeats",
            "1",
            "--pictures",
            "HERE",
            "--pages",
        ),
        *("--libraries", "hornbeam", "xgboost"),
    ],
    "predict": [*FEW[:4], "--trees", "3", "--peers", "xgboost"],
    "objectives": [
        *("--rows", "300", "--rounds", "2", "--seeds", "2", "--repeats", "1"),
        *("--measure", "losses", "times"),
        *("--objectives", "survival:aft", "survival:cox"),
    ],
    "contributions": [*FEW[:4], "--trees", "3", "--depths", "3"],
    "forests": ["--rows", "600", "--repeats", "1", "--trees", "2"],
    "tasks": ["--rows", "3000", "--repeats", "1", "--rounds", "3"],
    "threads": [
        *("--rows", "3000", "--rounds", "3", "--repeats", "1", "--threads", "1", "2"),
        *("--sets", "made-50k", "--libraries", "hornbeam"),
    ],
    "cuts": ["--sets", "made-noisy", "--seeds", "2", "--rounds", "2"],
    "quick": ["--cases", "rows-1k", "predict-one", "--seconds", "0"],
    "bags": ["--sets", "openintro/satgpa,ISLR/OJ", "--rows", "300", "--repeats", "1"],
    "sparse": [*FEW, "--rounds", "3", "--libraries", "hornbeam"],
    "fit": [*FEW, "--rounds", "3", "--sets", "made-1k", "--libraries", "hornbeam"],
    "quality": [
        *("--sets", "openintro/satgpa,ISLR/OJ", "--rows", "300"),
        *("--libraries", "hornbeam", "xgboost"),
    ],
}


@pytest.mark.slow
@pytest.mark.repeats
@pytest.mark.parametrize("script", SCRIPTS)
def test_benchmark_runs(script, tmp_path, monkeypatch):
    options = [*SCRIPTS[script], "--output", str(tmp_path)]
    options = [str(tmp_path) if option == "HERE" else option for option in options]
    # These reach the process, which has imported and loaded what most of them need.
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.setattr(sys, "argv", [script, *options])
    module = f"benchmarks.{script}"
    process = start_process(runpy.run_module, module, None, "__main__", True)
    process.join()
    assert process.exitcode == 0
    (path,) = tmp_path.glob(f"{script}-*.json")
    result = json.loads(path.read_text())
    assert result["machine"]["cores"] >= 1
    assert not any("error" in run for run in result.get("runs", []))
    assert (tmp_path / path.with_suffix(".png").name).exists() == (script in DRAWN)
