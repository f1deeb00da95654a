"""Formulas that are worth a trial on some data."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from hornbeam.data.schema import Schema
from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.features.formulas import is_categorical, names_of
from hornbeam.features.level_means import MAX_CELLS
from hornbeam.features.matrix import Recipe

__all__ = [
    "AUTOMATIC",
    "FeatureOptions",
    "cross_features",
    "means_of_pairs",
    "target_means",
]

CAT_METHODS = ("auto", "set", "ordered_target")
#: The numerical features of the highest gain that are crossed with each other, and
#: those whose deviations from the means of so many categorical features are taken.
_CROSSED = 6
_DEVIATING = 4
_GROUPING = 3


class FeatureOptions(NamedTuple):
    """Which features are derived.

    Attributes
    ----------
    cat_method
        ``"set"``: trees split the categories of a column into two sets;
        ``"ordered_target"``: they split on the mean label of its levels instead;
        ``"auto"``: the second is tried.
    cross_features
        Formulas; ``"auto"``: some are tried; None or False: none.
    """

    cat_method: str = "auto"
    cross_features: Any = "auto"

    @property
    def formulas(self) -> tuple[str, ...]:
        """The formulas that the user gives."""
        crosses = self.cross_features
        return () if isinstance(crosses, str) else tuple(crosses or ())

    def check(self) -> None:
        """Raise a `ParameterError` if an option is unknown."""
        if self.cat_method not in CAT_METHODS:
            raise ParameterError(
                f"cat_method must be one of {', '.join(CAT_METHODS)}, "
                f"not {self.cat_method!r}",
                code=ErrorCode.UNKNOWN_OPTION,
            )
        crosses = self.cross_features
        if isinstance(crosses, str):
            is_known = crosses == "auto"
        else:
            is_known = crosses in (None, False) or isinstance(crosses, list | tuple)
        if not is_known:
            raise ParameterError(
                "cross_features must be 'auto', a list of formulas such as 'a - b', or "
                f"None, not {crosses!r}",
                code=ErrorCode.UNKNOWN_OPTION,
            )

    def given(self, data: Any, n_classes: int, seed: int) -> Recipe | None:
        """Return the features that are not only tried; None if there are none."""
        formulas: list[str] = []
        replaced: list[int] = []
        if self.cat_method == "ordered_target":
            schema = data.schema
            replaced = [
                f for f in range(schema.n_features) if is_categorical(schema, f)
            ]
            formulas += target_means(schema, replaced, n_classes)
        formulas += self.formulas
        return Recipe(tuple(formulas), tuple(replaced), seed) if formulas else None


def target_means(
    schema: Schema, columns: Sequence[int], n_classes: int
) -> tuple[str, ...]:
    """Return formulas of the mean label in each level of some columns.

    Of more than two classes there is one for the share of each class but the first.
    """
    names = names_of(schema)
    found = (
        f"mean({label} | {names[column]})"
        for column in columns
        for label in _labels(n_classes)
    )
    return tuple(text for text in found if text not in names)


def means_of_pairs(
    schema: Schema, gains: Mapping[str, float], n_classes: int
) -> tuple[str, ...]:
    """Return formulas of the mean label in each combination of two columns' levels.

    The columns are the categorical features of the highest gain; the parameters are
    those of `cross_features` and `target_means`.
    """
    names = names_of(schema)
    sizes = {
        name: len(levels) + 1  # missing values are a level
        for name, levels in zip(names, schema.categories.names, strict=False)
        if levels is not None
    }
    ranked = _by_gain(sizes, gains)
    found = (
        f"mean({label} | {first}, {second})"
        for first, second in combinations(ranked[:_GROUPING], 2)
        if sizes[first] * sizes[second] <= MAX_CELLS
        for label in _labels(n_classes)
    )
    return tuple(text for text in found if text not in names)


def _labels(n_classes: int) -> list[str]:
    """Return what means are of: the label, or the shares of all classes but the first.

    Two classes are numbers.
    """
    if n_classes <= 2:
        return ["label"]
    return [f"label = {number}" for number in range(1, n_classes)]


def _by_gain(names: Collection[str], gains: Mapping[str, float]) -> list[str]:
    """Return those of the names that have a gain, by falling gain."""
    known = (name for name in names if name in gains)
    return sorted(known, key=lambda name: (-gains[name], name))


def cross_features(schema: Schema, gains: Mapping[str, float]) -> tuple[str, ...]:
    """Return the crosses of the features of the highest gain.

    Parameters
    ----------
    schema
        The columns.
    gains
        The gain of features by name; those that are not columns are left out.
    """
    names = names_of(schema)
    places = {name: place for place, name in enumerate(names)}
    ranked = _by_gain(places, gains)
    numbers = [name for name in ranked if not is_categorical(schema, places[name])]
    groups = [name for name in ranked if is_categorical(schema, places[name])]
    pairs = list(combinations(numbers[:_CROSSED], 2))
    found = [f"{a} {sign} {b}" for sign in "-*/" for a, b in pairs]
    found += [
        f"{a} - mean({a} | {c})"
        for a in numbers[:_DEVIATING]
        for c in groups[:_GROUPING]
    ]
    return tuple(text for text in found if text not in places)


#: The default: features are tried.
AUTOMATIC = FeatureOptions()
