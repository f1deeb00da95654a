"""Reads constraints from parameters, which name features or number them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import Constraints
from hornbeam.data.schema import column_label, listed
from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.forest.model import Model
from hornbeam.forest.tree import Tree
from hornbeam.params import Parameters

__all__ = ["constraints_of"]


def constraints_of(
    parameters: Parameters, model: Model, n_features: int, trees: Sequence[Tree] = ()
) -> Constraints | None:
    """Return the constraints of the next tree; None if there are none.

    Parameters
    ----------
    parameters, model
        Of the training.
    n_features
        Of its data.
    trees
        Those that this round has grown, in addition to those of the model.
    """
    p, names = parameters, model.feature_names
    groups = directions = costs = None
    if p.interaction_constraints:
        groups = _sets(p.interaction_constraints, n_features, names)
    if p.monotone_constraints:
        directions = _directions(p.monotone_constraints, n_features, model)
    if p.feature_costs:
        costs = _by_feature("feature_costs", p.feature_costs, n_features, names)
        if p.feature_costs_for == "model":
            for tree in (*model.trees, *trees):
                costs[tree.feature[tree.left >= 0]] = 0.0
    if groups is None and directions is None and costs is None:
        return None
    follows = p.monotone_constraints_method == "intermediate"
    return Constraints(groups, directions, directions is not None and follows, costs)


def _sets(
    given: Sequence[Sequence[Any]], n_features: int, names: Sequence[str]
) -> NDArray[np.uint64]:
    """Return the sets of features as bits, (sets, words)."""
    bits = np.zeros((len(given), -(-n_features // 64) * 64), np.uint8)
    for own, features in zip(bits, given, strict=True):
        own[_numbers("interaction_constraints", features, n_features, names)] = 1
    return np.packbits(bits, axis=1, bitorder="little").view("<u8").astype(np.uint64)


def _directions(given: Any, n_features: int, model: Model) -> NDArray[np.int8] | None:
    """Return 1, 0 or -1 for each feature, (features,); None if all are 0."""
    names = model.feature_names
    directions = _by_feature("monotone_constraints", given, n_features, names)
    for feature in np.flatnonzero(directions).tolist():
        if model.feature_types and model.feature_types[feature] == "c":
            raise ParameterError(
                f"monotone_constraints has a direction for "
                f"{column_label(names, feature)}, whose values are categories and have "
                "no order; make it 0, or the column a number",
                code=ErrorCode.CATEGORICAL_UNSUPPORTED,
                learner="`monotone_constraints`",
            )
    return directions.astype(np.int8) if directions.any() else None


def _by_feature(
    parameter: str, values: Sequence[Any], n_features: int, names: Sequence[str]
) -> NDArray[np.float64]:
    """Return a number for each feature, (features,).

    `values` are pairs of feature and number, or the numbers of the first features; all
    other features get 0.
    """
    found = np.zeros(n_features)
    if isinstance(values[0], tuple):
        features, numbers = zip(*values, strict=True)
        found[_numbers(parameter, features, n_features, names)] = numbers
        return found
    if len(values) > n_features:
        raise ParameterError(
            f"{parameter} has {len(values)} numbers, but the training data has "
            f"{n_features} features; give one for each, or a dict by name",
            code=ErrorCode.MONOTONE_CONSTRAINTS_TOO_LONG
            if parameter == "monotone_constraints"
            else ErrorCode.PARAMETER_OUT_OF_RANGE,
        )
    found[: len(values)] = values
    return found


def _numbers(
    parameter: str, features: Sequence[Any], n_features: int, names: Sequence[str]
) -> NDArray[np.intp]:
    """Return the indices of features, which are given by name or index."""
    known: dict[int | str, int] = {name: number for number, name in enumerate(names)}
    known |= {number: number for number in range(n_features)}
    unknown = [feature for feature in features if feature not in known]
    if unknown:
        there_are = listed(names) if names else f"0 to {n_features - 1}"
        raise ParameterError(
            f"{parameter} names {unknown[0]!r}, which is no feature of the training "
            f"data; there are: {there_are}",
            code=ErrorCode.CONSTRAINT_UNKNOWN_FEATURE
            if parameter.endswith("_constraints")
            else ErrorCode.UNKNOWN_FEATURE,
        )
    return np.array([known[feature] for feature in features], np.intp)
