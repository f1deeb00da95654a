"""Estimators for collections of Dask, with the names of xgboost.dask."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import dask.array as da
import numpy as np
import numpy.typing as npt
from dask.base import is_dask_collection
from dask.delayed import delayed
from distributed import Client
from sklearn.metrics import accuracy_score, r2_score

from hornbeam.boosting.booster import Booster
from hornbeam.callbacks import EvalsLog
from hornbeam.dask.clients import client_of
from hornbeam.dask.matrix import DaskDMatrix
from hornbeam.dask.opening import named
from hornbeam.dask.partitions import is_frame, pieces_of
from hornbeam.dask.prediction import Outcome, outcome_of, predict_by
from hornbeam.dask.sync import method_by_client
from hornbeam.dask.training import train
from hornbeam.dask.workers import Workers
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

Weights = Sequence[Any] | None


class _DaskEstimator(BoostingEstimator):
    """What the estimators for Dask share: fitted on workers, and predicting there.

    What they predict is lazy: `predict` returns a collection, whose partitions are
    predicted by the estimator for one machine wherever Dask has them.
    """

    #: The estimator that predicts a partition.
    _of_partition: type[BoostingEstimator] = BoostingEstimator
    _client: Client | None = None

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

    # Training

    @method_by_client
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        base_margin: Any = None,
        eval_set: Sequence[tuple[Any, Any]] | None = None,
        verbose: bool | int | None = True,
        xgb_model: Any = None,
        sample_weight_eval_set: Weights = None,
        base_margin_eval_set: Weights = None,
        feature_weights: Any = None,
    ) -> Self:
        """Fit the model; it is that of the estimator for one machine on the same rows.

        Parameters
        ----------
        X
            Features: a dask.array, a dask.dataframe, or a list of delayed objects or
            futures, one for each partition.
        y
            Targets, with the same partitions.
        sample_weight, base_margin
            As for the estimator for one machine, with the same partitions.
        eval_set
            Pairs of features and targets to evaluate on, called ``validation_0`` and
            so on. Early stopping watches the last.
        verbose
            Whether to print the scores of each round, or of every so many rounds.
        xgb_model
            A model to go on from: an estimator, a booster or a file.
        sample_weight_eval_set, base_margin_eval_set
            The weights and margins of `eval_set`, one collection for each pair.
        feature_weights
            How likely each column is to be drawn, in place of the parameter.
        """
        return self._fit(
            X,
            y,
            _fields(sample_weight, base_margin, feature_weights),
            eval_set,
            _eval_fields(sample_weight_eval_set, base_margin_eval_set),
            verbose,
            xgb_model,
        )

    def _validate_features(self, X: Any, *, reset: bool) -> Any:
        return X  # the matrix looks, where the rows are

    def _validate_targets(self, X: Any, y: Any) -> Any:
        """Return the targets, held by the workers if they are read several times."""
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
            **fields,
        )

    def _train(self, *args: Any, **options: Any) -> tuple[Booster, EvalsLog]:
        found = train(self.client, *args, **options)
        booster: Booster = found["booster"]
        self.n_features_in_ = booster.num_features()
        if booster.feature_names is not None:
            self.feature_names_in_ = np.array(booster.feature_names, dtype=object)
        return booster, found["history"]

    # Prediction

    def _lazily(
        self,
        method: str,
        X: Any,
        outcome: Outcome,
        base_margin: Any = None,
        **arguments: Any,
    ) -> Any:
        """Return what a method of the estimator for one machine says of each row."""
        twin = self._of_partition(**self._parameters_of_twin())
        for name in ("classes_", "n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(twin, name, getattr(self, name))
        task = _ByTwin(twin, method, arguments)
        return predict_by(self.get_booster(), X, task, outcome, base_margin)

    def _parameters_of_twin(self) -> dict[str, Any]:
        """Return what prediction needs of the parameters: functions may stay here."""
        return {
            "missing": self.missing,
            "feature_types": self.feature_types,
            "enable_categorical": self.enable_categorical,
            "n_jobs": 1,
        }

    def _outcome(
        self, iteration_range: IterationRange | None, **arguments: Any
    ) -> Outcome:
        rounds = self._get_iteration_range(iteration_range)
        return outcome_of(self.get_booster(), {"iteration_range": rounds, **arguments})

    @method_by_client
    def predict(
        self,
        X: Any,
        *,
        output_margin: bool = False,
        validate_features: bool = True,
        base_margin: Any = None,
        iteration_range: IterationRange | None = None,
    ) -> Any:
        """Return a lazy collection of a prediction for each row; a classifier's class.

        Parameters
        ----------
        X
            Features, with the columns of training: a dask.array or a dask.dataframe.
            What is returned is of the same kind.
        output_margin
            Whether to leave out the transformation of the objective.
        validate_features
            Whether to compare the columns with those of training.
        base_margin
            Where to start from, instead of the model's base score: a collection with
            the same partitions.
        iteration_range
            The rounds to use, from the first up to but not including the second.
        """
        return self._lazily(
            "predict",
            X,
            self._outcome_of_predict(output_margin, iteration_range),
            base_margin,
            output_margin=output_margin,
            validate_features=validate_features,
            iteration_range=iteration_range,
        )

    def _outcome_of_predict(
        self, output_margin: bool, iteration_range: IterationRange | None
    ) -> Outcome:
        return self._outcome(iteration_range, output_margin=output_margin)

    @method_by_client
    def apply(self, X: Any, iteration_range: IterationRange | None = None) -> Any:
        """Return a lazy dask.array of the leaf of each row in each tree."""
        leaves = self._lazily(
            "apply",
            X,
            self._outcome(iteration_range, pred_leaf=True),
            iteration_range=iteration_range,
        )
        return _as_array(leaves)

    def _gathered(self, collection: Any) -> npt.NDArray[Any] | None:
        """Return the values of a collection of one column, here."""
        if collection is None:
            return None
        pieces = self._computed(pieces_of(collection, "y"))
        return np.concatenate([np.asarray(piece).ravel() for piece in pieces])

    def _computed(self, pieces: list[Any]) -> list[Any]:
        """Return the values of delayed objects and futures, here."""
        return Workers(self.client).results(self.client.compute(pieces))


@dataclass(frozen=True, slots=True)
class _ByTwin:
    """The task of an estimator's prediction."""

    twin: BoostingEstimator
    method: str
    arguments: dict[str, Any]

    def __call__(
        self, booster: Booster, data: Any, base_margin: Any
    ) -> npt.NDArray[Any]:
        # Tasks of other threads have the same twin.
        twin = type(self.twin)()
        twin.__dict__.update(self.twin.__dict__, _booster=booster)
        margin = {} if base_margin is None else {"base_margin": base_margin}
        found: npt.NDArray[Any] = getattr(twin, self.method)(
            data, **self.arguments, **margin
        )
        return found


class DaskHornbeamRegressor(_DaskEstimator, HornbeamRegressor):
    """`HornbeamRegressor` for collections of Dask; the parameters are the same.

    Attributes
    ----------
    client
        The client of the cluster; by default the one that Dask has.
    """

    _of_partition = HornbeamRegressor

    @method_by_client
    def predict_interval(
        self,
        X: Any,
        level: float = 0.9,
        *,
        iteration_range: IterationRange | None = None,
    ) -> Any:
        """Return a lazy collection of intervals that hold the targets, (rows, 2).

        Parameters
        ----------
        X
            Features, with the columns of training.
        level
            The probability with which they do, above 0 and below 1.
        iteration_range
            The rounds to use, from the first up to but not including the second.
        """
        return self._lazily(
            "predict_interval",
            X,
            self._outcome(iteration_range),
            level=level,
            iteration_range=iteration_range,
        )

    @method_by_client
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination, R², of the predictions."""
        return float(
            r2_score(
                self._gathered(y),
                self._gathered(self.predict(X)),
                sample_weight=self._gathered(sample_weight),
            )
        )


class DaskHornbeamClassifier(_DaskEstimator, HornbeamClassifier):
    """`HornbeamClassifier` for collections of Dask; the parameters are the same.

    Attributes
    ----------
    classes_
        The labels that the workers have found, sorted.
    client
        The client of the cluster; by default the one that Dask has.
    """

    _of_partition = HornbeamClassifier

    def _fit_targets(self, y: Any) -> None:
        found = self._computed(
            [
                delayed(_distinct)(piece, number)
                for number, piece in enumerate(pieces_of(y, "y"))
            ]
        )
        for one in found:
            if isinstance(one, Exception):
                raise one
        some = [values for values in found if len(values)]
        if not some:
            raise DataError(
                "y has no labels; pass at least one row", code=ErrorCode.EMPTY_DATA
            )
        self.classes_ = np.unique(np.concatenate(some))

    def _encode_targets(self, y: Any) -> Any:
        if isinstance(y, da.Array):
            if y.ndim == 2 and y.shape[1] == 1:
                y = y[:, 0]
            return da.map_blocks(_encode, y, self.classes_, dtype=np.float64)
        return [delayed(_encode)(piece, self.classes_) for piece in pieces_of(y, "y")]

    def _outcome_of_predict(
        self, output_margin: bool, iteration_range: IterationRange | None
    ) -> Outcome:
        # Of the margins in either case: the rounds are looked at on the way.
        margins = super()._outcome_of_predict(True, iteration_range)
        return margins if output_margin else Outcome((), self.classes_.dtype)

    @method_by_client
    def predict_proba(
        self,
        X: Any,
        validate_features: bool = True,
        base_margin: Any = None,
        iteration_range: IterationRange | None = None,
    ) -> Any:
        """Return a lazy dask.array of the probability of each class for each row.

        The arguments are those of `predict`.
        """
        margins = self._outcome(iteration_range, output_margin=True)
        found = self._lazily(
            "predict_proba",
            X,
            Outcome((max(self.n_classes_, 1),), margins.dtype),
            base_margin,
            validate_features=validate_features,
            iteration_range=iteration_range,
        )
        return _as_array(found)

    @method_by_client
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of the predictions."""
        return float(
            accuracy_score(
                self._gathered(y),
                self._gathered(self.predict(X)),
                sample_weight=self._gathered(sample_weight),
            )
        )


class DaskHornbeamRanker(_DaskEstimator, HornbeamRanker):
    """`HornbeamRanker` for collections of Dask; the parameters are the same, and:

    Parameters
    ----------
    objective
        By name, or a function as for `HornbeamRanker`; it runs on each worker, and gets
        the sizes of the groups there, in the order of the rows.
    allow_group_split
        Taken for XGBoost's sake: groups are kept whole either way.
    """

    _of_partition = HornbeamRanker

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

    @method_by_client
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
        eval_group: Weights = None,
        eval_qid: Weights = None,
        verbose: bool | int | None = False,
        xgb_model: Any = None,
        sample_weight_eval_set: Weights = None,
        base_margin_eval_set: Weights = None,
        feature_weights: Any = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        qid
            The group of each row: whole numbers that never fall, with the same
            partitions as `X`.
        group
            The sizes of the groups instead, in partitions that hold whole groups.
        eval_qid, eval_group
            The same for `eval_set`, one collection for each pair.
        X, y, sample_weight, base_margin, eval_set, verbose, xgb_model, \
sample_weight_eval_set, base_margin_eval_set, feature_weights
            As for `DaskHornbeamRegressor`.
        """
        return self._fit_groups(
            X,
            y,
            _fields(sample_weight, base_margin, feature_weights),
            (group, qid),
            eval_set,
            _eval_fields(sample_weight_eval_set, base_margin_eval_set),
            (eval_group, eval_qid),
            verbose,
            xgb_model,
        )


def _fields(weight: Any, base_margin: Any, feature_weights: Any) -> dict[str, Any]:
    fields = {"weight": weight, "base_margin": base_margin}
    if feature_weights is not None:
        fields["feature_weights"] = feature_weights
    return fields


def _eval_fields(weights: Weights, margins: Weights) -> dict[str, tuple[str, Weights]]:
    return {
        "weight": ("sample_weight_eval_set", weights),
        "base_margin": ("base_margin_eval_set", margins),
    }


def _distinct(y: Any, number: int) -> npt.NDArray[Any] | ValueError:
    """Return the labels of a partition, sorted, or what is wrong with them."""
    try:
        with named(number):
            column = check_targets(np.asarray(y))
            return sorted_classes(column) if len(column) else column
    except ValueError as error:
        return DataError(
            f"partition {number} of y: {error}", code=ErrorCode.META_INFO_NOT_NUMERIC
        )


def _encode(y: Any, classes: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the place of each label among the classes."""
    y = np.asarray(y).ravel()
    codes, unknown = encode_labels(y, classes)
    if unknown.size:
        raise DataError(
            f"eval_set holds the label {y[unknown].tolist()[0]!r}, which is not among "
            "the labels to train on",
            code=ErrorCode.LABEL_NOT_IN_TRAINING,
        )
    return codes


def _as_array(found: Any) -> da.Array:
    return found.to_dask_array() if is_frame(found) else found
