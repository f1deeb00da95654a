"""What a trained model tells of its trees: dumps, tables and scores of features."""

from __future__ import annotations

import os
from typing import Any, TextIO

from hornbeam.boosting.holder import ModelHolder
from hornbeam.errors import require
from hornbeam.files import replace_file
from hornbeam.forest.dump import dump_model, join_dumps
from hornbeam.forest.feature_map import FeatureMap
from hornbeam.forest.inspection import (
    feature_importance,
    split_value_histogram,
    trees_to_dataframe,
)

__all__ = ["ModelAccounts"]

PathLike = str | os.PathLike[str]


class ModelAccounts(ModelHolder):
    """The part of a `Booster` that tells what the trees of its model say.

    `fmap` is always the path of a feature map: a file that has on each line the number
    of a feature, from 0 on, its name without spaces, and its type, such as ``q``. If
    "", features have the names and types of the model.
    """

    def get_dump(
        self, fmap: PathLike = "", with_stats: bool = False, dump_format: str = "text"
    ) -> list[str]:
        """Return a text for each tree, as XGBoost writes it.

        Parameters
        ----------
        fmap
            A feature map.
        with_stats
            Whether to tell the gain of splits, and the cover of all nodes.
        dump_format
            ``"text"``, ``"json"``, or ``"dot"`` for Graphviz. After ``dot:`` may stand
            JSON with attributes for the parts of the graph: ``graph_attrs``,
            ``condition_node_params``, ``leaf_node_params`` and ``edge``.
        """
        self._need_model()
        return dump_model(
            self.model, FeatureMap.of(self.model, fmap), with_stats, dump_format
        )

    def dump_model(
        self,
        fout: PathLike | TextIO,
        fmap: PathLike = "",
        with_stats: bool = False,
        dump_format: str = "text",
    ) -> None:
        """Write the dumps of all trees to one file, which cannot be loaded again.

        The file is complete or, whatever happens, left as it was. `fout` is its path,
        or a file that is open for text; for the others see `get_dump`.
        """
        dumps = self.get_dump(fmap, with_stats, dump_format)
        pieces = join_dumps(dumps, dump_format)
        if isinstance(fout, str | os.PathLike):
            replace_file(fout, (piece.encode() for piece in pieces))
        else:
            fout.writelines(pieces)

    def trees_to_dataframe(self, fmap: PathLike = "") -> Any:
        """Return a pandas frame with a row for each node of each tree.

        Its columns are Tree, Node, ID, Feature, Split, Yes, No, Missing, Gain, Cover
        and Category, with XGBoost's values. The gain of a leaf is its value. The
        categories are codes, and rows of them go to Yes, which is the right child.
        """
        self._need_model()
        return trees_to_dataframe(self.model, FeatureMap.of(self.model, fmap))

    def get_split_value_histogram(
        self,
        feature: str,
        fmap: PathLike = "",
        bins: int | None = None,
        as_pandas: bool = True,
    ) -> Any:
        """Return how often trees split a feature near which threshold.

        Parameters
        ----------
        feature
            The name of a feature.
        fmap
            A feature map.
        bins
            How many bins at most; None: one for each of the different thresholds.
        as_pandas
            Whether to return a pandas frame with the columns SplitValue, the end of a
            bin, and Count. If not, they are columns of an array.
        """
        self._need_model()
        table = split_value_histogram(
            self.model, FeatureMap.of(self.model, fmap), feature, bins
        )
        if not as_pandas:
            return table
        pandas = require(
            "pandas", "frames", "get_split_value_histogram(as_pandas=True)"
        )
        return pandas.DataFrame(table, columns=["SplitValue", "Count"])

    def get_score(
        self, fmap: PathLike = "", importance_type: str = "weight"
    ) -> dict[str, Any]:
        """Return how important each feature is that a tree splits on.

        Parameters
        ----------
        fmap
            A feature map.
        importance_type
            ``"weight"`` counts splits; ``"gain"`` and ``"cover"`` are means over the
            splits of a feature, ``"total_gain"`` and ``"total_cover"`` sums. A linear
            model has only weights, those that features are multiplied by.
        """
        names = FeatureMap.of(self.model, fmap).names
        return feature_importance(self.model, importance_type, names)

    def get_fscore(self, fmap: PathLike = "") -> dict[str, Any]:
        """Return how many splits each feature has that a tree splits on."""
        return self.get_score(fmap, "weight")
