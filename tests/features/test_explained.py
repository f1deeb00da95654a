"""Explanations and reports show derived features under their formulas."""

from __future__ import annotations

import numpy as np
import pytest
from derived_data import FORMULAS, frame, matrix

import hornbeam
from hornbeam.explain import contributions_of, partial_dependence
from hornbeam.features.matrix import derive


@pytest.fixture(scope="module")
def booster():
    return hornbeam.train({"max_depth": 3}, derive(matrix(500), FORMULAS), 8)


def test_partial_dependence_on_a_formula_and_on_a_column(booster):
    X, labels = frame(100, seed=1)
    of_formula = partial_dependence(booster, hornbeam.DMatrix(X, labels), "a * b")
    assert np.ptp(of_formula.average) > 1.0
    of_column = partial_dependence(booster, hornbeam.DMatrix(X, labels), "c")
    assert len(of_column.average) == 12


def test_contributions_are_those_of_all_features(booster):
    found = contributions_of(booster, matrix(50, seed=1))
    assert found.values.shape == (50, 3 + len(FORMULAS))
    assert "a * b" in [found.columns[place].name for place in found.ranked(2)]


def test_a_report_names_the_formulas(tmp_path):
    few = derive(matrix(500), ["a * b", "mean(label | c)"])  # each has its pictures
    booster = hornbeam.train({"max_depth": 3}, few, 3)
    path = booster.report(matrix(200, seed=1), path=tmp_path / "report.html")
    text = path.read_text()
    assert "a * b" in text
    assert "mean(label | c)" in text
