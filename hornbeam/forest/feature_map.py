"""Names and types of features for dumps and data frames (XGBoost's feature map)."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from hornbeam.data.schema import FEATURE_TYPES, listed
from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.files import naming
from hornbeam.forest.model import Model
from hornbeam.forest.tree import Tree

__all__ = ["FeatureMap"]


@dataclass(frozen=True, slots=True)
class FeatureMap:
    """A name and a type for each feature.

    Parameters
    ----------
    names, types
        One per feature; the types are those of a `DMatrix`.
    source
        Where they come from, for error messages.
    """

    names: list[str]
    types: list[str]
    source: str = "the model's feature_types"

    @classmethod
    def of(cls, model: Model, fmap: str | os.PathLike[str] = "") -> FeatureMap:
        """Return the map in the file `fmap`, or the model's own if `fmap` is "".

        Features without names are called f0, f1 and so on; features without types are
        quantitative (q). The file has XGBoost's format: each line has the index of a
        feature, from 0 on, its name and its type.

        Raises
        ------
        ParameterError
            If the file is not valid or does not match the model's features.
        """
        features = range(model.num_feature)
        if os.fspath(fmap) == "":
            names = list(model.feature_names) or [f"f{i}" for i in features]
            types = list(model.feature_types) or ["q" for _ in features]
            for kind, values in (("names", names), ("types", types)):
                if len(values) != len(features):
                    raise ParameterError(
                        f"the model has {len(values)} feature_{kind} for "
                        f"{len(features)} features; give one for each",
                        code=ErrorCode.SCHEMA_LENGTH_MISMATCH,
                        kind=kind,
                        expected=len(features),
                        got=len(values),
                    )
            return cls(names, types)
        source = f"the feature map {os.fspath(fmap)!r}"
        try:
            with naming(fmap):
                lines = Path(fmap).read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError as error:
            raise ParameterError(
                f"{source} is not UTF-8 at byte {error.start}; convert it to UTF-8",
                code=ErrorCode.INVALID_FEATURE_MAP,
            ) from None
        known = cls([], [], source)
        for number, line in enumerate(lines, 1):
            if line.strip():
                known._add(number, line.split())
        if len(known.names) != len(features):
            raise ParameterError(
                f"{source} has {len(known.names)} features, and the model "
                f"{len(features)}; write one line per feature",
                code=ErrorCode.INVALID_FEATURE_MAP,
            )
        repeated = [name for name, count in Counter(known.names).items() if count > 1]
        if repeated:
            raise ParameterError(
                f"{source} has repeated names: {listed(repeated)}; make them unique",
                code=ErrorCode.INVALID_FEATURE_MAP,
            )
        return known

    def without_indicators(self) -> FeatureMap:
        """Return the map with type q in place of i, whose splits have thresholds."""
        return replace(self, types=["q" if t == "i" else t for t in self.types])

    def _add(self, number: int, words: list[str]) -> None:
        """Append the feature of one line of a file."""
        place = f"{self.source}, line {number}"
        if len(words) != 3:
            raise ParameterError(
                f"{place}: {' '.join(words)!r} is not a feature index, a name "
                "without spaces, and a type",
                code=ErrorCode.INVALID_FEATURE_MAP,
            )
        feature, name, kind = words
        if feature != str(len(self.names)):
            raise ParameterError(
                f"{place}: the feature index is {feature!r}, but {len(self.names)} "
                "is expected; number the lines 0, 1, 2, ...",
                code=ErrorCode.INVALID_FEATURE_MAP,
            )
        if kind not in FEATURE_TYPES:
            raise ParameterError(
                f"{place}: {kind!r} is not a type; use one of {listed(FEATURE_TYPES)}",
                code=ErrorCode.INVALID_FEATURE_MAP,
            )
        self.names.append(name)
        self.types.append(kind)

    def check(self, tree: Tree) -> None:
        """Check that the tree's splits match the types of the features.

        Raises
        ------
        ParameterError
            If a numerical feature has a categorical split, or the reverse.
        """
        is_category = [self.types[feature] == "c" for feature in tree.feature.tolist()]
        by_category = tree.split_type == 1
        wrong = (tree.left >= 0) & (np.array(is_category) != by_category)
        if wrong.any():
            node = int(np.argmax(wrong))
            feature = int(tree.feature[node])
            type_is, split_is, instead = (
                ("numerical", "by category", "'c'")
                if by_category[node]
                else ("categorical", "by threshold", "'q'")
            )
            raise ParameterError(
                f"{self.source} has the type {self.types[feature]!r}, {type_is}, for "
                f"{self.names[feature]!r}, which trees split {split_is}; "
                f"use the type {instead}",
                code=ErrorCode.INVALID_FEATURE_MAP,
            )
