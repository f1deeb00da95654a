"""Partial dependence of predictions on one or two features (Friedman 2001).

For one feature also individual conditional expectation (Goldstein et al. 2015).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from hornbeam.data.dmatrix import DMatrix
from hornbeam.errors import DataError, ErrorCode, ParameterError, short_traceback
from hornbeam.explain.columns import Column
from hornbeam.explain.node_text import Float64s
from hornbeam.explain.subject import Subject
from hornbeam.explain.tree_reader import Boosted

__all__ = ["PartialDependence", "partial_dependence"]

#: Table values that are predicted in one call.
_BATCH = 1 << 23
_GRID_SIZES = (60, 20)
_PERCENTILES = (0.01, 0.99)


@dataclass(frozen=True, slots=True)
class PartialDependence:
    """Predictions for rows with one or two features set to the values of a grid.

    Parameters
    ----------
    columns
        The features with their values in the data.
    grids
        Grid values of each feature in ascending order; category codes.
    individual
        (rows, grid points): predictions of each row; None for two features.
    average
        (points,), or (points, points) for two features: weighted means over the rows.
    missing
        The mean with the feature set to missing; None if no row misses it, or for two
        features.
    output
        Name of the output, "" if it has none.
    margins
        Whether the predictions are margins.
    """

    columns: list[Column]
    grids: list[Float64s]
    individual: Float64s | None
    average: Float64s
    missing: float | None
    output: str
    margins: bool

    def centred(self) -> PartialDependence:
        """Return the differences from the first grid point."""
        start = self.average.flat[0]
        lines = self.individual
        return replace(
            self,
            individual=None if lines is None else lines - lines[:, :1],
            average=self.average - start,
            missing=None if self.missing is None else self.missing - start,
        )


@short_traceback
def partial_dependence(
    model: Boosted,
    data: Any,
    features: str | int | Sequence[str | int],
    *,
    output: str | int | None = None,
    margins: bool = False,
    grid: int | Sequence[Any] | None = None,
    percentiles: tuple[float, float] = _PERCENTILES,
    max_rows: int | None = 2000,
    class_names: Sequence[Any] | None = None,
) -> PartialDependence:
    """Return the partial dependence of predictions on one or two features.

    Each row is predicted once for each grid point, with all other features unchanged.

    Parameters
    ----------
    model
        A `Booster`, or a fitted estimator.
    data
        A `DMatrix`, or anything that `DMatrix` accepts. Its weights are used.
    features
        One or two features by name or index.
    output
        Name or index of the output, where there are several classes, targets or
        quantiles.
    margins
        Whether to predict margins.
    grid
        Maximum number of grid values (None: 60 for one feature, 20 for each of two):
        evenly spaced quantiles, or the most frequent categories. For one feature the
        grid values themselves are also accepted, categories by name.
    percentiles
        Lower and upper percentile, as shares, between which quantiles are taken.
    max_rows
        Maximum number of rows, evenly spaced over the data; None: all.
    class_names
        Names of the outputs; None: the classes of the estimator.

    Raises
    ------
    ParameterError
        If the model has no such feature or output, or the grid is empty.
    DataError
        If a feature has no values.

    Examples
    --------
    >>> from hornbeam import HornbeamRegressor
    >>> from hornbeam.explain import partial_dependence
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = HornbeamRegressor(n_estimators=30, max_depth=3).fit(X[:300], y[:300])
    >>> found = partial_dependence(model, X, "bmi", grid=[-0.05, 0, 0.05])
    >>> found.average.round()
    array([142., 142., 169.])
    """
    subject = Subject(model, data, class_names=class_names, margins=margins)
    asked: list[Any] = [features]
    if isinstance(features, Sequence | np.ndarray) and not isinstance(features, str):
        asked = list(features)
    chosen = [subject.feature(feature) for feature in asked]
    if len(chosen) not in (1, 2) or len(set(chosen)) < len(chosen):
        raise ParameterError(
            f"features must be one feature or two different ones, not {features!r}",
            code=ErrorCode.INVALID_PARAMETER_TYPE,
        )
    place = subject.output(output)
    columns = subject.columns(chosen)
    grids = _grids(columns, grid, percentiles)

    subject = subject.spread(max_rows)
    points = np.array(list(product(*grids)))
    has_missing = len(chosen) == 1 and bool(np.isnan(columns[0].values).any())
    if has_missing:
        points = np.concatenate([points, [[np.nan]]])
    found = _predicted(subject, chosen, points, place, margins)
    means = np.average(found, axis=0, weights=subject.weights)
    size = [len(values) for values in grids]
    n_points = int(np.prod(size))
    return PartialDependence(
        columns,
        grids,
        found[:, :n_points] if len(chosen) == 1 else None,
        means[:n_points].reshape(size),
        float(means[-1]) if has_missing else None,
        subject.output_label(place),
        margins,
    )


def _grids(
    columns: Sequence[Column], grid: Any, percentiles: tuple[float, float]
) -> list[Float64s]:
    """Return the grid values of each feature."""
    for column in columns:
        if not column.known.size:
            raise DataError(
                f"the feature {column.name!r} has no values in this data",
                code=ErrorCode.EMPTY_DATA,
            )
    low, high = percentiles
    if not 0.0 <= low < high <= 1.0:
        raise ParameterError(
            f"percentiles must be two shares that rise, from 0 to 1, not {percentiles}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )
    if grid is None:
        grid = _GRID_SIZES[len(columns) - 1]
    if isinstance(grid, int | np.integer):
        if grid < 2:
            raise ParameterError(
                f"grid must be 2 points or more, not {grid}",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
        return [column.grid(int(grid), percentiles) for column in columns]
    if len(columns) > 1:
        raise ParameterError(
            "a grid of values is for one feature; give the number of points for two",
            code=ErrorCode.CONFLICTING_PARAMETERS,
        )
    return [_given(columns[0], list(grid))]


def _given(column: Column, values: list[Any]) -> Float64s:
    """Return grid values given by the caller, with categories as codes."""
    if column.levels is not None:
        unknown = [value for value in values if str(value) not in column.levels]
        if unknown:
            raise ParameterError(
                f"{unknown[0]!r} is not a category of {column.name!r}",
                code=ErrorCode.UNKNOWN_OPTION,
            )
        values = [column.levels.index(str(value)) for value in values]
    found = np.unique(np.asarray(values, np.float64))
    if not found.size or not np.isfinite(found).all():
        raise ParameterError(
            "the values of a grid must be numbers, and one at least",
            code=ErrorCode.INVALID_PARAMETER_TYPE,
        )
    return found


def _predicted(
    subject: Subject,
    features: list[int],
    points: Float64s,
    output: int,
    margins: bool,
) -> Float64s:
    """Return predictions, (rows, points), computed for many points in one call."""
    data = subject.data
    n_rows, base = data.num_row(), data.base_margin
    block = data.rows(0, n_rows)
    found = np.empty((n_rows, len(points)))
    together = max(1, _BATCH // block.size)
    for start in range(0, len(points), together):
        part = points[start : start + together]
        table = np.tile(block, (len(part), 1))
        for feature, values in zip(features, part.T, strict=True):
            table[:, feature] = np.repeat(values, n_rows)
        changed = DMatrix(
            table,
            feature_types=data.feature_types,
            base_margin=None if base is None else np.concatenate([base] * len(part)),
        )
        changed.derived = data.derived
        values = subject.of_data(changed).values(margins=margins)[:, output]
        found[:, start : start + together] = values.reshape(len(part), -1).T
    return found
