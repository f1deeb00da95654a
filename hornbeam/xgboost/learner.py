"""What XGBoost accepts that Hornbeam does not: features by position, raw codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hornbeam.boosting.learner import Learner
from hornbeam.boosting.predictor import Predictor
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.quantile_dmatrix import QuantileDMatrix
from hornbeam.data.schema import Schema
from hornbeam.data.table import PaddedTable, Table
from hornbeam.errors import DataError, ErrorCode
from hornbeam.metrics.base import Metric
from hornbeam.metrics.ranking import RankingMetric
from hornbeam.objectives.base import Objective
from hornbeam.params import Parameters
from hornbeam.xgboost.categories import as_category_codes
from hornbeam.xgboost.compat import framed, is_dataframe

__all__ = ["XGBoostLearner", "XGBoostPredictor"]

#: Of each group that ``ndcg``, ``map`` and ``pre`` evaluate without a number.
_TOP_ROWS = 32


class XGBoostLearner(Learner):
    """A learner with XGBoost's ranking metrics and alignment of features."""

    def create_metrics(
        self, parameters: Parameters, objective: Objective
    ) -> list[Metric]:
        metrics = super().create_metrics(parameters, objective)
        for metric in metrics:
            if isinstance(metric, RankingMetric):
                metric.limit(_TOP_ROWS)
        return metrics

    def align(self, data: DMatrix, validate_features: bool = True) -> DMatrix:
        """Return `data` with the features and the category codes of the model.

        Features without names go by position: absent ones are missing. Numbers are
        codes where training had categories.
        """
        width, types = self.model.num_feature, self.model.feature_types
        is_narrow = data.feature_names is None and data.n_features < width
        has_codes = "c" in types and "c" not in (data.feature_types or ())
        if (is_narrow or has_codes) and not isinstance(data, QuantileDMatrix):
            table = data.table.select(range(data.n_features))
            if is_narrow:
                table = PaddedTable(table, width)
            if has_codes and table.n_features == width:
                data = data._over(as_category_codes(table, types), DMatrix)
                names = self.schema(validate_features).names
                return data.like(Schema(width, names, types))
            data = data._over(table, DMatrix)
        return super().align(data, validate_features)

    def validate_features(self, names: Sequence[str] | None) -> None:
        """Raise a `DataError` unless data has the names of the model, in its order."""
        expected = self.model.feature_names or None
        if expected is None or names == expected:
            return
        if names is None:
            raise DataError(
                "data did not contain feature names, but the following fields are "
                f"expected: {', '.join(expected)}",
                code=ErrorCode.FEATURE_NAMES_MISMATCH,
            )
        message = f"feature_names mismatch: {expected} {list(names)}"
        lost = [name for name in expected if name not in names]
        more = [name for name in names if name not in expected]
        if lost:
            message += f"\nexpected {', '.join(lost)} in input data"
        if more:
            message += (
                f"\ntraining data did not have the following fields: {', '.join(more)}"
            )
        raise DataError(message, code=ErrorCode.FEATURE_NAMES_MISMATCH)


class XGBoostPredictor(Predictor):
    """A predictor that validates the names of data frames."""

    _learner: XGBoostLearner

    def table(self, data: Any, missing: float, validate_features: bool) -> Table:
        table = super().table(framed(data), missing, validate_features)
        if validate_features and is_dataframe(data):
            self._learner.validate_features(table.names)
        return table
