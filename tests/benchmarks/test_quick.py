"""The short benchmark marks what became slower than in the last release."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from benchmarks.quick import BASELINE, CASES, TOLERANCE, figure, report, slowdown


def printed(found, baseline):
    """Return what the report prints."""
    text = io.StringIO()
    report(found, baseline, Console(file=text, width=130))
    return text.getvalue()


def test_only_a_loss_above_the_tolerance_is_a_slowdown():
    assert slowdown(now=2.0, before=2.0 * (1 + TOLERANCE) - 0.01) is None
    assert slowdown(now=2.5, before=2.0) is None
    assert slowdown(now=2.0, before=2.4) == pytest.approx(0.2)


def test_the_report_compares_ratios_and_not_seconds():
    fast = {"hornbeam": 1.0, "xgboost": 3.0}
    # A machine half as fast, where Hornbeam lost a quarter in addition.
    found = {
        "rows-50k": {"hornbeam": 2.0, "xgboost": 6.0},
        "wide": {"hornbeam": 2.5, "xgboost": 6.0},
        "start": {"hornbeam": 2.5, "xgboost": 6.0},
    }
    lines = printed(found, {"rows-50k": fast, "wide": fast}).splitlines()
    (marked,) = (line for line in lines if "SLOWER by" in line)
    assert CASES["wide"].title in marked
    assert "25%" in marked
    assert "1 of 3 cases" in lines[-1]
    assert "SLOWER" not in printed({"rows-50k": found["rows-50k"]}, {"rows-50k": fast})


def test_every_case_of_the_baseline_is_one_of_the_list():
    baseline = json.loads(BASELINE.read_text())
    assert baseline["cases"].keys() <= CASES.keys()
    assert all(figure(seconds) > 0 for seconds in baseline["cases"].values())
    assert baseline["machine"]["versions"]["hornbeam"]
