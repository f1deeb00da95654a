"""Matrices with derived features: of all rows, and of the parts of a fold."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.binning.bin_table import Binned, bin_table, bin_with_cuts
from hornbeam.binning.cuts import ColumnCuts
from hornbeam.binning.dense import DenseMatrix
from hornbeam.binning.sparse import stays_sparse
from hornbeam.data.containers.from_numpy import ArrayTable
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.quantile_dmatrix import QuantileDMatrix
from hornbeam.data.schema import listed, times_of
from hornbeam.data.table import Table
from hornbeam.errors import DataError, ErrorCode, ParameterError, short_traceback
from hornbeam.features.derived import DerivedFeatures, DerivedTable, as_column
from hornbeam.features.expansion import (
    columns_of,
    parts_that_vary,
    spans_of,
    with_parts,
)
from hornbeam.features.formulas import DatePart, TrainingRows, names_of, parse

__all__ = [
    "DerivedMatrix",
    "Recipe",
    "derive",
    "derived_fold",
    "expand_times",
    "expanded",
    "reason_against",
    "with_derived",
]

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]


class Recipe(NamedTuple):
    """Derived features before they are fitted to rows.

    Attributes
    ----------
    formulas
        Their texts (see `hornbeam.features.formulas`).
    replaced
        Columns of the data that trees do not split on, as a formula replaces them.
    seed
        Of the permutations of ordered statistics.
    """

    formulas: tuple[str, ...]
    replaced: tuple[int, ...] = ()
    seed: int = 0

    def with_more(self, other: Recipe) -> Recipe:
        """Return a recipe that has the formulas of another as well."""
        formulas = dict.fromkeys([*self.formulas, *other.formulas])
        replaced = {*self.replaced, *other.replaced}
        return Recipe(tuple(formulas), tuple(sorted(replaced)), self.seed)


@short_traceback
def derive(
    data: DMatrix,
    formulas: Sequence[str],
    *,
    replaced: Sequence[str] = (),
    seed: int = 0,
) -> DerivedMatrix:
    """Return training data with derived features, which its models will compute.

    A booster that is trained on it keeps the formulas, in its file, too: it predicts
    from, and is evaluated on, matrices that have the columns of `data`.

    Parameters
    ----------
    data
        A `DMatrix` in memory, with labels if a formula has them.
    formulas
        Of the names of columns: ``"a - b"``, ``"a * b"``, ``"a / b"``,
        ``"a - mean(a | c)"``, ``"mean(label | c)"``, or ``"mean(label = 2 | c, d)"``
        for the share of a class. Here c and d are categorical. Columns without names
        are called f0, f1, and so on.
    replaced
        Names of columns that trees do not split on.
    seed
        Of the permutations whose ordered statistics are the mean labels of training
        rows.

    Raises
    ------
    DataError
        If the rows are in a stream or in external memory, or have no values.
    ParameterError
        If a formula is not valid.

    Examples
    --------
    >>> import hornbeam
    >>> import numpy as np
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"debt": rng.random(500), "income": 1 + rng.random(500)})
    >>> y = table["debt"] / table["income"] > 0.4
    >>> data = hornbeam.derive(hornbeam.DMatrix(table, y), ["debt / income"])
    >>> booster = hornbeam.train(
    ...     {"objective": "binary:logistic", "max_depth": 1}, data, 5
    ... )
    >>> booster.get_score()
    {'debt / income': 5.0}
    """
    names = names_of(data.schema)
    unknown = [name for name in replaced if name not in names]
    if unknown:
        raise ParameterError(
            f"replaced has {listed(unknown)}, which are not among the columns "
            f"{listed(names)}",
            code=ErrorCode.INVALID_FEATURE_FORMULA,
        )
    places = tuple(names.index(name) for name in replaced)
    return derived(data, Recipe(tuple(formulas), places, seed))


def derived(data: DMatrix, recipe: Recipe) -> DerivedMatrix:
    """Return training data with the derived features of a recipe, as `derive` does.

    Columns of times have their parts as derived features in any case.
    """
    recipe = _with_dates(data, recipe)
    _check(data, recipe)
    features, values = _fitted(data, recipe, None)
    return DerivedMatrix(data, recipe, features, values)


def expanded(data: DMatrix) -> DMatrix:
    """Return training data with the parts of their times as derived features.

    Returns the matrix itself if it has no columns of times. The result is kept for
    later calls, with its bins. Of rows that are read in batches, it reads batches, too.
    """
    if data.derived is not None or isinstance(data, QuantileDMatrix):
        return data
    if data.expansion is None:
        if not times_of(data.schema):
            return data
        data.expansion = _expansion(data)
    expansion: DMatrix = data.expansion
    return expansion


def _expansion(data: DMatrix) -> DMatrix:
    """Return a matrix of the same rows, labels and options with the parts of times."""
    matrix = DMatrix.__new__(DMatrix)
    table, features = expand_times(data)
    matrix._fill(table, data.nthread, data.sketch, data.cache_options)
    matrix.info, matrix.derived, matrix._order = data.info, features, data._order
    return matrix


def expand_times(
    data: DMatrix, features: DerivedFeatures | None = None
) -> tuple[Table, DerivedFeatures | None]:
    """Return the columns of a matrix with the parts of its times, and their formulas.

    The formulas are `features`, of a matrix with the same columns; None: those of the
    parts that vary here.
    """
    if features is None:
        features = parts_that_vary(data.schema, spans_of(data.table))
    elif not all(isinstance(formula, DatePart) for formula in features.formulas):
        raise DataError(
            "ref has derived features of several columns or of labels, which have no "
            "bins of other rows; make a DMatrix of these rows, without ref",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )
    return with_parts(data.table, features), features


def _with_dates(data: DMatrix, recipe: Recipe) -> Recipe:
    if data.derived is not None:
        return recipe
    features = parts_that_vary(data.schema, spans_of(data.table))
    if features is None:
        return recipe
    names = names_of(data.schema)
    texts = tuple(formula.text(names) for formula in features.formulas)
    return Recipe(texts, tuple(features.times), recipe.seed).with_more(recipe)


def reason_against(data: DMatrix) -> str | None:
    """Return why features cannot be derived from a matrix; None if they can."""
    if data.derived is not None:
        return "it has derived features already"
    if data.cache_options is not None:
        return "its bins are in external memory"
    if data.table.is_stream:
        return "its rows are read in batches"
    if isinstance(data, QuantileDMatrix):
        return "it keeps only the bins of features"
    if stays_sparse(data.table):
        return "it is sparse"
    return None


def _check(data: DMatrix, recipe: Recipe) -> None:
    reason = reason_against(data)
    if reason is not None:
        raise DataError(
            f"features cannot be derived from this {type(data).__name__}: {reason}; "
            "make a DMatrix of an array or a data frame in memory",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )
    if not recipe.formulas:
        raise ParameterError(
            "there are no formulas; give one, such as 'a - b'",
            code=ErrorCode.INVALID_FEATURE_FORMULA,
        )
    names = names_of(data.schema)
    repeated = [
        formula
        for place, formula in enumerate(recipe.formulas)
        if formula in names or formula in recipe.formulas[:place]
    ]
    if repeated:
        raise ParameterError(
            f"{listed(repeated)}: there is such a column already; leave the formula "
            "out, or rename the column",
            code=ErrorCode.INVALID_FEATURE_FORMULA,
        )


def _fitted(
    data: DMatrix, recipe: Recipe, rows: Rows | None
) -> tuple[DerivedFeatures, NDArray[np.float32]]:
    """Return the features fitted to some rows, None for all, and their values there."""
    schema, columns = data.schema, columns_of(data.table)
    labels, weights = data.info["label"], data.row_weights
    if labels is not None and labels.size != data.n_rows:
        labels = None
    if weights is None:
        weights = np.ones(data.n_rows)

    def size_of(category: int) -> int:
        """Return the number of levels: codes, missing, and unknown ones."""
        levels = schema.categories.of(category)
        if levels is not None:
            return len(levels) + 2
        codes = columns(category)
        return int(np.fmax.reduce(codes, initial=-1)) + 3

    fitted_to = TrainingRows(
        _of_rows(columns, rows),
        size_of,
        None if labels is None else _taken(labels.reshape(-1), rows),
        _taken(weights, rows),
        recipe.seed,
    )
    with np.errstate(all="ignore"):
        parts = [parse(text, schema).fitted(fitted_to) for text in recipe.formulas]
    formulas = tuple(formula for formula, _ in parts)
    features = DerivedFeatures(formulas, schema.names is not None)
    return features, np.stack([as_column(values) for _, values in parts])


def _of_rows(
    columns: Callable[[int], Floats], rows: Rows | None
) -> Callable[[int], Floats]:
    return lambda feature: _taken(columns(feature), rows)


def _taken(values: NDArray[Any], rows: Rows | None) -> NDArray[Any]:
    return values if rows is None else values[rows]


class DerivedMatrix(DMatrix):
    """Training data with derived features. Made by `derive`.

    Attributes
    ----------
    raw
        The data without them.
    recipe
        The formulas before they were fitted.
    """

    def __init__(
        self,
        raw: DMatrix,
        recipe: Recipe,
        features: DerivedFeatures,
        values: NDArray[np.float32],
    ) -> None:
        table = DerivedTable(raw.table, features, False, values, recipe.replaced)
        self._fill(table, raw.nthread, raw.sketch)
        self.raw, self.recipe = raw, recipe
        self.info, self.derived = raw.info, features
        self._order, self._values = raw._order, values

    def _bin(self, max_bin: int, nthread: int) -> Binned:
        given = self.raw.binned(max_bin, nthread)
        derived = _table(self._values)
        bins = bin_table(
            derived,
            max_bin,
            weights=self.row_weights,
            n_threads=nthread,
            sketch=self.sketch,
        )
        return _joined(given, bins, self.recipe.replaced)

    def slice(self, rindex: Any, allow_groups: bool = False) -> DMatrix:
        """Return a new matrix of some rows, with the values that they have here."""
        raw, values = self.raw.slice(rindex, allow_groups), self._values
        rows = self.row_numbers(rindex)
        assert self.derived is not None
        return DerivedMatrix(raw, self.recipe, self.derived, values[:, rows])

    def save_binary(self, fname: str | os.PathLike[str], silent: bool = True) -> None:
        """Raise a `DataError`: the file has no place for formulas."""
        raise DataError(
            "a matrix with derived features cannot be saved; save the matrix that it "
            "was made from, and derive them again",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )


def with_derived(data: DMatrix, features: DerivedFeatures, single: bool) -> DMatrix:
    """Return a matrix of the same rows with derived features, for prediction.

    It shares labels and other fields with `data`, whose columns are those of the model,
    with numbers rounded to float32 if `single`.
    """
    if isinstance(data, QuantileDMatrix):
        raise DataError(
            "the model derives features from values, and a QuantileDMatrix keeps only "
            "bins; make a DMatrix",
            code=ErrorCode.RAW_VALUES_NEEDED,
        )
    matrix = DMatrix.of_table(DerivedTable(data.table, features, single), {})
    matrix.nthread, matrix.info, matrix.derived = data.nthread, data.info, features
    return matrix


def derived_fold(
    data: DMatrix,
    recipe: Recipe,
    train: Rows,
    test: Rows,
    max_bin: int,
    nthread: int,
    *,
    with_values: bool = False,
) -> tuple[DMatrix, DMatrix]:
    """Return the bins of training rows and test rows, with derived features.

    The formulas are fitted to the training rows alone, and so are the cuts of derived
    columns. Those of other columns are the cuts of all rows. The matrices have the
    values of features only `with_values`.
    """
    recipe = _with_dates(data, recipe)
    _check(data, recipe)
    features, values = _fitted(data, recipe, train)
    given = data.binned(max_bin, nthread)
    of_train = data.info.take(train)
    own = bin_table(_table(values), max_bin, weights=of_train.row_weights)
    test_values = features.values(_of_rows(columns_of(data.table), test))
    others = bin_with_cuts(_table(test_values), own.cuts)
    schema = features.schema(data.schema)
    parts: list[DMatrix] = []
    for rows, bins, known in ((train, own, values), (test, others, test_values)):
        joined = _joined(given.take(rows), bins, recipe.replaced)
        if with_values:
            raw = data.slice(rows, allow_groups=True)
            parts.append(DerivedMatrix(raw, recipe, features, known))
            parts[-1].use_bins(max_bin, joined)
            continue
        part = QuantileDMatrix.of_bins(data, schema, joined, max_bin)
        part.n_rows, part.info, part.derived = len(rows), data.info.take(rows), features
        parts.append(part)
    return parts[0], parts[1]


def _table(values: NDArray[np.float32]) -> ArrayTable:
    return ArrayTable(values.T)


def _joined(given: Any, derived: Any, replaced: Sequence[int]) -> DenseMatrix:
    """Return the bins of given and derived columns; the replaced ones are missing."""
    cuts = given.cuts.columns()
    has_missing = given.has_missing.copy()
    by_feature = np.concatenate([given.by_feature, derived.by_feature])
    for feature in replaced:
        cuts[feature] = ColumnCuts.of_categories(1, has_missing=True)
        has_missing[feature], by_feature[feature] = True, 1
    return DenseMatrix(
        given.cuts.join([*cuts, *derived.cuts.columns()]),
        by_feature,
        np.append(has_missing, derived.has_missing),
        given.is_float32,
        np.append(given.is_categorical, derived.is_categorical),
    )
