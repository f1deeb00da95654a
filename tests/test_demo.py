"""The demo of the README runs and writes its files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import command

import hornbeam

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_the_demo(tmp_path):
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "flights.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "AUC" in done.stdout
    booster = hornbeam.Booster(model_file=tmp_path / "demo-output" / "flights.ubj")
    assert "EWR" in booster.get_categories().of(booster.feature_names.index("origin"))
    assert (tmp_path / "demo-output" / "learning-curve.png").stat().st_size > 10_000
    assert "<html" in (tmp_path / "demo-output" / "flights.html").read_text()
    line = next(line for line in done.stdout.splitlines() if "hornbeam predict" in line)
    _, *arguments = line.split()
    predicted = command(*arguments, cwd=tmp_path)
    assert predicted.returncode == 0, predicted.stderr
    assert len(predicted.stdout.splitlines()) == 1001
