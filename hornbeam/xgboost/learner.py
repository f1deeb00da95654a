"""A learner and a predictor with XGBoost's validation and alignment of features."""

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
from hornbeam.objectives.compiled import ScalarLoss
from hornbeam.objectives.ranking import Ranking
from hornbeam.params import Parameters
from hornbeam.xgboost.categories import as_category_codes
from hornbeam.xgboost.compat import is_dataframe, to_frame

__all__ = ["XGBoostLearner", "XGBoostPredictor"]

#: The default cutoff of the metrics ``ndcg``, ``map`` and ``pre``.
_MAX_RANK = 32


class XGBoostLearner(Learner):
    """A learner with XGBoost's rankings and alignment of features."""

    def create_objective(
        self, parameters: Parameters, loss: ScalarLoss | None
    ) -> Objective:
        objective = super().create_objective(parameters, loss)
        if isinstance(objective, Ranking):
            objective.requires_pairs = False
        return objective

    def check_strategy(self, parameters: Parameters, objective: Objective) -> None:
        """Allow any leaf size: `multi_strategy` may change from round to round."""

    def create_metrics(
        self, parameters: Parameters, objective: Objective
    ) -> list[Metric]:
        metrics = super().create_metrics(parameters, objective)
        for metric in metrics:
            if isinstance(metric, RankingMetric):
                metric.limit(_MAX_RANK)
        return metrics

    def align(
        self,
        data: DMatrix,
        validate_features: bool = True,
        unseen: str | None = None,
    ) -> DMatrix:
        """Return `data` with the features and the category codes of the model.

        Features without names are matched by position: those that `data` lacks are
        missing values. Numbers in categorical features are read as category codes.
        """
        expected = self.model.raw_schema
        width, types = expected.n_features, expected.types or []
        is_narrow = data.feature_names is None and data.n_features < width
        has_codes = "c" in types and "c" not in (data.feature_types or ())
        if data.derived is not None:
            return super().align(data, validate_features, unseen)
        if (is_narrow or has_codes) and not isinstance(data, QuantileDMatrix):
            table = data.table.select(range(data.n_features))
            if is_narrow:
                table = PaddedTable(table, width)
            if has_codes and table.n_features == width:
                data = data._over(as_category_codes(table, types), DMatrix)
                names = self.schema(validate_features).names
                return self._with_derived(data.like(Schema(width, names, types)))
            data = data._over(table, DMatrix)
        return super().align(data, validate_features, unseen)

    def validate_features(self, names: Sequence[str] | None) -> None:
        """Raise a `DataError` if feature names or their order differ from the model."""
        expected = self.model.raw_schema.names
        if expected is None or names == expected:
            return
        if names is None:
            raise DataError(
                "data did not contain feature names, but the following fields are "
                f"expected: {', '.join(expected)}",
                code=ErrorCode.FEATURE_NAMES_MISMATCH,
            )
        message = f"feature_names mismatch: {expected} {list(names)}"
        absent = [name for name in expected if name not in names]
        unknown = [name for name in names if name not in expected]
        if absent:
            message += f"\nexpected {', '.join(absent)} in input data"
        if unknown:
            listed = ", ".join(unknown)
            message += f"\ntraining data did not have the following fields: {listed}"
        raise DataError(message, code=ErrorCode.FEATURE_NAMES_MISMATCH)


class XGBoostPredictor(Predictor):
    """A predictor that validates the names of data frames."""

    _learner: XGBoostLearner

    def table(self, data: Any, missing: float, validate_features: bool) -> Table:
        table = super().table(to_frame(data), missing, validate_features)
        if validate_features and is_dataframe(data):
            self._learner.validate_features(table.names)
        return table
