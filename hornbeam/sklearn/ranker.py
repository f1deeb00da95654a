"""The estimator for ranking."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hornbeam.boosting.booster import Booster
from hornbeam.data.meta_info import MetaInfo
from hornbeam.data.meta_info_accessors import MetaInfoAccessors
from hornbeam.errors import DataError, ErrorCode, short_traceback
from hornbeam.objectives.compiled import ScalarLoss
from hornbeam.sklearn.boosting import BoostingEstimator
from hornbeam.sklearn.custom_functions import ObjectiveFunction, weights_of

__all__ = ["HornbeamRanker", "split_off_qid"]


class HornbeamRanker(BoostingEstimator):
    """Gradient boosted trees for ranking the rows of each query group.

    The parameters are those of `HornbeamRegressor`, and:

    Parameters
    ----------
    objective
        ``"rank:ndcg"``, ``"rank:map"``, ``"rank:pairwise"`` or ``"rank:xendcg"``; or a
        function of labels and predictions that returns the gradient and the hessian,
        and takes the sizes of the groups as ``group=``.
    eval_metric
        The metrics on `eval_set`: names, or a function of the labels and predictions
        of a group, which is averaged over groups.
    lambdarank_pair_method, lambdarank_num_pair_per_sample, lambdarank_normalization, \
lambdarank_score_normalization, lambdarank_unbiased, lambdarank_bias_norm, ndcg_exp_gain
        How pairs of rows are sampled and weighted; see the parameters of the booster.

    Examples
    --------
    >>> import numpy as np
    >>> from hornbeam import HornbeamRanker
    >>> rng = np.random.default_rng(0)
    >>> qid = np.repeat(np.arange(60), 10)  # 60 queries of 10 documents
    >>> X = rng.standard_normal((600, 4))
    >>> relevance = np.clip(X[:, 0] + X[:, 1], 0, 3).astype(int)
    >>> model = HornbeamRanker(n_estimators=20).fit(
    ...     X[:500], relevance[:500], qid=qid[:500]
    ... )
    >>> best_first = np.argsort(-model.predict(X[500:510]))
    >>> relevance[500:510][best_first]
    array([1, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    """

    def __init__(
        self,
        *,
        objective: str | ObjectiveFunction = "rank:ndcg",
        lambdarank_pair_method: str | None = None,
        lambdarank_num_pair_per_sample: int | None = None,
        lambdarank_normalization: bool | None = None,
        lambdarank_score_normalization: bool | None = None,
        lambdarank_unbiased: bool | None = None,
        lambdarank_bias_norm: float | None = None,
        ndcg_exp_gain: bool | None = None,
        **others: Any,
    ) -> None:
        super().__init__(objective=objective, **others)
        self.lambdarank_pair_method = lambdarank_pair_method
        self.lambdarank_num_pair_per_sample = lambdarank_num_pair_per_sample
        self.lambdarank_normalization = lambdarank_normalization
        self.lambdarank_score_normalization = lambdarank_score_normalization
        self.lambdarank_unbiased = lambdarank_unbiased
        self.lambdarank_bias_norm = lambdarank_bias_norm
        self.ndcg_exp_gain = ndcg_exp_gain

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted(
            {*super()._get_param_names(), *BoostingEstimator._get_param_names()}
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "ranker"
        return tags

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
        xgb_model: Booster | str | os.PathLike[str] | BoostingEstimator | None = None,
        sample_weight_eval_set: Sequence[Any] | None = None,
        base_margin_eval_set: Sequence[Any] | None = None,
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
base_margin_eval_set
            As for `HornbeamRegressor`.
        """
        return self._fit_groups(
            X,
            y,
            {"weight": sample_weight, "base_margin": base_margin},
            (group, qid),
            eval_set,
            {
                "weight": ("sample_weight_eval_set", sample_weight_eval_set),
                "base_margin": ("base_margin_eval_set", base_margin_eval_set),
            },
            (eval_group, eval_qid),
            verbose,
            xgb_model,
        )

    def _fit_groups(
        self,
        X: Any,
        y: Any,
        fields: Mapping[str, Any],
        groups: tuple[Any, Any],
        eval_set: Sequence[tuple[Any, Any]] | None,
        eval_fields: Mapping[str, tuple[str, Sequence[Any] | None]],
        eval_groups: tuple[Sequence[Any] | None, Sequence[Any] | None],
        verbose: bool | int | None,
        xgb_model: Booster | str | os.PathLike[str] | BoostingEstimator | None,
    ) -> Self:
        """Fit the model; `groups` and `eval_groups` are pairs (group, qid)."""
        group, qid = groups
        if group is None and qid is None:
            X, qid = split_off_qid(X)
            if qid is None:
                raise DataError(
                    "ranking needs the query group of each row; pass qid, one for each "
                    "row of X, or group",
                    code=ErrorCode.GROUPS_MISSING,
                )
        eval_group, eval_qid = eval_groups
        if eval_set and eval_group is None and eval_qid is None:
            split = [(*split_off_qid(X), y) for X, y in eval_set]
            if any(qids is None for _, qids, _ in split):
                raise DataError(
                    "eval_set needs the query group of each row, too; pass eval_qid, "
                    "one for each pair",
                    code=ErrorCode.GROUPS_MISSING,
                )
            eval_set = [(X, y) for X, _, y in split]
            eval_qid = [qids for _, qids, _ in split]
        return self._fit(
            X,
            y,
            {**fields, "qid": qid, "group": group},
            eval_set,
            {
                **eval_fields,
                "qid": ("eval_qid", eval_qid),
                "group": ("eval_group", eval_group),
            },
            verbose,
            xgb_model,
        )

    def _validate_features(self, X: Any, *, reset: bool) -> Any:
        return super()._validate_features(split_off_qid(X)[0], reset=reset)

    def _custom_objective(self) -> Callable[..., Any] | ScalarLoss | None:
        objective = self.objective
        if not callable(objective) or isinstance(objective, ScalarLoss):
            return super()._custom_objective()

        def gradients(predictions: npt.NDArray[Any], rows: MetaInfoAccessors) -> Any:
            labels, group = rows.get_label(), rows.get_group()
            return objective(labels, predictions, group=group, **weights_of(rows))

        return gradients

    def _custom_metric(self) -> Callable[..., tuple[str, float]] | None:
        metric = self.eval_metric
        if not callable(metric):
            return None

        def score(
            predictions: npt.NDArray[Any], rows: MetaInfoAccessors
        ) -> tuple[str, float]:
            ends = np.cumsum(rows.get_group())[:-1]
            parts = np.split(rows.get_label(), ends), np.split(predictions, ends)
            values = [metric(*part) for part in zip(*parts, strict=True)]
            return metric.__name__, float(np.mean(values))

        return score

    @short_traceback
    def score(self, X: Any, y: Any, *, group: Any = None, qid: Any = None) -> float:
        """Return the last metric of training, such as ndcg, on these groups.

        The arguments are those of `fit`.
        """
        if group is None and qid is None:
            X, qid = split_off_qid(X)
            if qid is None:
                raise DataError(
                    "the score of a ranking needs the query group of each row; pass "
                    "qid",
                    code=ErrorCode.GROUPS_MISSING,
                )
        predictions = self._gather(self.predict(X))
        info = MetaInfo(len(predictions), self.n_features_in_)
        given = {"label": y, "qid": qid, "group": group}
        info.set({name: self._gather(values) for name, values in given.items()})
        return self.get_booster().metrics[-1].of(predictions.astype(float), info)

    def _gather(self, values: Any) -> Any:
        """Return values as local arrays."""
        return values


def split_off_qid(X: Any) -> tuple[Any, Any]:
    """Return a frame without its column ``qid``, and this column; None without one."""
    names = list(getattr(X, "columns", ()))
    others = [name for name in names if not (isinstance(name, str) and name == "qid")]
    if len(others) == len(names):
        return X, None
    return X[others], X["qid"]
