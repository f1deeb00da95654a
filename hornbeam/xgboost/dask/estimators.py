"""The regressors and classifiers of xgboost.dask."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, cast

import dask.array as da
import numpy as np
import numpy.typing as npt
from dask.delayed import delayed
from sklearn.base import ClassifierMixin, RegressorMixin

from hornbeam.callbacks.base import EvalsLog
from hornbeam.dask.client import OfClient, client_method
from hornbeam.dask.partitions import delayed_parts, is_dataframe, is_series
from hornbeam.dask.workers import Workers
from hornbeam.errors import DataError, ErrorCode
from hornbeam.xgboost._typing import IterationRange
from hornbeam.xgboost.booster import Booster
from hornbeam.xgboost.dask.matrices import DaskDMatrix, DaskQuantileDMatrix
from hornbeam.xgboost.dask.prediction import inplace_predict, predict
from hornbeam.xgboost.dask.training import train
from hornbeam.xgboost.deprecation import deprecate_positional_args
from hornbeam.xgboost.sklearn.estimators import XGBRFModel, both_class_probabilities
from hornbeam.xgboost.sklearn.model import XGBModel

__all__ = [
    "DaskScikitLearnBase",
    "DaskXGBClassifier",
    "DaskXGBRFClassifier",
    "DaskXGBRFRegressor",
    "DaskXGBRegressor",
]


class DaskScikitLearnBase(OfClient, XGBModel):
    """Base class of the estimators for Dask collections.

    The parameters are those of `XGBModel`, and:

    Parameters
    ----------
    coll_cfg
        Ignored; for compatibility with XGBoost. Workers use Dask's connections only.
    """

    @deprecate_positional_args
    def __init__(self, *, coll_cfg: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.coll_cfg = coll_cfg

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
        """Return a lazy collection of predictions.

        The result is a dask.array, or a series if `X` is a dask.dataframe and each row
        has one prediction. The arguments are those of `XGBModel.predict`.
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
    """`XGBRegressor` for Dask collections."""


class DaskXGBClassifier(ClassifierMixin, DaskScikitLearnBase):
    """`XGBClassifier` for Dask collections.

    Attributes
    ----------
    classes_, n_classes_
        The labels in all partitions, and their number.
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
        tasks = [delayed(np.unique)(part) for part in delayed_parts(y, "y")]
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
        """Return a lazy dask.array of class probabilities, (rows, classes).

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
        # Other estimators grow one tree per round.
        return super().get_xgb_params() | {"num_parallel_tree": self.n_estimators}


class DaskXGBRFRegressor(_DaskXGBRFModel, DaskXGBRegressor):
    """A random forest of `n_estimators` trees for regression on collections."""


class DaskXGBRFClassifier(_DaskXGBRFModel, DaskXGBClassifier):
    """A random forest of `n_estimators` trees for classification on collections."""
