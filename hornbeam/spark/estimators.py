"""Estimators and models of Spark ML."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib import import_module
from typing import Any, ClassVar

from pyspark.ml import Estimator, Model
from pyspark.ml.util import MLReadable, MLWritable
from pyspark.sql import DataFrame

from hornbeam.boosting.booster import Booster
from hornbeam.data.containers.frame import check_dates_option
from hornbeam.data.schema import times_of
from hornbeam.distributed.parameter_checks import check_cluster_training
from hornbeam.errors import (
    ErrorCode,
    NotTrainedError,
    ParameterError,
    short_traceback,
)
from hornbeam.params import Parameters
from hornbeam.spark.columns import (
    add_predictions,
    check_frame,
    select_features,
    select_fields,
)
from hornbeam.spark.params import (
    DATES,
    ClassParams,
    SparkParams,
    constructor,
    declare,
    described,
    of_learner,
)
from hornbeam.spark.prediction import Prediction
from hornbeam.spark.rows import Features
from hornbeam.spark.saving import Reader, Writer
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
    "SparkEstimator",
    "SparkModel",
    "TrainingSummary",
]

#: The parameters that name columns, by the fields that these hold.
_FIELDS = {
    "label": "labelCol",
    "weight": "weightCol",
    "base_margin": "base_margin_col",
    "qid": "qid_col",
    "validation": "validationIndicatorCol",
    "row_key": "row_key_col",
}
#: The parameters that are options of `DMatrix` and of `train`.
_OF_MATRIX = ("missing", "feature_types", "feature_weights")
_OF_TRAIN = ("early_stopping_rounds", "xgb_model", "callbacks")
#: Parameters that a stage sets by itself.
_OF_STAGE = {"nthread", "num_class", "validate_parameters"}
#: The parameters of training of `hornbeam`.
LEARNER_PARAMS = tuple(
    entry.name for entry in fields(Parameters) if entry.name not in _OF_STAGE
)


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
    __doc__ = f"""Base of the estimators.

    Parameters
    ----------
{described()}
    params
        The parameters of `hornbeam.train`.
    """

    #: The class of the model.
    model_class: ClassVar[type[SparkModel]]
    #: The objective, where none is given; None: by the number of classes.
    objective_name: ClassVar[str | None] = None
    #: Whether rows are in query groups.
    has_groups: ClassVar[bool] = False
    #: Whether the metrics of the training rows are computed without `verbose`, too.
    always_evaluates: ClassVar[bool] = False

    def __init__(self, **params: Any) -> None:
        super().__init__()
        self.setParams(**params)

    # What notebooks and editors show.
    __init__.__signature__ = constructor()  # type: ignore[attr-defined]

    def _check_learner_params(self) -> None:
        check_cluster_training(Parameters.resolve(self.learner()))

    # Fitting

    @short_traceback
    def _fit(self, dataset: DataFrame) -> Any:
        check_frame(dataset)
        self._check_learner_params()
        self._check_settings()
        dates = self.given("dates") if self.hasParam("dates") else None
        if dates is not None:
            check_dates_option(dates)
        inputs, features = select_features(
            dataset,
            self.features,
            self.given("feature_names"),
            single=self.library != "hornbeam",
            sparse=self.given("enable_sparse_data_optim"),
            dates=dates == "expand",
        )
        fields = self._named(_FIELDS)
        arranged = arrange(
            dataset.select(*inputs, *select_fields(dataset, fields)),
            self.given("num_workers"),
            force=self.given("force_repartition"),
            random=self.given("repartition_random_shuffle"),
            qid="qid" if "qid" in fields else None,
        )
        content, history = run_stage(
            arranged,
            self._task(features, fields, dates),
            type(self).__name__,
            self.given("launch_tracker_on_driver"),
        )
        model = self.model_class()
        model._resetUid(self.uid)
        model._fill(
            import_module(self.library).Booster(model_file=bytearray(content)),
            {
                "train_objective_history": history.get("training", {}),
                "validation_objective_history": history.get("validation", {}),
            },
        )
        return self._copyValues(model)

    def _task(
        self, features: Features, fields: Mapping[str, str], dates: str | None
    ) -> Task:
        params, verbose = self.learner(), self.given("verbose")
        if self.objective_name is not None:
            params.setdefault("objective", self.objective_name)
        matrix_options = {name: self.given(name) for name in _OF_MATRIX}
        matrix_options["dates"] = dates
        return Task(
            library=self.library,
            coordinator=None,
            run=secrets.token_hex(16),
            features=features,
            fields=fields,
            params=params,
            options={
                "num_boost_round": self.given("n_estimators"),
                "verbose_eval": verbose,
                **{name: self.given(name) for name in _OF_TRAIN},
            },
            matrix_options={k: v for k, v in matrix_options.items() if v is not None},
            is_classifier=isinstance(self, ClassParams),
            evaluates_training=bool(verbose) or self.always_evaluates,
            checkpoint_interval=self.given("checkpoint_interval"),
            coll=connections(self.given("coll_cfg")),
            num_workers=self.given("num_workers"),
        )

    def _check_settings(self) -> None:
        """Raise a `ParameterError` if parameters do not fit together."""
        for name, least in (
            ("num_workers", 1),
            ("n_estimators", 0),
            ("checkpoint_interval", 0),
        ):
            value = self.given(name)
            if value < least:
                raise ParameterError(
                    f"{name} must be {least} or more, not {value}",
                    code=ErrorCode.PARAMETER_OUT_OF_RANGE,
                )
        validation = self.given("validationIndicatorCol")
        if self.given("early_stopping_rounds") and validation is None:
            raise ParameterError(
                "early_stopping_rounds needs validation rows: name a column of "
                "booleans that marks them, validation_indicator_col",
                code=ErrorCode.EVALS_MISSING,
            )
        start = self.given("xgb_model")
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
        self._check_groups()
        self._check_sparse()

    def _check_groups(self) -> None:
        kind, is_given = type(self).__name__, self.given("qid_col") is not None
        if self.has_groups and not is_given:
            raise ParameterError(
                f"{kind} needs the column of query groups: qid_col",
                code=ErrorCode.GROUPS_MISSING,
            )
        if is_given and not self.has_groups:
            raise ParameterError(
                f"{kind} has no query groups; leave qid_col out, or use a ranker",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )

    def _check_sparse(self) -> None:
        if not self.given("enable_sparse_data_optim"):
            return
        if self.given("missing") != 0.0:
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
            sparse=self.given("enable_sparse_data_optim"),
            dates=bool(times_of(booster.model.raw_schema)),
        )
        fields = self._named({"base_margin": "base_margin_col"})
        inputs += select_fields(dataset, fields)
        contrib = self.given("pred_contrib_col")
        chosen = self.given("iteration_range")
        plan = Prediction(
            self.library,
            features,
            fields,
            isinstance(self, ClassParams),
            contrib is not None,
            self.given("missing"),
            (0, 0) if chosen is None else tuple(chosen),
        )
        if self._broadcast is None:
            content = bytes(booster.save_raw("ubj"))
            context = dataset.sparkSession.sparkContext
            self._broadcast = context.broadcast(content)
        udf = plan.udf(self._broadcast, booster.digest())
        return add_predictions(dataset, inputs, udf, self._outputs())

    def _outputs(self) -> dict[str, str]:
        """Return the names of columns by the fields of the result."""
        return self._named(
            {"prediction": "predictionCol", "+contrib": "pred_contrib_col"}
        )


class ClassifierModel(SparkModel, ClassParams):
    """Base of the models of classifiers."""

    def _outputs(self) -> dict[str, str]:
        return self._named(
            {
                "+raw": "rawPredictionCol",
                "prediction": "predictionCol",
                "+probability": "probabilityCol",
                "contrib": "pred_contrib_col",
            }
        )

    @property
    def numClasses(self) -> int:  # noqa: N802  as in Spark ML
        """The number of classes."""
        return max(2, self.get_booster().model.num_class)


class Classifier(SparkEstimator, ClassParams):
    """Base of classifiers."""


class Ranker(SparkEstimator):
    """Base of rankers."""

    objective_name = "rank:ndcg"
    has_groups = True


@declare(DATES | of_learner(LEARNER_PARAMS, "hornbeam.train"))
class _Params(SparkParams):
    """The parameters of the estimators and models here."""

    learner_params = LEARNER_PARAMS


class HornbeamRegressorModel(_Params, SparkModel):
    """The model of `HornbeamRegressor`."""


class HornbeamRegressor(_Params, SparkEstimator):
    """Gradient boosted trees for regression; see `SparkEstimator`."""

    model_class = HornbeamRegressorModel


class HornbeamClassifierModel(_Params, ClassifierModel):
    """The model of `HornbeamClassifier`."""


class HornbeamClassifier(_Params, Classifier):
    """Gradient boosted trees for the classes 0, 1, 2, ...; see `SparkEstimator`."""

    model_class = HornbeamClassifierModel


class HornbeamRankerModel(_Params, SparkModel):
    """The model of `HornbeamRanker`."""


class HornbeamRanker(_Params, Ranker):
    """LambdaMART for the rows of query groups; see `SparkEstimator`."""

    model_class = HornbeamRankerModel
