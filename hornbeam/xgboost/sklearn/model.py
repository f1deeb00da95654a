"""XGBModel, the base class of XGBoost's estimators."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import NotFittedError

from hornbeam.callbacks.base import EvalsLog
from hornbeam.errors import ErrorCode, NotTrainedError, ParameterError, short_traceback
from hornbeam.params import ESTIMATOR
from hornbeam.sklearn.custom_functions import metric_of
from hornbeam.xgboost._typing import IterationRange
from hornbeam.xgboost.booster import Booster
from hornbeam.xgboost.config import config_context
from hornbeam.xgboost.core import Metric
from hornbeam.xgboost.deprecation import deprecate_positional_args
from hornbeam.xgboost.dmatrix import DMatrix, QuantileDMatrix
from hornbeam.xgboost.sklearn.custom_functions import adapt_objective, split_metrics
from hornbeam.xgboost.sklearn.fit_matrices import create_matrices, get_model_categories
from hornbeam.xgboost.sklearn.parameters import XGBParameters

__all__ = ["DEFAULT_N_ESTIMATORS", "EvalFields", "XGBModel"]

#: Weights, margins and groups of `eval_set` by field: the name of the argument, and a
#: value for each pair.
EvalFields: TypeAlias = Mapping[str, tuple[str, Sequence[Any] | None]]

#: The number of rounds if `n_estimators` is None.
DEFAULT_N_ESTIMATORS = 100


class XGBModel(XGBParameters):
    """XGBoost's estimator for any objective, with XGBoost's parameters.

    Parameters
    ----------
    n_estimators
        The number of boosting rounds; 100 if None.
    objective
        The objective: a name, or a function of labels and predictions, and of
        ``sample_weight`` if there are weights, that returns gradient and hessian.
    missing
        The value that represents missing values, in addition to NaN.
    eval_metric
        The metrics on `eval_set` of `fit`: a name, a function of labels and
        predictions of which smaller values are better, or a list of names with at most
        one function.
    early_stopping_rounds
        Stop when the last metric on the last pair of `eval_set` has not improved for
        this number of rounds; predictions then use the rounds up to the best.
    importance_type
        The kind of `feature_importances_`: gain, weight, cover, total_gain or
        total_cover; None means weight for a linear model, else gain.
    kwargs
        Other parameters of the booster.
    """

    __module__ = "hornbeam.xgboost.sklearn"  # by which packages recognise it

    _Booster: Booster
    evals_result_: EvalsLog

    # Training

    @deprecate_positional_args
    @short_traceback
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        base_margin: Any = None,
        eval_set: Sequence[tuple[Any, Any]] | None = None,
        verbose: bool | int | None = True,
        xgb_model: Booster | str | XGBModel | None = None,
        sample_weight_eval_set: Sequence[Any] | None = None,
        base_margin_eval_set: Sequence[Any] | None = None,
        feature_weights: Any = None,
    ) -> Self:
        """Fit the model, starting from `xgb_model` if it is given.

        Parameters
        ----------
        X
            Features: an array, a frame or a sparse matrix.
        y
            Targets.
        sample_weight
            The weight of each row.
        base_margin
            The initial margin of each row.
        eval_set
            Pairs of features and targets to evaluate on, called ``validation_0`` and
            so on.
        verbose
            Whether to print the scores of each round, or the number of rounds between
            printed lines.
        xgb_model
            A model to continue training from: an estimator, a booster or a file.
        sample_weight_eval_set, base_margin_eval_set
            The weights and initial margins of `eval_set`, one array for each pair.
        feature_weights
            Deprecated; use the parameter of the estimator, the relative probability of
            each column in column sampling.
        """
        fields = {"weight": sample_weight, "base_margin": base_margin}
        eval_fields: EvalFields = {
            "weight": ("sample_weight_eval_set", sample_weight_eval_set),
            "base_margin": ("base_margin_eval_set", base_margin_eval_set),
        }
        return self._fit(
            X, y, fields, eval_set, eval_fields, verbose, xgb_model, feature_weights
        )

    def _fit(
        self,
        X: Any,
        y: Any,
        fields: Mapping[str, Any],
        eval_set: Sequence[tuple[Any, Any]] | None,
        eval_fields: EvalFields,
        verbose: bool | int | None,
        xgb_model: Booster | str | XGBModel | None,
        feature_weights: Any,
    ) -> Self:
        """Fit the model; `fields` are arguments of `DMatrix`, such as the weights."""
        with config_context(verbosity=self.verbosity):
            params = self.get_xgb_params() | self._objective_params(y)
            metric = self._configure_metrics(params)
            feature_weights = self._resolve_feature_weights(feature_weights)
            self._check_categorical()
            if isinstance(xgb_model, XGBModel):
                xgb_model = xgb_model.get_booster()
            model, feature_types = get_model_categories(
                X, xgb_model, self.feature_types
            )
            dtrain, evals = create_matrices(
                self._create_dmatrix,
                X,
                y,
                fields,
                eval_set,
                eval_fields,
                feature_types,
                feature_weights,
            )
            self._Booster, history = self._train(
                params,
                dtrain,
                self.get_num_boosting_rounds(),
                evals=evals,
                obj=adapt_objective(self.objective)
                if callable(self.objective)
                else None,
                early_stopping_rounds=self.early_stopping_rounds,
                verbose_eval=verbose,
                xgb_model=model,
                callbacks=self.callbacks,
                custom_metric=metric,
            )
            self._set_training_results(params, history)
        return self

    def _train(self, *args: Any, **options: Any) -> tuple[Booster, EvalsLog]:
        """Return the trained booster and its evaluation results."""
        # MLflow's autologging replaces `xgboost.sklearn.train`.
        package = sys.modules["hornbeam.xgboost.sklearn"]
        history: EvalsLog = {}
        return package.train(*args, evals_result=history, **options), history

    def _objective_params(self, y: Any) -> dict[str, Any]:
        """Return the parameters of the objective, which may depend on the targets."""
        return {"objective": "reg:squarederror"} if callable(self.objective) else {}

    def _set_training_results(
        self, params: Mapping[str, Any], history: EvalsLog
    ) -> None:
        """Set the attributes that hold results of training."""
        if history:
            self.evals_result_ = history

    def _configure_metrics(self, params: dict[str, Any]) -> Metric | None:
        """Set `eval_metric` in `params` to the named metrics; return the custom one."""
        params["eval_metric"], metric = split_metrics(
            self.eval_metric, self._adapt_metric
        )
        return metric

    def _adapt_metric(self, function: Callable[..., float]) -> Metric | None:
        return metric_of(function)

    def _resolve_feature_weights(self, given: Any) -> Any:
        if given is None:
            return self.feature_weights
        warnings.warn(
            "`feature_weights` in `fit` method is deprecated, as scikit-learn has no "
            "such argument; use it in the constructor or `set_params` instead",
            UserWarning,
            stacklevel=5,
        )
        if self.feature_weights is not None:
            raise ParameterError(
                "2 different `feature_weights` are provided.  Use the one in "
                "constructor or `set_params` instead.",
                code=ErrorCode.CONFLICTING_PARAMETERS,
            )
        return given

    def _check_categorical(self) -> None:
        if self.enable_categorical and self.tree_method == "exact":
            raise ParameterError(
                "Experimental support for categorical data is not implemented for "
                "current tree method yet: exact takes none; use hist or approx",
                code=ErrorCode.CATEGORICAL_UNSUPPORTED,
                learner="`exact` tree method",
            )

    def _create_dmatrix(self, ref: DMatrix | None, **fields: Any) -> DMatrix:
        """Return a matrix: a `QuantileDMatrix` for the hist tree method."""
        fields |= {
            "missing": self.missing,
            "nthread": self.n_jobs,
            "enable_categorical": self.enable_categorical,
        }
        if self.booster != "gblinear" and self.tree_method in (None, "auto", "hist"):
            return QuantileDMatrix(**fields, ref=ref, max_bin=self.max_bin)
        return DMatrix(**fields)

    # The model

    def get_booster(self) -> Booster:
        """Return the trained booster."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"this {type(self).__name__} is not fitted yet: need to call fit or "
                "load_model beforehand"
            )
        return self._Booster

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_Booster")

    @short_traceback
    def set_params(self, **params: Any) -> Self:
        super().set_params(**params)
        if params and self.__sklearn_is_fitted__():
            self._Booster.set_param(self.get_xgb_params())
        return self

    def get_num_boosting_rounds(self) -> int:
        """Return the number of boosting rounds of `fit`."""
        return DEFAULT_N_ESTIMATORS if self.n_estimators is None else self.n_estimators

    # Prediction

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
        """Return a prediction for each row.

        Parameters
        ----------
        X
            Features, with the columns of training.
        output_margin
            Whether to return margins, without the objective's transformation.
        validate_features
            Whether to compare the columns with those of training.
        base_margin
            The initial margins, instead of the model's base score.
        iteration_range
            Rounds (begin, end) to use, without the end; None for those up to the best
            iteration, if there is one, else all.
        """
        rounds = self._get_iteration_range(iteration_range)
        booster = self.get_booster()
        if self._can_use_inplace_predict():
            return booster.inplace_predict(
                X,
                iteration_range=rounds,
                predict_type="margin" if output_margin else "value",
                missing=self.missing,
                base_margin=base_margin,
                validate_features=validate_features,
            )
        return booster.predict(
            self._prediction_matrix(X, base_margin=base_margin),
            iteration_range=rounds,
            output_margin=output_margin,
            validate_features=validate_features,
        )

    @short_traceback
    def apply(self, X: Any, iteration_range: IterationRange | None = None) -> Any:
        """Return the leaf of each row in each tree.

        The arguments are those of `predict`.
        """
        return self.get_booster().predict(
            self._prediction_matrix(X),
            pred_leaf=True,
            iteration_range=self._get_iteration_range(iteration_range),
        )

    def _prediction_matrix(self, X: Any, **fields: Any) -> DMatrix:
        """Return features to predict from as a matrix."""
        return DMatrix(
            X,
            missing=self.missing,
            nthread=self.n_jobs,
            enable_categorical=self.enable_categorical,
            **fields,
        )

    def _can_use_inplace_predict(self) -> bool:
        return self.booster != "gblinear"

    def _get_iteration_range(
        self, iteration_range: IterationRange | None
    ) -> IterationRange:
        """Return the rounds to predict with."""
        if self.booster == "gblinear":  # a linear model cannot be split into rounds
            return 0, 0
        if iteration_range is not None and iteration_range[1] != 0:
            return iteration_range
        best = self.get_booster().attr("best_iteration")
        return (0, 0) if best is None else (0, int(best) + 1)

    # Results of training

    def evals_result(self) -> EvalsLog:
        """Return the scores on `eval_set` by data set and metric, one per round."""
        if getattr(self, "evals_result_", None) is None:
            raise NotTrainedError(
                "No evaluation result, `eval_set` is not used during training; pass it "
                "to fit",
                code=ErrorCode.EVALS_MISSING,
            )
        return self.evals_result_

    @property
    def n_features_in_(self) -> int:
        """The number of features of the training data."""
        return self.get_booster().num_features()

    @property
    def feature_names_in_(self) -> npt.NDArray[Any]:
        """The feature names of the training data, if it has names."""
        names = self.get_booster().feature_names
        if names is None:
            raise AttributeError(
                "`feature_names_in_` is defined only when `X` has feature names"
            )
        return np.array(names)

    @property
    def best_score(self) -> float:
        """The best score, if early stopping was used."""
        return float(self.get_booster().best_score)

    @property
    def best_iteration(self) -> int:
        """The round with the best score, from 0, if early stopping was used."""
        return int(self.get_booster().best_iteration)

    @property
    def feature_importances_(self) -> npt.NDArray[np.float32]:
        """The importance of each feature, of the kind `importance_type`; sum 1.

        For a linear model of several classes it is (features, classes).
        """
        booster = self.get_booster()
        default = "weight" if self.booster == "gblinear" else "gain"
        scores = booster.get_score(importance_type=self.importance_type or default)
        names = booster.feature_names or [f"f{i}" for i in range(self.n_features_in_)]
        importances = np.array([scores.get(name, 0.0) for name in names], np.float32)
        total = importances.sum()
        return importances if total == 0 else importances / total

    @property
    def coef_(self) -> npt.NDArray[Any]:
        """The weights of a linear model, (features,) or (classes, features)."""
        if self.booster != "gblinear":
            raise AttributeError(
                f"Coefficients are not defined for Booster type {self.booster}; trees "
                "have feature_importances_"
            )
        weights = np.array(self._linear()["weight"])
        n_classes = getattr(self, "n_classes_", 0)
        return weights.reshape(n_classes, -1) if n_classes > 2 else weights

    @property
    def intercept_(self) -> npt.NDArray[np.float32]:
        """The base score of trees; the bias of a linear model."""
        is_linear = self.booster == "gblinear"
        found = self._linear()["bias"] if is_linear else self._base_score()
        return np.array(found, dtype=np.float32)

    def _linear(self) -> dict[str, Any]:
        """Return the dump of a linear model: its weights and biases."""
        dump: dict[str, Any] = json.loads(
            self.get_booster().get_dump(dump_format="json")[0]
        )
        return dump

    def _base_score(self) -> list[float]:
        """Return the base score of each output."""
        learner = json.loads(self.get_booster().save_config())["learner"]
        base: list[float] = json.loads(learner["learner_model_param"]["base_score"])
        return base

    # Files

    @short_traceback
    def save_model(self, fname: str | os.PathLike[str]) -> None:
        """Save the model with the estimator's type, as ``.json`` or ``.ubj``."""
        booster = self.get_booster()
        mark = json.dumps({"_estimator_type": self._get_type()})
        booster.set_attr(**{ESTIMATOR: mark})
        try:
            booster.save_model(fname)
        finally:
            booster.set_attr(**{ESTIMATOR: None})

    @short_traceback
    def load_model(self, fname: str | os.PathLike[str] | bytearray) -> None:
        """Load a model saved by this kind of estimator, of Hornbeam or XGBoost.

        The parameters `objective`, `booster`, `base_score` and `feature_types` are set
        to those of the file.
        """
        booster = Booster({"n_jobs": self.n_jobs})
        booster.load_model(fname)
        mark = json.loads(booster.attr(ESTIMATOR) or "{}")
        kind = mark.get("_estimator_type")
        if kind is not None and kind != self._get_type():
            raise TypeError(
                "Loading an estimator with different type. Expecting: "
                f"{self._get_type()}, got: {kind}"
            )
        booster.set_attr(**{ESTIMATOR: None})
        self._Booster = booster
        self._restore(json.loads(booster.save_config())["learner"])

    def _restore(self, learner: Mapping[str, Any]) -> None:
        """Set the parameters of the estimator from a model's configuration."""
        self.objective = learner["objective"]["name"]
        self.booster = learner["gradient_booster"]["name"]
        self.base_score = json.loads(learner["learner_model_param"]["base_score"])
        self.feature_types = self._Booster.feature_types
        self.enable_categorical = "c" in (self.feature_types or ())

    def _get_type(self) -> str | None:
        """Return scikit-learn's type of the estimator, such as ``"classifier"``."""
        kind: str | None = getattr(self, "_estimator_type", None)
        return kind or self.__sklearn_tags__().estimator_type
