"""Data and gradients for tests of training."""

from __future__ import annotations

import numpy as np


def few_values(n_rows=1500, n_columns=6, missing=0.0, seed=0):
    """Return float32 features with at most 60 values per column, and labels.

    With so few values Hornbeam and XGBoost have the same cuts.
    """
    rng = np.random.default_rng(seed)
    rows = rng.integers(60, size=(n_rows, n_columns)).astype(np.float32) / 8
    labels = rows[:, 0] * rows[:, 1] / 10 + 2 * np.sin(rows[:, 2])
    labels += rng.normal(size=n_rows)
    rows[rng.random(rows.shape) < missing] = np.nan
    return rows, labels.astype(np.float32)


def ranked(labels, n_classes):
    """Return the labels as classes 0, 1, 2, ... of equal size."""
    edges = np.arange(1, n_classes) / n_classes
    return np.digitize(labels, np.quantile(labels, edges)).astype(np.float64)


def softmax_gradients(margins, data):
    """Return the gradients and hessians of softmax, as a custom objective."""
    expected = np.eye(margins.shape[1])[data.get_label().astype(int)]
    odds = np.exp(margins - margins.max(axis=1, keepdims=True))
    shares = odds / odds.sum(axis=1, keepdims=True)
    return shares - expected, np.maximum(2 * shares * (1 - shares), 1e-6)


def squared_gradients(margins, data):
    """Return the gradients and hessians of the squared error."""
    return margins - data.get_label(), np.ones_like(margins)
