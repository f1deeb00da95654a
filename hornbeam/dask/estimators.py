"""scikit-learn estimators for Dask collections, as those of xgboost.dask."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from typing import Any, Self

import dask.array as da
import numpy as np
import numpy.typing as npt
from dask.base import is_dask_collection
from dask.delayed import delayed
from sklearn.metrics import accuracy_score, r2_score

from hornbeam.boosting.booster import Booster
from hornbeam.callbacks import EvalsLog
from hornbeam.dask.client import OfClient, client_method, task_key
from hornbeam.dask.matrix import DaskDMatrix
from hornbeam.dask.partitions import delayed_parts, is_dataframe
from hornbeam.dask.prediction import predict_partitions, prediction_meta
from hornbeam.dask.training import train
from hornbeam.dask.workers import Workers
from hornbeam.distributed.partitions import partition_errors
from hornbeam.distributed.prediction import PredictionMeta
from hornbeam.errors import DataError, ErrorCode
from hornbeam.sklearn.base import (
    IterationRange,
    check_targets,
    encode_labels,
    sorted_classes,
)
from hornbeam.sklearn.boosting import BoostingEstimator
from hornbeam.sklearn.classifier import HornbeamClassifier
from hornbeam.sklearn.ranker import HornbeamRanker
from hornbeam.sklearn.regressor import HornbeamRegressor

__all__ = ["DaskHornbeamClassifier", "DaskHornbeamRanker", "DaskHornbeamRegressor"]


class _DaskEstimator(OfClient, BoostingEstimator):
    """Base class of the estimators for Dask collections.

    Predictions are lazy: `predict` returns a collection, each partition of which is
    predicted by the estimator for one machine, on a worker.
    """

    #: The class of the estimator that predicts a partition.
    _local_class: type[BoostingEstimator] = BoostingEstimator

    def __init_subclass__(cls, **options: Any) -> None:
        """Give `fit` the arguments of the estimator for one machine."""
        if "fit" not in vars(cls):
            cls.fit = _with_arguments(cls.fit, cls._local_class)  # type: ignore[method-assign]
        super().__init_subclass__(**options)

    # Training

    @client_method
    def fit(
        self, X: Any, y: Any, *, feature_weights: Any = None, **others: Any
    ) -> Self:
        """Fit the model; it equals that of the estimator for one machine on these rows.

        That holds if `n_estimators` or `learning_rate` is given, or `quality` is None:
        on a cluster `quality` chooses nothing, and the model has XGBoost's 100 rounds.

        Parameters
        ----------
        X
            Features: a dask.array, a dask.dataframe, or a list of delayed objects or
            futures, one for each partition.
        y
            Targets, with the same partitions.
        feature_weights
            The probability weight of each column in column sampling, instead of the
            parameter.
        others
            Those of `fit` of the estimator for one machine, by name: collections with
            the partitions of the features, and lists of them for `eval_set`. Query
            groups are `qid`, which never decreases from one partition to the next, or
            `group`, in partitions that contain whole groups.
        """
        given = self.feature_weights
        try:
            if feature_weights is not None:
                self.feature_weights = feature_weights
            return super().fit(X, y, **others)
        finally:
            self.feature_weights = given

    def _validate_features(self, X: Any, *, reset: bool) -> Any:
        return X  # DaskDMatrix checks the partitions on their workers

    def _validate_targets(self, X: Any, y: Any) -> Any:
        """Return the targets, persisted, as they are read several times."""
        return self.client.persist(y) if is_dask_collection(y) else y

    def _encode_targets(self, y: Any) -> Any:
        return y

    def _create_dmatrix(self, X: Any, **fields: Any) -> DaskDMatrix:
        return DaskDMatrix(
            self.client,
            X,
            missing=self.missing,
            feature_types=self.feature_types,
            enable_categorical=self.enable_categorical,
            dates=self.dates,
            **fields,
        )

    def _train(self, *args: Any, **options: Any) -> tuple[Booster, EvalsLog]:
        found = train(self.client, *args, **options)
        booster: Booster = found["booster"]
        columns = booster.model.raw_schema
        self.n_features_in_ = columns.n_features
        if columns.names is not None:
            self.feature_names_in_ = np.array(columns.names, dtype=object)
        return booster, found["history"]

    # Prediction

    def _predict_lazily(
        self,
        method: str,
        X: Any,
        meta: PredictionMeta,
        base_margin: Any = None,
        **arguments: Any,
    ) -> Any:
        """Return a lazy collection of the results of the local estimator's method."""
        local = self._local_class(**self._local_parameters())
        for name in ("classes_", "n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(local, name, getattr(self, name))
        task = partial(_predict_locally, local, method, **arguments)
        return predict_partitions(self.get_booster(), X, task, meta, base_margin)

    def _local_parameters(self) -> dict[str, Any]:
        """Return the parameters for prediction; others may be functions, not sent."""
        return {
            "missing": self.missing,
            "feature_types": self.feature_types,
            "enable_categorical": self.enable_categorical,
            "n_jobs": 1,
        }

    def _meta(
        self, iteration_range: IterationRange | None, **arguments: Any
    ) -> PredictionMeta:
        """Return shape and type of the booster's prediction of a row."""
        arguments |= {"iteration_range": self._get_iteration_range(iteration_range)}
        return prediction_meta(self.get_booster(), arguments)

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
        """Return a lazy collection of predictions; a classifier predicts labels.

        Parameters
        ----------
        X
            Features, with the columns of training: a dask.array or a dask.dataframe.
            The result is a collection of the same kind.
        output_margin
            Whether to return margins, without the transformation of the objective.
        validate_features
            Whether to compare the columns with those of training.
        base_margin
            Initial margins instead of the model's base score: a collection with the
            same partitions.
        iteration_range
            The rounds to use, from the first up to but not including the second.
        """
        return self._predict_lazily(
            "predict",
            X,
            self._predict_meta(output_margin, iteration_range),
            base_margin,
            output_margin=output_margin,
            validate_features=validate_features,
            iteration_range=iteration_range,
        )

    def _predict_meta(
        self, output_margin: bool, iteration_range: IterationRange | None
    ) -> PredictionMeta:
        return self._meta(iteration_range, output_margin=output_margin)

    @client_method
    def apply(self, X: Any, iteration_range: IterationRange | None = None) -> Any:
        """Return a lazy dask.array of the leaf of each row in each tree."""
        leaves = self._predict_lazily(
            "apply",
            X,
            self._meta(iteration_range, pred_leaf=True),
            iteration_range=iteration_range,
        )
        return _as_array(leaves)

    def _score(self, metric: Any, X: Any, y: Any, sample_weight: Any) -> float:
        found, weights = self._gather(self.predict(X)), self._gather(sample_weight)
        return float(metric(self._gather(y), found, sample_weight=weights))

    def _gather(self, collection: Any) -> npt.NDArray[Any] | None:
        """Return the values of a collection of one column as a local array."""
        if collection is None:
            return None
        parts = self._compute(delayed_parts(collection, "y"))
        return np.concatenate([np.asarray(part).ravel() for part in parts])

    def _compute(self, parts: list[Any]) -> list[Any]:
        """Return the results of delayed objects and futures."""
        return Workers(self.client).results(self.client.compute(parts))


def _with_arguments(
    fit: Callable[..., Any], local_class: type[BoostingEstimator]
) -> Callable[..., Any]:
    """Return `fit` with the signature that scikit-learn and editors read."""

    @wraps(fit)
    def own(self: Any, X: Any, y: Any, **given: Any) -> Any:
        return fit(self, X, y, **given)

    weights = Parameter("feature_weights", Parameter.KEYWORD_ONLY, default=None)
    arguments = signature(local_class.fit).parameters.values()
    own.__signature__ = Signature([*arguments, weights])  # type: ignore[attr-defined]
    return own


def _predict_locally(
    estimator: BoostingEstimator,
    method: str,
    booster: Booster,
    data: Any,
    base_margin: Any,
    **arguments: Any,
) -> npt.NDArray[Any]:
    """Return the predictions of a partition by the estimator for one machine."""
    # A copy, as tasks in other threads have the same estimator.
    local = type(estimator)()
    local.__dict__.update(estimator.__dict__, _booster=booster)
    if base_margin is not None:
        arguments["base_margin"] = base_margin
    found: npt.NDArray[Any] = getattr(local, method)(data, **arguments)
    return found


class DaskHornbeamRegressor(_DaskEstimator, HornbeamRegressor):
    """`HornbeamRegressor` for Dask collections; the parameters are the same.

    Attributes
    ----------
    client
        The client of the cluster; by default Dask's.
    """

    _local_class = HornbeamRegressor

    @client_method
    def predict_interval(
        self,
        X: Any,
        coverage: float = 0.9,
        *,
        iteration_range: IterationRange | None = None,
    ) -> Any:
        """Return a lazy collection of prediction intervals, (rows, 2).

        Parameters
        ----------
        X
            Features, with the columns of training.
        coverage
            The coverage probability, above 0 and below 1.
        iteration_range
            The rounds to use, from the first up to but not including the second.
        """
        return self._predict_lazily(
            "predict_interval",
            X,
            self._meta(iteration_range),
            coverage=coverage,
            iteration_range=iteration_range,
        )

    @client_method
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination, R², of the predictions."""
        return self._score(r2_score, X, y, sample_weight)


class DaskHornbeamClassifier(_DaskEstimator, HornbeamClassifier):
    """`HornbeamClassifier` for Dask collections; the parameters are the same.

    Attributes
    ----------
    classes_
        The labels in all partitions, sorted.
    client
        The client of the cluster; by default Dask's.
    """

    _local_class = HornbeamClassifier

    def _fit_targets(self, y: Any) -> None:
        found = self._compute(
            [
                delayed(_distinct)(part, number, dask_key_name=task_key("labels"))
                for number, part in enumerate(delayed_parts(y, "y"))
            ]
        )
        for labels in found:
            if isinstance(labels, Exception):
                raise labels
        nonempty = [labels for labels in found if len(labels)]
        if not nonempty:
            raise DataError(
                "y has no labels; pass at least one row", code=ErrorCode.EMPTY_DATA
            )
        self.classes_ = np.unique(np.concatenate(nonempty))

    def _encode_targets(self, y: Any) -> Any:
        if isinstance(y, da.Array):
            if y.ndim == 2 and y.shape[1] == 1:
                y = y[:, 0]
            return da.map_blocks(
                _encode, y, self.classes_, token="hornbeam-encode", dtype=np.float64
            )
        return [
            delayed(_encode)(part, self.classes_, dask_key_name=task_key("encode"))
            for part in delayed_parts(y, "y")
        ]

    def _predict_meta(
        self, output_margin: bool, iteration_range: IterationRange | None
    ) -> PredictionMeta:
        # Of the margins in either case, which also checks iteration_range.
        margins = super()._predict_meta(True, iteration_range)
        return margins if output_margin else PredictionMeta((), self.classes_.dtype)

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
        margins = self._meta(iteration_range, output_margin=True)
        found = self._predict_lazily(
            "predict_proba",
            X,
            PredictionMeta((max(self.n_classes_, 1),), margins.dtype),
            base_margin,
            validate_features=validate_features,
            iteration_range=iteration_range,
        )
        return _as_array(found)

    @client_method
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of the predictions."""
        return self._score(accuracy_score, X, y, sample_weight)


class DaskHornbeamRanker(_DaskEstimator, HornbeamRanker):
    """`HornbeamRanker` for Dask collections; the parameters are the same, and:

    Parameters
    ----------
    objective
        A name, or a function as for `HornbeamRanker`; it runs on each worker, with the
        sizes of the groups there, in the order of the rows.
    allow_group_split
        Ignored; for compatibility with XGBoost. Groups are never split.
    """

    _local_class = HornbeamRanker

    def __init__(
        self,
        *,
        objective: str | Callable[..., tuple[Any, Any]] = "rank:ndcg",
        allow_group_split: bool = False,
        **others: Any,
    ) -> None:
        super().__init__(objective=objective, **others)
        self.allow_group_split = allow_group_split

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted({*HornbeamRanker._get_param_names(), "allow_group_split"})

    def _booster_params(self) -> dict[str, Any]:
        params = super()._booster_params()
        params.pop("allow_group_split")
        return params


def _distinct(y: Any, number: int) -> npt.NDArray[Any] | ValueError:
    """Return the labels of a partition, sorted, or the error in them."""
    try:
        with partition_errors(number):
            column = check_targets(np.asarray(y))
            return sorted_classes(column) if len(column) else column
    except ValueError as error:
        return DataError(
            f"partition {number} of y: {error}", code=ErrorCode.META_INFO_NOT_NUMERIC
        )


def _encode(y: Any, classes: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the class index of each label."""
    y = np.asarray(y).ravel()
    codes, unknown = encode_labels(y, classes)
    if unknown.size:
        raise DataError(
            f"eval_set has the label {y[unknown].tolist()[0]!r}, which is not among "
            "the labels of the training data",
            code=ErrorCode.LABEL_NOT_IN_TRAINING,
        )
    return codes


def _as_array(found: Any) -> da.Array:
    return found.to_dask_array() if is_dataframe(found) else found
