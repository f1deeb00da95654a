"""Trains a first model on generated rows, saves it and predicts; needs NumPy alone."""

from __future__ import annotations

import numpy as np

import hornbeam

rng = np.random.default_rng(0)
x = rng.normal(size=(1_000, 10))
y = x[:, 0] * x[:, 1] + np.sin(x[:, 2]) + rng.normal(scale=0.1, size=1_000)
booster = hornbeam.train({"max_depth": 4}, hornbeam.DMatrix(x, y), 50)
error = booster.predict(hornbeam.DMatrix(x)) - y
print(booster, f"RMSE {np.sqrt(np.mean(error**2)):.3f}")
