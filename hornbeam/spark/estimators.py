"""Estimators and models of Spark ML."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib import import_module
from typing import Any, ClassVar

from pyspark import keyword_only
from pyspark.ml import Estimator, Model
from pyspark.ml.util import MLReadable, MLWritable
from pyspark.sql import DataFrame

from hornbeam.boosting.booster import Booster
from hornbeam.data.containers.frame import check_dates_option
from hornbeam.data.schema import times_of
from hornbeam.distributed.parameter_checks import (
    check_cluster_booster,
    check_cluster_parameters,
)
from hornbeam.errors import (
    ErrorCode,
    NotTrainedError,
    ParameterError,
    short_traceback,
)
from hornbeam.params import Parameters
from hornbeam.spark.columns import Features, select_features, select_fields
from hornbeam.spark.coordinator import Address
from hornbeam.spark.params import ClassParams, DateParams, SparkParams, declare
from hornbeam.spark.prediction import Prediction, add_predictions, predict_udf
from hornbeam.spark.saving import Reader, Writer
from hornbeam.spark.session import check_frame
from hornbeam.spark.stage import arrange, connections, run_stage
from hornbeam.spark.task import Task

__all__ = [
    "Classifier",
    "ClassifierModel",
    "HornbeamClassifier",
    "HornbeamClassifierModel",
    "HornbeamRanker",
    "HornbeamRankerModel",
    "HornbeamRegressor",
    "HornbeamRegressorModel",
    "Ranker",
    "RankerModel",
    "Regressor",
    "RegressorModel",
    "SparkEstimator",
    "SparkModel",
    "TrainingSummary",
]

#: Parameters that a stage sets by itself.
_OF_STAGE = {"nthread", "num_class", "validate_parameters"}
#: The parameters of training of `hornbeam`.
LEARNER_PARAMS = tuple(
    entry.name for entry in fields(Parameters) if entry.name not in _OF_STAGE
)
#: Stands for the address that the stage adds.
_ON_DRIVER = Address("", 0, "")


@dataclass
class TrainingSummary:
    """The metrics of each round, by their names."""

    train_objective_history: dict[str, list[float]] = field(default_factory=dict)
    validation_objective_history: dict[str, list[float]] = field(default_factory=dict)


class _Saved(MLReadable[Any], MLWritable):
    """What can be saved to a folder and loaded from there."""

    def write(self) -> Writer:
        """Return the writer: ``write().overwrite().save(path)``."""
        return Writer(self)  # type: ignore[arg-type]

    @classmethod
    def read(cls) -> Reader:
        """Return the reader."""
        return Reader(cls)


class SparkEstimator(Estimator[Any], SparkParams, _Saved):
    """Base of the estimators.

    Parameters
    ----------
    features_col
        A column of vectors or arrays, or a list of columns of numbers and times.
    label_col, weight_col, base_margin_col
        Columns of numbers; base margins can be arrays, of a number for each output.
    prediction_col, pred_contrib_col
        Columns of predictions that the model adds, and of contributions of features.
    probability_col, raw_prediction_col
        Of a classifier: vectors of the probability and of the margin of each class.
    validation_indicator_col
        A column of booleans that marks the rows that are not trained on, but evaluated
        after each round.
    qid_col
        Of a ranker: the column of query groups, whole numbers.
    row_key_col
        A column of whole numbers or text, by which `subsample` draws rows; by default
        it draws them by a hash of their values. So the order of the rows, which Spark
        does not keep, does not change the model. Rows of equal keys are drawn together.
    num_workers
        The number of tasks that train, each with ``spark.task.cpus`` threads.
    force_repartition, repartition_random_shuffle
        Whether rows are shuffled to the workers even if there are as many partitions,
        and whether a shuffle is at random.
    enable_sparse_data_optim
        Whether vectors become a sparse matrix; needs ``missing=0.0``.
    launch_tracker_on_driver
        Whether the tasks find each other by the driver, which then prints the rounds
        and keeps checkpoints; otherwise by the first task, which prints them, and each
        task keeps checkpoints on the disk of its executor.
    coll_cfg
        Settings of the tasks' connections: a dict of ``retry``, ``timeout``,
        ``tracker_host_ip``, ``tracker_port`` and ``tracker_timeout``, or XGBoost's
        ``collective.Config``.
    checkpoint_interval
        Rounds between two checkpoints; 0: none. If a task is lost, Spark tries the
        stage again, and training goes on from the last checkpoint to the same model.
    n_estimators
        The number of rounds.
    early_stopping_rounds
        Rounds without improvement on the validation rows after which training stops.
    verbose
        Whether the driver prints the metrics of each round, or the rounds between two
        lines. Without it the metrics of the training rows are not computed.
    missing
        The number that stands for missing values, besides NaN and null.
    feature_names, feature_types, feature_weights
        As for `hornbeam.DMatrix`.
    dates
        ``"expand"`` (the default): of columns of dates, timestamps and intervals, trees
        split on year, month, weekday, hour and so on, those that vary in all rows.
        Timestamps are on the clock of ``spark.sql.session.timeZone``. ``"error"``:
        such columns are an error.
    iteration_range
        Rounds (begin, end) that predict.
    xgb_model
        A booster to continue training from.
    callbacks
        Callbacks of training, which run in each task.
    params
        The parameters of `hornbeam.train`.
    """

    #: The class of the model.
    model_class: ClassVar[type[SparkModel]]
    #: The objective, where none is given; None: by the number of classes.
    objective_name: ClassVar[str | None] = None
    #: Whether the metrics of the training rows are computed without `verbose`, too.
    always_evaluates: ClassVar[bool] = False
    _input_kwargs: dict[str, Any]

    @keyword_only
    def __init__(
        self,
        *,
        features_col: str | Sequence[str] = "features",
        label_col: str = "label",
        prediction_col: str = "prediction",
        probability_col: str = "probability",
        raw_prediction_col: str = "rawPrediction",
        pred_contrib_col: str | None = None,
        validation_indicator_col: str | None = None,
        weight_col: str | None = None,
        base_margin_col: str | None = None,
        qid_col: str | None = None,
        row_key_col: str | None = None,
        num_workers: int = 1,
        force_repartition: bool = False,
        repartition_random_shuffle: bool = False,
        enable_sparse_data_optim: bool = False,
        launch_tracker_on_driver: bool = True,
        coll_cfg: Any = None,
        checkpoint_interval: int = 10,
        n_estimators: int = 100,
        early_stopping_rounds: int | None = None,
        verbose: bool | int = True,
        missing: float = math.nan,
        feature_names: Sequence[str] | None = None,
        feature_types: Sequence[str] | None = None,
        feature_weights: Sequence[float] | None = None,
        iteration_range: tuple[int, int] | None = None,
        xgb_model: Booster | None = None,
        callbacks: Sequence[Any] | None = None,
        **params: Any,
    ) -> None:
        super().__init__()
        self.setParams(**self._input_kwargs)

    def _check_learner_params(self) -> None:
        parameters = Parameters.resolve(self.learner())
        check_cluster_parameters(parameters)
        check_cluster_booster(parameters)

    # Fitting

    @short_traceback
    def _fit(self, dataset: DataFrame) -> Any:
        check_frame(dataset)
        self._check_learner_params()
        self._check_settings(dataset)
        num_workers, qid = self.getOrDefault(self.num_workers), self.given(self.qid_col)
        inputs, features = self._select_features(dataset)
        names = self._fields()
        task = self._task(features, names)
        selected = dataset.select(*inputs, *select_fields(dataset, names))
        arranged = arrange(
            selected,
            num_workers,
            force=self.getOrDefault(self.force_repartition),
            random=self.getOrDefault(self.repartition_random_shuffle),
            qid=None if qid is None else "qid",
        )
        coll = connections(self.given(self.coll_cfg))
        found = run_stage(arranged, task, coll, type(self).__name__)
        library = import_module(self.library)
        model = self.model_class()
        model._resetUid(self.uid)
        booster = library.Booster(model_file=bytearray(found["model"]))
        history = json.loads(found["history"])
        model._fill(
            booster,
            {
                "train_objective_history": history.get("training", {}),
                "validation_objective_history": history.get("validation", {}),
            },
        )
        return self._copyValues(model)

    def _select_features(self, dataset: DataFrame) -> Any:
        return select_features(
            dataset,
            self.features,
            self.given(self.feature_names),
            single=self.library != "hornbeam",
            sparse=self.getOrDefault(self.enable_sparse_data_optim),
            dates=self._dates() == "expand",
        )

    def _dates(self) -> str | None:
        """Return what becomes of columns of times; None: the library has no choice."""
        if not isinstance(self, DateParams):
            return None
        dates = str(self.getOrDefault(self.dates))
        check_dates_option(dates)
        return dates

    def _fields(self) -> dict[str, str]:
        """Return the names of columns by the names of fields."""
        columns = {
            "label": self.labelCol,
            "weight": self.weightCol,
            "base_margin": self.base_margin_col,
            "qid": self.qid_col,
            "validation": self.validationIndicatorCol,
            "row_key": self.row_key_col,
        }
        found = {name: self.given(param) for name, param in columns.items()}
        return {name: column for name, column in found.items() if column is not None}

    def _task(self, features: Features, names: Mapping[str, str]) -> Task:
        params, verbose = self.learner(), self.given(self.verbose)
        if self.objective_name is not None:
            params.setdefault("objective", self.objective_name)
        matrix_options = {
            "missing": self.getOrDefault(self.missing),
            "feature_types": self.given(self.feature_types),
            "feature_weights": self.given(self.feature_weights),
            "dates": self._dates(),
        }
        stops = self.given(self.early_stopping_rounds)
        coll = connections(self.given(self.coll_cfg))
        return Task(
            library=self.library,
            coordinator=_ON_DRIVER
            if self.getOrDefault(self.launch_tracker_on_driver)
            else None,
            run=secrets.token_hex(16),
            features=features,
            fields=tuple(names),
            params=params,
            num_boost_round=self.getOrDefault(self.n_estimators),
            options={
                "verbose_eval": verbose,
                "early_stopping_rounds": stops,
                "xgb_model": self.given(self.xgb_model),
                "callbacks": self.given(self.callbacks),
            },
            matrix_options={k: v for k, v in matrix_options.items() if v is not None},
            is_classifier=isinstance(self, ClassParams),
            evaluates_training=bool(verbose) or self.always_evaluates,
            checkpoint_interval=self.getOrDefault(self.checkpoint_interval),
            retries=coll["retry"],
            timeout=coll["timeout"] or None,
            num_workers=self.getOrDefault(self.num_workers),
        )

    def _check_settings(self, dataset: DataFrame) -> None:
        """Raise a `ParameterError` if parameters do not fit together."""
        for param, least in (
            (self.num_workers, 1),
            (self.n_estimators, 0),
            (self.checkpoint_interval, 0),
        ):
            value = self.getOrDefault(param)
            if value < least:
                raise ParameterError(
                    f"{param.name} must be {least} or more, not {value}",
                    code=ErrorCode.PARAMETER_OUT_OF_RANGE,
                )
        validation = self.given(self.validationIndicatorCol)
        if self.given(self.early_stopping_rounds) and validation is None:
            raise ParameterError(
                "early_stopping_rounds needs validation rows: name a column of "
                "booleans that marks them, validation_indicator_col",
                code=ErrorCode.EVALS_MISSING,
            )
        start = self.given(self.xgb_model)
        if start is not None and not isinstance(start, Booster):
            raise ParameterError(
                "xgb_model must be a Booster, such as get_booster() of a model, not "
                f"{type(start).__name__}",
                code=ErrorCode.INVALID_PARAMETER_TYPE,
            )
        objective = self.learner().get("objective")
        if objective is not None and not isinstance(objective, str):
            raise ParameterError(
                "objective must be the name of an objective on Spark, not "
                f"{objective!r}",
                code=ErrorCode.INVALID_PARAMETER_TYPE,
            )
        self._check_sparse(dataset)

    def _check_sparse(self, dataset: DataFrame) -> None:
        if not self.getOrDefault(self.enable_sparse_data_optim):
            return
        if self.getOrDefault(self.missing) != 0.0:
            raise ParameterError(
                "enable_sparse_data_optim takes zeros for missing, since Spark stores "
                "them or not as it likes; set missing=0.0, too",
                code=ErrorCode.CONFLICTING_PARAMETERS,
            )
        if not isinstance(self.features, str):
            raise ParameterError(
                "enable_sparse_data_optim needs one column of vectors as features_col, "
                "not a list of columns",
                code=ErrorCode.CONFLICTING_PARAMETERS,
            )


class SparkModel(Model, SparkParams, _Saved):
    """Base of the models."""

    _booster: Any = None
    _broadcast: Any = None
    #: The metrics of each round; None: it was not trained here.
    training_summary: TrainingSummary | None = None

    def _fill(self, booster: Any, summary: Mapping[str, Any] | None) -> None:
        self._booster = booster
        self._broadcast = None
        self.training_summary = None if summary is None else TrainingSummary(**summary)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_broadcast"}

    def get_booster(self) -> Any:
        """Return the booster, which trains on and is inspected without Spark."""
        if self._booster is None:
            raise NotTrainedError(
                f"this {type(self).__name__} has no trees; fit an estimator, or load a "
                "model",
                code=ErrorCode.NOT_TRAINED,
            )
        return self._booster

    def get_feature_importances(
        self, importance_type: str = "weight"
    ) -> dict[str, float | list[float]]:
        """Return the importance of each feature; see `Booster.get_score`."""
        found: dict[str, float | list[float]] = self.get_booster().get_score(
            importance_type=importance_type
        )
        return found

    @short_traceback
    def _transform(self, dataset: DataFrame) -> DataFrame:
        check_frame(dataset)
        booster = self.get_booster()
        given = self.features
        if not isinstance(given, str) and not set(given) <= set(dataset.columns):
            given = self.getFeaturesCol()
        inputs, features = select_features(
            dataset,
            given,
            None,
            single=self.library != "hornbeam",
            sparse=self.getOrDefault(self.enable_sparse_data_optim),
            dates=bool(times_of(booster.model.raw_schema)),
        )
        margin = self.given(self.base_margin_col)
        if margin is not None:
            inputs += select_fields(dataset, {"base_margin": margin})
        contrib = self.given(self.pred_contrib_col)
        chosen = self.given(self.iteration_range)
        plan = Prediction(
            self.library,
            features,
            () if margin is None else ("base_margin",),
            isinstance(self, ClassParams),
            contrib is not None,
            self.getOrDefault(self.missing),
            (0, 0) if chosen is None else tuple(chosen),
        )
        if self._broadcast is None:
            content = bytes(booster.save_raw("ubj"))
            context = dataset.sparkSession.sparkContext
            self._broadcast = context.broadcast(content)
        udf = predict_udf(plan, self._broadcast, booster.digest())
        return add_predictions(dataset, inputs, udf, self._outputs(contrib))

    def _outputs(self, contrib: str | None) -> dict[str, str]:
        """Return the names of columns by the fields of the result."""
        found = {"prediction": self.given(self.predictionCol), "+contrib": contrib}
        return {name: column for name, column in found.items() if column is not None}


class RegressorModel(SparkModel):
    """Base of the models of regressors."""


class Regressor(SparkEstimator):
    """Base of regressors."""

    def _check_settings(self, dataset: DataFrame) -> None:
        super()._check_settings(dataset)
        _check_no_groups(self)


class ClassifierModel(SparkModel, ClassParams):
    """Base of the models of classifiers."""

    def _outputs(self, contrib: str | None) -> dict[str, str]:
        found = {
            "+raw": self.given(self.rawPredictionCol),
            "prediction": self.given(self.predictionCol),
            "+probability": self.given(self.probabilityCol),
            "contrib": contrib,
        }
        return {name: column for name, column in found.items() if column is not None}

    @property
    def numClasses(self) -> int:  # noqa: N802  as in Spark ML
        """The number of classes."""
        return max(2, self.get_booster().model.num_class)


class Classifier(SparkEstimator, ClassParams):
    """Base of classifiers."""

    def _check_settings(self, dataset: DataFrame) -> None:
        super()._check_settings(dataset)
        _check_no_groups(self)


class RankerModel(SparkModel):
    """Base of the models of rankers."""


class Ranker(SparkEstimator):
    """Base of rankers."""

    objective_name = "rank:ndcg"

    def _check_settings(self, dataset: DataFrame) -> None:
        super()._check_settings(dataset)
        if self.given(self.qid_col) is None:
            raise ParameterError(
                f"{type(self).__name__} needs the column of query groups: qid_col",
                code=ErrorCode.GROUPS_MISSING,
            )


def _check_no_groups(estimator: SparkEstimator) -> None:
    if estimator.given(estimator.qid_col) is not None:
        raise ParameterError(
            f"{type(estimator).__name__} has no query groups; leave qid_col out, or "
            "use a ranker",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )


_declared = declare(LEARNER_PARAMS, "hornbeam.train")


@_declared
class HornbeamRegressorModel(RegressorModel, DateParams):
    """The model of `HornbeamRegressor`."""


@_declared
class HornbeamRegressor(Regressor, DateParams):
    """Gradient boosted trees for regression; see `SparkEstimator`."""

    model_class = HornbeamRegressorModel


@_declared
class HornbeamClassifierModel(ClassifierModel, DateParams):
    """The model of `HornbeamClassifier`."""


@_declared
class HornbeamClassifier(Classifier, DateParams):
    """Gradient boosted trees for the classes 0, 1, 2, ...; see `SparkEstimator`."""

    model_class = HornbeamClassifierModel


@_declared
class HornbeamRankerModel(RankerModel, DateParams):
    """The model of `HornbeamRanker`."""


@_declared
class HornbeamRanker(Ranker, DateParams):
    """LambdaMART for the rows of query groups; see `SparkEstimator`."""

    model_class = HornbeamRankerModel
