"""XGBoost's estimator for ranking."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

from hornbeam.errors import DataError, ErrorCode, ParameterError, short_traceback
from hornbeam.sklearn.ranker import split_off_qid
from hornbeam.xgboost._typing import IterationRange
from hornbeam.xgboost.booster import Booster
from hornbeam.xgboost.core import Metric
from hornbeam.xgboost.deprecation import deprecate_positional_args
from hornbeam.xgboost.dmatrix import DMatrix
from hornbeam.xgboost.sklearn.custom_functions import ltr_metric_decorator
from hornbeam.xgboost.sklearn.model import EvalFields, XGBModel

__all__ = ["XGBRanker", "XGBRankerMixIn"]


class XGBRankerMixIn:
    """Mixin that sets the estimator type of rankers."""

    _estimator_type = "ranker"


class XGBRanker(XGBRankerMixIn, XGBModel):
    """XGBoost's estimator for ranking the rows of each query group.

    The parameters are those of `XGBModel`, with an `objective` that starts with
    ``rank:``; `eval_metric` may be a function of the labels and predictions of a group.
    """

    __module__ = "hornbeam.xgboost.sklearn"  # by which packages recognise it

    @deprecate_positional_args
    def __init__(self, *, objective: str = "rank:ndcg", **kwargs: Any) -> None:
        super().__init__(objective=objective, **kwargs)
        if callable(objective):
            raise ParameterError(
                "custom objective function not supported by XGBRanker; use "
                "hornbeam.HornbeamRanker, which supports it",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )
        if "rank:" not in objective:
            raise ParameterError(
                f"objective {objective!r} is not for ranking: please use XGBRanker for "
                "ranking task, with rank:ndcg, rank:map or rank:pairwise",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )

    @deprecate_positional_args
    @short_traceback
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        group: Any = None,
        qid: Any = None,
        sample_weight: Any = None,
        base_margin: Any = None,
        eval_set: Sequence[tuple[Any, Any]] | None = None,
        eval_group: Sequence[Any] | None = None,
        eval_qid: Sequence[Any] | None = None,
        verbose: bool | int | None = False,
        xgb_model: Booster | str | XGBModel | None = None,
        sample_weight_eval_set: Sequence[Any] | None = None,
        base_margin_eval_set: Sequence[Any] | None = None,
        feature_weights: Any = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X
            Features. A frame may contain the query ids in a column ``qid``, which is
            not used as a feature, neither here nor in prediction.
        qid
            The query id of each row, integers in non-decreasing order.
        group
            The sizes of the groups, instead of `qid`.
        sample_weight
            The weight of each group.
        eval_qid, eval_group
            The same for `eval_set`, one for each pair.
        y, base_margin, eval_set, verbose, xgb_model, sample_weight_eval_set, \
base_margin_eval_set, feature_weights
            As for `XGBModel`.
        """
        fields = {
            "weight": sample_weight,
            "base_margin": base_margin,
            "group": group,
            "qid": qid,
        }
        eval_fields: EvalFields = {
            "weight": ("sample_weight_eval_set", sample_weight_eval_set),
            "base_margin": ("base_margin_eval_set", base_margin_eval_set),
            "group": ("eval_group", eval_group),
            "qid": ("eval_qid", eval_qid),
        }
        return self._fit(
            X, y, fields, eval_set, eval_fields, verbose, xgb_model, feature_weights
        )

    def _create_dmatrix(self, ref: DMatrix | None, **fields: Any) -> DMatrix:
        data, qid = _split_qid(fields.pop("data"), fields.pop("qid"))
        if qid is None and fields["group"] is None:
            raise DataError(
                "Either `group` or `qid` is required for ranking task; pass one, or a "
                "frame with a column qid",
                code=ErrorCode.GROUPS_MISSING,
            )
        return super()._create_dmatrix(ref, data=data, qid=qid, **fields)

    def _adapt_metric(self, function: Callable[..., float]) -> Metric:
        return ltr_metric_decorator(function, self.n_jobs)

    @deprecate_positional_args
    @short_traceback
    def predict(
        self,
        X: Any,
        *,
        output_margin: bool = False,
        validate_features: bool = True,
        base_margin: Any = None,
        iteration_range: IterationRange | None = None,
    ) -> Any:
        """Return a score for each row; rows with higher scores rank first.

        The arguments are those of `XGBModel.predict`.
        """
        return super().predict(
            _split_qid(X)[0],
            output_margin=output_margin,
            validate_features=validate_features,
            base_margin=base_margin,
            iteration_range=iteration_range,
        )

    @short_traceback
    def apply(self, X: Any, iteration_range: IterationRange | None = None) -> Any:
        return super().apply(_split_qid(X)[0], iteration_range)

    @short_traceback
    def score(self, X: Any, y: Any) -> float:
        """Return the last metric of training, such as ndcg, on these groups.

        Parameters
        ----------
        X
            Features, a frame with the query ids in its column ``qid``.
        y
            Labels.
        """
        X, qid = _split_qid(X)
        evals = [(self._prediction_matrix(X, label=y, qid=qid), "eval")]
        metric = None
        if callable(self.eval_metric):
            metric = self._adapt_metric(self.eval_metric)
        scores = self.get_booster().eval_set(evals, feval=metric)
        return float(scores.rpartition(":")[2])


def _split_qid(X: Any, qid: Any = None) -> tuple[Any, Any]:
    """Return features and query ids, which may be given as a column of X."""
    X, column = split_off_qid(X)
    if column is not None and qid is not None:
        raise DataError(
            "Found both the special column `qid` in `X` and the `qid` from the `fit` "
            "method. Please remove one of them",
            code=ErrorCode.META_INFO_GIVEN_TWICE,
        )
    return X, qid if column is None else column
