"""Compact JSON of the trees for the tree viewer of the page."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from hornbeam.boosting.booster import Booster
from hornbeam.explain.node_text import NodeText
from hornbeam.explain.report.rows import Rows, generator, taken
from hornbeam.explain.report.task import Task

__all__ = ["TreeData", "tree_data"]

#: Maximum number of characters of trees and rows: three of a page's five megabytes.
_MOST = 3_000_000
_ROWS = 12
_DIGITS = 5
#: Maximum number of categories of a split that are listed.
_MOST_CATEGORIES = 12


@dataclass(frozen=True)
class TreeData:
    """JSON for the tree viewer, and the number of trees in it."""

    text: str
    shown: int
    trees: int
    rounds: int


def tree_data(
    booster: Booster, rows: Rows, task: Task, names: list[str], seed: int
) -> TreeData | None:
    """Return the JSON of the first trees that fit; None without trees.

    It includes a sample of rows with their leaf in each tree.
    """
    model = booster.model
    if not model.trees:
        return None
    first: list[dict[str, Any]] = []
    size = 0
    for number, tree in enumerate(model.trees):
        words = NodeText(
            tree,
            names,
            model.categories,
            most_categories=_MOST_CATEGORIES,
        )
        entry = _tree(words, float(model.weights[number]))
        text = json.dumps(entry, separators=(",", ":"))
        size += len(text)
        if first and size > _MOST:
            break
        first.append(entry)
    rounds = np.searchsorted(model.round_starts, np.arange(len(first)), side="right")
    outputs = [
        -1 if model.trees[number].leaf_size > 1 else model.tree_output[number]
        for number in range(len(first))
    ]
    data = {
        "features": names,
        "outputs": _outputs(booster, task),
        "trees": first,
        "rounds": (rounds - 1).tolist(),
        "of": outputs,
        "rows": _rows(booster, rows, names, len(first), seed),
    }
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    return TreeData(text, len(first), len(model.trees), model.n_rounds)


def _tree(words: NodeText, weight: float) -> dict[str, Any]:
    """Return the nodes of a tree as columns.

    The columns are: the yes and no children, -1 at leaves; the feature; the condition
    without the feature name; whether missing values follow yes; gain, cover and value.
    """
    tree = words.tree
    nodes = range(tree.n_nodes)
    inner = [not words.is_leaf(node) for node in nodes]
    branches = [words.branches(n) if inner[n] else (-1, -1) for n in nodes]
    return {
        "y": [yes for yes, _ in branches],
        "n": [no for _, no in branches],
        "f": tree.feature.tolist(),
        "q": [words.question(node) if inner[node] else "" for node in nodes],
        "m": [int(inner[n] and "missing" in words.answers(n)[0]) for n in nodes],
        "g": [_short(value) for value in tree.gain.tolist()],
        "c": [_short(value) for value in tree.cover.tolist()],
        "v": [
            [_short(part) for part in value]
            if isinstance(value, list)
            else _short(value)
            for value in (tree.value * np.float32(weight)).tolist()
        ],
    }


def _short(value: float) -> float | None:
    """Return a number with few digits; None where it is NaN."""
    if not np.isfinite(value):
        return None
    whole = round(value)
    if value == whole and abs(value) < 1e9:
        return int(whole)
    return float(f"{value:.{_DIGITS}g}")


def _outputs(booster: Booster, task: Task) -> list[str]:
    if task.kind == "binary":
        return []
    if booster.objective.margin_names:
        return list(booster.objective.margin_names)
    return task.outputs if booster.model.n_outputs > 1 else []


def _rows(
    booster: Booster, rows: Rows, names: list[str], n_trees: int, seed: int
) -> list[dict[str, Any]]:
    """Return rows with their values as text, and their leaf in each tree."""
    n_rows = rows.n_rows
    draws = generator(seed, "rows of the viewer").permutation(n_rows)[:_ROWS]
    numbers = np.sort(draws)
    values = np.stack(
        [rows.column(feature)[numbers] for feature in range(len(names))], axis=1
    )
    picked = taken(rows.matrix, numbers)
    leaves = booster.predict(picked, pred_leaf=True).reshape(len(numbers), -1)
    predictions = rows.predictions[numbers]
    labels = None if rows.labels is None else rows.labels[numbers]
    levels = booster.get_categories()
    found = []
    for place, number in enumerate(numbers.tolist()):
        said: list[Any] = []
        for feature, value in enumerate(values[place].tolist()):
            known = levels.of(feature)
            if np.isnan(value):
                said.append(None)
            elif known is not None:
                said.append(str(known[int(value)]))
            else:
                said.append(_short(value))
        found.append(
            {
                "n": number,
                "x": said,
                "y": None if labels is None else np.round(labels[place], 6).tolist(),
                "p": [_short(p) for p in np.ravel(predictions[place]).tolist()],
                "leaf": leaves[place, :n_trees].astype(int).tolist(),
            }
        )
    return found
