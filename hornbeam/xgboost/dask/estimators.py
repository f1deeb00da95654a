"""XGBoost's estimators for collections of Dask."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from functools import partial
from typing import Any, Self, cast

import dask.array as da
import numpy as np
import numpy.typing as npt
from dask.delayed import delayed
from distributed import Client
from sklearn.base import ClassifierMixin, RegressorMixin

from hornbeam.callbacks.base import EvalsLog
from hornbeam.dask.client import client_method, client_of
from hornbeam.dask.partitions import delayed_parts, is_dataframe, is_series
from hornbeam.dask.workers import Workers
from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.xgboost.booster import Booster
from hornbeam.xgboost.dask.groups import in_order_of_groups
from hornbeam.xgboost.dask.matrices import DaskDMatrix, DaskQuantileDMatrix
from hornbeam.xgboost.dask.prediction import inplace_predict, predict
from hornbeam.xgboost.dask.training import train
from hornbeam.xgboost.deprecation import deprecate_positional_args
from hornbeam.xgboost.sklearn.classifier import both_class_probabilities
from hornbeam.xgboost.sklearn.custom_functions import Metric, ltr_metric_decorator
from hornbeam.xgboost.sklearn.forests import XGBRFModel
from hornbeam.xgboost.sklearn.model import EvalFields, IterationRange, XGBModel
from hornbeam.xgboost.sklearn.ranker import XGBRankerMixIn

__all__ = [
    "DaskScikitLearnBase",
    "DaskXGBClassifier",
    "DaskXGBRFClassifier",
    "DaskXGBRFRegressor",
    "DaskXGBRanker",
    "DaskXGBRegressor",
]


class DaskScikitLearnBase(XGBModel):
    """What the estimators for Dask share: fitted on workers, and predicting there.

    The parameters are those of `XGBModel`, and:

    Parameters
    ----------
    coll_cfg
        Taken for XGBoost's sake: the workers need no connections but Dask's.
    """

    _client: Client | None = None

    @deprecate_positional_args
    def __init__(self, *, coll_cfg: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.coll_cfg = coll_cfg

    @property
    def client(self) -> Client:
        """The client of the cluster: the one set here, or that which Dask has."""
        return client_of(self._client)

    @client.setter
    def client(self, client: Client | None) -> None:
        self._client = client

    def __await__(self) -> Generator[Any, Any, Self]:
        """Return the estimator: nothing has to be waited for."""
        yield from ()
        return self

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_client"}

    def _create_dmatrix(self, ref: Any, **fields: Any) -> Any:
        fields |= {
            "client": self.client,
            "missing": self.missing,
            "enable_categorical": self.enable_categorical,
        }
        if self.tree_method in (None, "auto", "hist"):
            return DaskQuantileDMatrix(**fields, ref=ref, max_bin=self.max_bin)
        return DaskDMatrix(**fields)

    def _train(self, *args: Any, **options: Any) -> tuple[Booster, EvalsLog]:
        found = train(self.client, *args, coll_cfg=self.coll_cfg, **options)
        return found["booster"], found["history"]

    fit: Any = client_method(cast(Any, XGBModel.fit))

    @deprecate_positional_args
    @client_method
    def predict(
        self,
        X: Any,
        *,
        output_margin: bool = False,
        validate_features: bool = True,
        base_margin: Any = None,
        iteration_range: IterationRange | None = None,
    ) -> Any:
        """Return a lazy collection of a prediction for each row.

        That is a dask.array, or of a dask.dataframe a series where a row has one
        number. The arguments are those of `XGBModel.predict`.
        """
        found = inplace_predict(
            self.client,
            self.get_booster(),
            X,
            iteration_range=self._get_iteration_range(iteration_range),
            predict_type="margin" if output_margin else "value",
            missing=self.missing,
            base_margin=base_margin,
            validate_features=validate_features,
        )
        return found.to_dask_array() if is_dataframe(found) else found

    @client_method
    def apply(self, X: Any, iteration_range: IterationRange | None = None) -> Any:
        """Return a lazy dask.array of the leaf of each row in each tree."""
        matrix = DaskDMatrix(
            self.client,
            X,
            missing=self.missing,
            feature_types=self.feature_types,
            enable_categorical=self.enable_categorical,
        )
        return predict(
            self.client,
            self.get_booster(),
            matrix,
            pred_leaf=True,
            iteration_range=self._get_iteration_range(iteration_range),
        )


class DaskXGBRegressor(RegressorMixin, DaskScikitLearnBase):
    """`XGBRegressor` for collections of Dask."""


class DaskXGBClassifier(ClassifierMixin, DaskScikitLearnBase):
    """`XGBClassifier` for collections of Dask.

    Attributes
    ----------
    classes_, n_classes_
        The labels that the workers have found, and how many.
    """

    classes_: npt.NDArray[Any]
    n_classes_: int

    def _objective_params(self, y: Any) -> dict[str, Any]:
        self.classes_ = self._distinct(y)
        self.n_classes_ = len(self.classes_)
        if not np.array_equal(self.classes_, np.arange(self.n_classes_)):
            raise DataError(
                "Invalid classes inferred from unique values of `y`.  Expected: "
                f"{np.arange(self.n_classes_)}, got {self.classes_}; number the labels "
                "from 0 on",
                code=ErrorCode.CLASSES_NOT_CONSECUTIVE,
            )
        if self.n_classes_ > 2:
            return {"objective": "multi:softprob", "num_class": self.n_classes_}
        return {"objective": "binary:logistic"}

    def _distinct(self, y: Any) -> npt.NDArray[Any]:
        """Return the labels of all partitions, sorted."""
        tasks = [delayed(np.unique)(piece) for piece in delayed_parts(y, "y")]
        found = Workers(self.client).results(self.client.compute(tasks))
        return np.unique(np.concatenate(found))

    def _set_training_results(
        self, params: Mapping[str, Any], history: EvalsLog
    ) -> None:
        super()._set_training_results(params, history)
        if not callable(self.objective):
            self.objective = params["objective"]

    @deprecate_positional_args
    @client_method
    def predict(
        self,
        X: Any,
        *,
        output_margin: bool = False,
        validate_features: bool = True,
        base_margin: Any = None,
        iteration_range: IterationRange | None = None,
    ) -> Any:
        """Return a lazy collection of the most probable label of each row.

        The arguments are those of `XGBModel.predict`.
        """
        found = super().predict(
            X,
            output_margin=output_margin,
            validate_features=validate_features,
            base_margin=base_margin,
            iteration_range=iteration_range,
        )
        if output_margin:
            return found
        if found.ndim == 1:
            return (found > 0.5).astype(int)
        return da.map_blocks(_most_probable, found, drop_axis=1, dtype=np.int64)

    @client_method
    def predict_proba(
        self,
        X: Any,
        validate_features: bool = True,
        base_margin: Any = None,
        iteration_range: IterationRange | None = None,
    ) -> Any:
        """Return a lazy dask.array of the probability of each label for each row.

        The arguments are those of `predict`.
        """
        found = super().predict(
            X,
            validate_features=validate_features,
            base_margin=base_margin,
            iteration_range=iteration_range,
        )
        if is_series(found):
            found = found.to_dask_array()
        return both_class_probabilities(
            found, partial(da.vstack, allow_unknown_chunksizes=True)
        )

    def _restore(self, learner: Mapping[str, Any]) -> None:
        super()._restore(learner)
        self.n_classes_ = max(2, int(learner["learner_model_param"]["num_class"]))
        self.classes_ = np.arange(self.n_classes_)


def _most_probable(block: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    return block.argmax(axis=1)


class DaskXGBRanker(XGBRankerMixIn, DaskScikitLearnBase):
    """`XGBRanker` for collections of Dask; the parameters are the same, and:

    Parameters
    ----------
    allow_group_split
        Whether the rows are taken as they come, in order of their groups. If not, they
        are put in that order where need be, and have to be a dask.dataframe.
    """

    @deprecate_positional_args
    def __init__(
        self,
        *,
        objective: str = "rank:ndcg",
        allow_group_split: bool = False,
        coll_cfg: Any = None,
        **kwargs: Any,
    ) -> None:
        if callable(objective):
            raise ParameterError(
                "Custom objective function not supported by XGBRanker; use "
                "hornbeam.dask.DaskHornbeamRanker, which takes one",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )
        self.allow_group_split = allow_group_split
        super().__init__(objective=objective, coll_cfg=coll_cfg, **kwargs)

    def _wrapper_params(self) -> set[str]:
        return super()._wrapper_params() | {"allow_group_split"}

    def _adapt_metric(self, function: Any) -> Metric:
        return ltr_metric_decorator(function, self.n_jobs)

    @deprecate_positional_args
    @client_method
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
        verbose: int | bool | None = False,
        xgb_model: XGBModel | str | Booster | None = None,
        sample_weight_eval_set: Sequence[Any] | None = None,
        base_margin_eval_set: Sequence[Any] | None = None,
        feature_weights: Any = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        qid
            The group of each row, with the same partitions as `X`.
        eval_qid
            The same for `eval_set`, one collection for each pair.
        group, eval_group
            Not taken: sizes of groups do not go with rows that lie apart.
        X, y, sample_weight, base_margin, eval_set, verbose, xgb_model, \
sample_weight_eval_set, base_margin_eval_set, feature_weights
            As for `XGBRanker`.
        """
        if group is not None or eval_group is not None:
            raise DataError(
                "Use the `qid` instead of the `group` with the dask interface.",
                code=ErrorCode.CONFLICTING_PARAMETERS,
            )
        if qid is None:
            raise DataError(
                "`qid` is required for ranking.", code=ErrorCode.GROUPS_MISSING
            )
        eval_fields: EvalFields = {
            "weight": ("sample_weight_eval_set", sample_weight_eval_set),
            "base_margin": ("base_margin_eval_set", base_margin_eval_set),
            "qid": ("eval_qid", eval_qid),
        }
        fields = {"weight": sample_weight, "base_margin": base_margin, "qid": qid}
        return self._fit(
            X, y, fields, eval_set, eval_fields, verbose, xgb_model, feature_weights
        )

    def _create_dmatrix(self, ref: Any, **fields: Any) -> Any:
        if not self.allow_group_split:
            fields = in_order_of_groups(self.client, fields)
        return super()._create_dmatrix(ref, **fields)


class _DaskXGBRFModel(XGBRFModel, DaskScikitLearnBase):
    @deprecate_positional_args
    def __init__(
        self,
        *,
        learning_rate: float | None = 1,
        subsample: float | None = 0.8,
        colsample_bynode: float | None = 0.8,
        reg_lambda: float | None = 1e-5,
        coll_cfg: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            learning_rate=learning_rate,
            subsample=subsample,
            colsample_bynode=colsample_bynode,
            reg_lambda=reg_lambda,
            coll_cfg=coll_cfg,
            **kwargs,
        )

    def get_xgb_params(self) -> dict[str, Any]:
        # Not the default of other estimators: there it is one tree.
        return super().get_xgb_params() | {"num_parallel_tree": self.n_estimators}


class DaskXGBRFRegressor(_DaskXGBRFModel, DaskXGBRegressor):
    """A forest for regression on collections of Dask; `n_estimators` are its trees."""


class DaskXGBRFClassifier(_DaskXGBRFModel, DaskXGBClassifier):
    """A forest for classification on collections; `n_estimators` are its trees."""
