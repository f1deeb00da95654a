"""Many classes: handwritten digits.

Ten classes, 64 columns with the grey values of small images. The model is judged on a
quarter of the images. The plot shows which digits it confuses, and wrong predictions
with high probabilities. (No package contains the larger data set covtype;
docs/benchmarks.md reads it from an archive.)
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import train_test_split

from hornbeam import HornbeamClassifier

digits = load_digits()
X, X_test, y, y_test = train_test_split(
    digits.data, digits.target, test_size=0.25, random_state=0, stratify=digits.target
)
model = HornbeamClassifier(n_estimators=80, learning_rate=0.15, max_depth=4)
model.fit(X, y)
shares = model.predict_proba(X_test)
found = shares.argmax(axis=1)
print(f"right: {np.mean(found == y_test):.1%} of {len(y_test)} images")
wrong = np.flatnonzero(found != y_test)
surest = wrong[np.argsort(-shares[wrong, found[wrong]])][:6]
print(f"wrong: {len(wrong)}, the surest with {shares[surest[0]].max():.0%}")

figure = plt.figure(figsize=(10, 4.4), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=[1.1, 1])
axes = left.subplots()
table = confusion_matrix(y_test, found)
axes.imshow(np.where(np.eye(10, dtype=bool), np.nan, table), cmap="Reds", vmax=8)
for row, column in np.ndindex(table.shape):
    if table[row, column]:
        colour = "grey" if row == column else "black"
        axes.text(
            column, row, table[row, column], ha="center", va="center", color=colour
        )
axes.set(xlabel="predicted", ylabel="digit", title="Images by digit and prediction")
axes.set_xticks(range(10))
axes.set_yticks(range(10))
for axes, place in zip(right.subplots(2, 3).flat, surest, strict=True):
    axes.imshow(X_test[place].reshape(8, 8), cmap="gray_r")
    share = shares[place].max()
    axes.set_title(f"{y_test[place]}, taken for {found[place]} ({share:.0%})", size=9)
    axes.set_axis_off()
figure.savefig("digits.png", dpi=120)
