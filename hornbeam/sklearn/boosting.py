"""Base class of the gradient boosting estimators: parameters, `fit` and `predict`."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import signature
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hornbeam.bagging import Bags, find_bags, shortened, train_bags
from hornbeam.boosting.booster import Booster
from hornbeam.callbacks import EvalsLog, OutOfBag, TrainingCallback
from hornbeam.errors import DataError, ErrorCode, ParameterError, short_traceback
from hornbeam.features.proposals import FeatureOptions
from hornbeam.forest.model import LinearModel
from hornbeam.objectives.compiled import ScalarLoss
from hornbeam.params import unknown_parameter
from hornbeam.quality import (
    CHOSEN,
    DEFAULT_ROUNDS,
    QUALITIES,
    Choice,
    choose,
    given_features,
)
from hornbeam.sklearn.base import IterationRange, seed_of
from hornbeam.sklearn.custom_functions import (
    MetricFunction,
    ObjectiveFunction,
    is_custom,
    metric_of,
    objective_of,
)
from hornbeam.sklearn.held_out import HeldOutEstimator, HeldOutPlan
from hornbeam.training import train

__all__ = ["BoostingEstimator"]

# Parameters of the estimators only; all others are passed to the booster.
_ESTIMATOR_ONLY = frozenset(
    "n_estimators missing importance_type early_stopping_rounds callbacks objective "
    "eval_metric random_state enable_categorical feature_types feature_weights "
    "cat_method cross_features dates quality".split()
    + "n_bags conformal conformal_groups calibration".split()
)


def names_what_is_meant(init: Callable[..., None]) -> Callable[..., None]:
    """Let a constructor raise a `ParameterError` for an argument it does not have."""
    known = signature(init).parameters

    @wraps(init)
    def checked(self: Any, **given: Any) -> None:
        for name in given:
            if name in known:
                continue
            if name in signature(self.fit).parameters:
                raise ParameterError(
                    f"{name!r} is an argument of fit, not of {type(self).__name__}",
                    code=ErrorCode.UNKNOWN_PARAMETER,
                )
            raise unknown_parameter(name, self._get_param_names())
        init(self, **given)

    return checked


class BoostingEstimator(HeldOutEstimator):
    """Base class of the gradient boosting estimators.

    Parameters that are None have the booster's default.
    """

    @names_what_is_meant
    def __init__(
        self,
        *,
        max_depth: int | None = None,
        max_leaves: int | None = None,
        max_bin: int | None = None,
        sketch_scope: str | None = None,
        sketch_eps: float | None = None,
        default_direction: str | None = None,
        opt_dense_col: float | None = None,
        pruning: str | None = None,
        grow_policy: str | None = None,
        leaf_solver: str | None = None,
        leaf_model: str | None = None,
        linear_lambda: float | None = None,
        linear_max_features: int | None = None,
        learning_rate: float | None = None,
        n_estimators: int | None = None,
        verbosity: int | None = None,
        objective: str | ObjectiveFunction | ScalarLoss | None = None,
        booster: str | None = None,
        sample_type: str | None = None,
        normalize_type: str | None = None,
        rate_drop: float | None = None,
        one_drop: bool | None = None,
        skip_drop: float | None = None,
        feature_selector: str | None = None,
        top_k: int | None = None,
        tolerance: float | None = None,
        tree_method: str | None = None,
        process_type: str | None = None,
        updater: str | None = None,
        refresh_leaf: bool | None = None,
        max_cached_hist_node: int | None = None,
        n_jobs: int | None = None,
        gamma: float | None = None,
        gain_epsilon: float | None = None,
        min_child_weight: float | None = None,
        min_samples_leaf: int | None = None,
        path_smooth: float | None = None,
        max_delta_step: float | None = None,
        subsample: float | None = None,
        sampling_method: str | None = None,
        top_rate: float | None = None,
        other_rate: float | None = None,
        extmem_single_page: bool | None = None,
        colsample_bytree: float | None = None,
        colsample_bylevel: float | None = None,
        colsample_bynode: float | None = None,
        reg_alpha: float | None = None,
        reg_lambda: float | None = None,
        scale_pos_weight: float | None = None,
        focal_gamma: float | None = None,
        huber_slope: float | None = None,
        quantile_alpha: float | Sequence[float] | None = None,
        expectile_alpha: float | Sequence[float] | None = None,
        tweedie_variance_power: float | None = None,
        base_score: float | Sequence[float] | None = None,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
        missing: float = math.nan,
        num_parallel_tree: int | None = None,
        monotone_constraints: str | Sequence[int] | Mapping[str, int] | None = None,
        monotone_constraints_method: str | None = None,
        interaction_constraints: str | Sequence[Sequence[int | str]] | None = None,
        feature_costs: Sequence[float] | Mapping[str, float] | None = None,
        feature_costs_for: str | None = None,
        importance_type: str | None = None,
        device: str | None = None,
        validate_parameters: bool | None = None,
        enable_categorical: bool = True,
        feature_types: Sequence[str] | None = None,
        feature_weights: Any = None,
        max_cat_to_onehot: int | None = None,
        max_cat_threshold: int | None = None,
        cat_smooth: float | None = None,
        cat_l2: float | None = None,
        min_data_per_group: int | None = None,
        unseen: str | None = None,
        multi_strategy: str | None = None,
        sketch_outputs: int | None = None,
        margin_type: str | None = None,
        eval_metric: str | Sequence[str] | MetricFunction | None = None,
        early_stopping_rounds: int | None = None,
        callbacks: Sequence[TrainingCallback] | None = None,
        cat_method: str = "auto",
        cross_features: str | Sequence[str] | bool | None = "auto",
        dates: str = "expand",
        quality: str | None = "auto",
        n_bags: int | None = None,
        conformal: str | None = None,
        conformal_groups: str | int | None = None,
        calibration: str | None = None,
    ) -> None:
        self.max_depth = max_depth
        self.max_leaves = max_leaves
        self.max_bin = max_bin
        self.sketch_scope = sketch_scope
        self.sketch_eps = sketch_eps
        self.default_direction = default_direction
        self.opt_dense_col = opt_dense_col
        self.pruning = pruning
        self.grow_policy = grow_policy
        self.leaf_solver = leaf_solver
        self.leaf_model = leaf_model
        self.linear_lambda = linear_lambda
        self.linear_max_features = linear_max_features
        self.learning_rate = learning_rate
        self.n_estimators = n_estimators
        self.verbosity = verbosity
        self.objective = objective
        self.booster = booster
        self.sample_type = sample_type
        self.normalize_type = normalize_type
        self.rate_drop = rate_drop
        self.one_drop = one_drop
        self.skip_drop = skip_drop
        self.feature_selector = feature_selector
        self.top_k = top_k
        self.tolerance = tolerance
        self.tree_method = tree_method
        self.process_type = process_type
        self.updater = updater
        self.refresh_leaf = refresh_leaf
        self.max_cached_hist_node = max_cached_hist_node
        self.n_jobs = n_jobs
        self.gamma = gamma
        self.gain_epsilon = gain_epsilon
        self.min_child_weight = min_child_weight
        self.min_samples_leaf = min_samples_leaf
        self.path_smooth = path_smooth
        self.max_delta_step = max_delta_step
        self.subsample = subsample
        self.sampling_method = sampling_method
        self.top_rate = top_rate
        self.other_rate = other_rate
        self.extmem_single_page = extmem_single_page
        self.colsample_bytree = colsample_bytree
        self.colsample_bylevel = colsample_bylevel
        self.colsample_bynode = colsample_bynode
        self.reg_alpha = reg_alpha
        self.reg_lambda = reg_lambda
        self.scale_pos_weight = scale_pos_weight
        self.focal_gamma = focal_gamma
        self.huber_slope = huber_slope
        self.quantile_alpha = quantile_alpha
        self.expectile_alpha = expectile_alpha
        self.tweedie_variance_power = tweedie_variance_power
        self.base_score = base_score
        self.random_state = random_state
        self.missing = missing
        self.num_parallel_tree = num_parallel_tree
        self.monotone_constraints = monotone_constraints
        self.monotone_constraints_method = monotone_constraints_method
        self.interaction_constraints = interaction_constraints
        self.feature_costs = feature_costs
        self.feature_costs_for = feature_costs_for
        self.importance_type = importance_type
        self.device = device
        self.validate_parameters = validate_parameters
        self.enable_categorical = enable_categorical
        self.feature_types = feature_types
        self.feature_weights = feature_weights
        self.max_cat_to_onehot = max_cat_to_onehot
        self.max_cat_threshold = max_cat_threshold
        self.cat_smooth = cat_smooth
        self.cat_l2 = cat_l2
        self.min_data_per_group = min_data_per_group
        self.unseen = unseen
        self.multi_strategy = multi_strategy
        self.sketch_outputs = sketch_outputs
        self.margin_type = margin_type
        self.eval_metric = eval_metric
        self.early_stopping_rounds = early_stopping_rounds
        self.callbacks = callbacks
        self.cat_method = cat_method
        self.cross_features = cross_features
        self.dates = dates
        self.quality = quality
        self.n_bags = n_bags
        self.conformal = conformal
        self.conformal_groups = conformal_groups
        self.calibration = calibration

    # Training

    def _create_dmatrix(self, X: Any, **fields: Any) -> Any:
        return super()._create_dmatrix(X, dates=self.dates, **fields)

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
        xgb_model: Booster | str | os.PathLike[str] | BoostingEstimator | None = None,
        sample_weight_eval_set: Sequence[Any] | None = None,
        base_margin_eval_set: Sequence[Any] | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X
            Features: an array, a frame or a sparse matrix, missing as `missing`.
        y
            Targets.
        sample_weight
            The weight of each row.
        base_margin
            The initial margin of each row.
        eval_set
            Pairs of features and targets to evaluate on, called ``validation_0`` and
            so on. Early stopping uses the last.
        verbose
            Whether to print the scores of each round, or the number of rounds between
            printed lines.
        xgb_model
            A model to continue training from: an estimator, a booster or a file.
        sample_weight_eval_set, base_margin_eval_set
            The weights and initial margins of `eval_set`, one array for each pair.
        """
        return self._fit(
            X,
            y,
            {"weight": sample_weight, "base_margin": base_margin},
            eval_set,
            {
                "weight": ("sample_weight_eval_set", sample_weight_eval_set),
                "base_margin": ("base_margin_eval_set", base_margin_eval_set),
            },
            verbose,
            xgb_model,
        )

    def _fit(
        self,
        X: Any,
        y: Any,
        fields: Mapping[str, Any],
        eval_set: Sequence[tuple[Any, Any]] | None,
        eval_fields: Mapping[str, tuple[str, Sequence[Any] | None]],
        verbose: bool | int | None,
        xgb_model: Booster | str | os.PathLike[str] | BoostingEstimator | None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        fields
            Weights, base margins and so on, by the names of arguments of `DMatrix`.
        eval_fields
            The same for `eval_set`, each with the name of its argument of `fit`.
        """
        X, y = self._validate_training_data(X, y)
        fields = {"feature_weights": self.feature_weights, **fields}
        dtrain = self._create_dmatrix(X, label=self._encode_targets(y), **fields)
        evals = self._evals(eval_set, eval_fields)
        if isinstance(xgb_model, BoostingEstimator):
            xgb_model = xgb_model.get_booster()
        params = self._booster_params()
        plan = self._plan(X, dtrain, params, evals, xgb_model)
        dtrain = dtrain if plan.train is None else plan.train
        choice = self._choose(
            params, dtrain, bool(evals), xgb_model is not None, plan.n_bags > 0
        )
        rows = choice.training_data(dtrain)
        booster, history, bags = choice.booster, EvalsLog(), None
        if plan.n_bags:
            bags = self._train_bags({**params, **choice.params}, rows, choice, plan)
            booster, history = bags.booster, bags.history
            choice = _of_bags(choice, bags)
        elif booster is None:
            booster, history = self._train(
                {**params, **choice.params},
                rows,
                choice.rounds,
                evals=evals,
                obj=self._custom_objective(),
                custom_metric=self._custom_metric(),
                early_stopping_rounds=choice.patience,
                verbose_eval=verbose,
                xgb_model=xgb_model,
                callbacks=self.callbacks,
            )
        if choice.chosen:
            booster.set_attr(**{CHOSEN: json.dumps(choice.chosen)})
        self._booster, self._history = booster, history
        self._learn_from_held_out(plan, dtrain, bags)
        return self

    def _train_bags(
        self, params: dict[str, Any], dtrain: Any, choice: Choice, plan: HeldOutPlan
    ) -> Bags:
        """Return the bags; where rounds are chosen, the rows out of bag decide."""
        options: dict[str, Any] = {
            "stratified": self._is_stratified(dtrain),
            "obj": self._custom_objective(),
            "custom_metric": self._custom_metric(),
        }
        rounds, patience = choice.rounds, choice.patience
        if self.quality is None or "n_estimators" not in choice.chosen:
            params, rounds = shortened(params, rounds)
        else:
            preset = QUALITIES[self.quality].waiting(self.early_stopping_rounds)
            rounds, patience = preset.max_rounds, preset.patience
            if not self.callbacks:
                return find_bags(
                    params,
                    dtrain,
                    rounds,
                    plan.n_bags,
                    first_patience=preset.first_patience,
                    patience=patience,
                    **options,
                )
        return train_bags(
            params,
            dtrain,
            rounds,
            plan.n_bags,
            early_stopping_rounds=patience,
            callbacks=self.callbacks,
            **options,
        )

    def _is_stratified(self, dtrain: Any) -> bool:
        """Return whether the folds of bags have the same shares of classes."""
        return False

    def _choose(
        self,
        params: dict[str, Any],
        dtrain: Any,
        has_evals: bool,
        continues: bool,
        has_bags: bool,
    ) -> Choice:
        """Return what `quality` chooses, or the number of rounds if it does not."""
        features = FeatureOptions(self.cat_method, self.cross_features)
        is_given = self.n_estimators is not None or self.learning_rate is not None
        is_custom_loss = is_custom(self.objective) and self.eval_metric is None
        if self.quality is None or is_given or continues or is_custom_loss:
            rounds = self.n_estimators
            rounds = DEFAULT_ROUNDS if rounds is None else rounds
            recipe = given_features(features, params, dtrain)
            return Choice({}, rounds, recipe, self.early_stopping_rounds)
        return choose(
            self.quality,
            params,
            dtrain,
            features=features,
            has_evals=has_evals,
            may_average=not (self.callbacks or has_bags),
            finds_rounds=not has_bags,
            obj=self._custom_objective(),
            custom_metric=self._custom_metric(),
            patience=self.early_stopping_rounds,
        )

    def _train(self, *args: Any, **options: Any) -> tuple[Booster, EvalsLog]:
        """Return the trained booster and its evaluation results."""
        history: EvalsLog = {}
        return train(*args, evals_result=history, **options), history

    def _custom_objective(self) -> Callable[..., Any] | ScalarLoss | None:
        return objective_of(self.objective)

    def _custom_metric(self) -> Callable[..., tuple[str, float]] | None:
        return metric_of(self.eval_metric)

    def _evals(
        self,
        eval_set: Sequence[tuple[Any, Any]] | None,
        fields: Mapping[str, tuple[str, Sequence[Any] | None]],
    ) -> list[tuple[Any, str]]:
        pairs = list(eval_set or ())
        if not all(_is_pair(pair) for pair in pairs):
            raise DataError(
                "eval_set must be a list of pairs (X, y)", code=ErrorCode.INVALID_EVALS
            )
        checked = {
            field: _one_per_pair(values, len(pairs), name)
            for field, (name, values) in fields.items()
        }
        evals: list[tuple[Any, str]] = []
        for number, (X, y) in enumerate(pairs):
            X = self._validate_features(X, reset=False)
            y = self._validate_targets(X, y)
            of_pair = {field: values[number] for field, values in checked.items()}
            matrix = self._create_dmatrix(X, label=self._encode_targets(y), **of_pair)
            evals.append((matrix, f"validation_{number}"))
        return evals

    def _booster_params(self) -> dict[str, Any]:
        params = {
            name: value
            for name, value in self.get_params(deep=False).items()
            if name not in _ESTIMATOR_ONLY
        }
        params["seed"] = seed_of(self.random_state)
        if not callable(self.eval_metric):
            params["eval_metric"] = self.eval_metric
        return params | self._objective_params()

    def _objective_params(self) -> dict[str, Any]:
        """Return the parameters of the objective; empty if it is custom."""
        return {} if is_custom(self.objective) else {"objective": self.objective}

    # Prediction

    def predict(
        self,
        X: Any,
        *,
        output_margin: bool = False,
        validate_features: bool = True,
        base_margin: Any = None,
        iteration_range: IterationRange | None = None,
    ) -> npt.NDArray[np.float32]:
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
            Rounds (begin, end) to use; the end is not included.
        """
        kind = "margin" if output_margin else "value"
        return self._predict(X, kind, validate_features, base_margin, iteration_range)

    # Results of training

    @property
    def chosen_(self) -> dict[str, Any]:
        """What `quality` chose: parameters, rounds, held-out rows and their score.

        It is saved with the model, as the attribute ``hornbeam_chosen``.
        """
        chosen = self.get_booster().attr(CHOSEN)
        if chosen is None:
            raise AttributeError(
                "chosen_ is defined only if parameters are chosen: set quality, and "
                "leave n_estimators and learning_rate out"
            )
        found: dict[str, Any] = json.loads(chosen)
        return found

    def evals_result(self) -> EvalsLog:
        """Return the scores on `eval_set` by data set and metric, one per round."""
        self.get_booster()
        if not self._history:
            raise DataError(
                "nothing was evaluated; pass eval_set to fit",
                code=ErrorCode.EVALS_MISSING,
            )
        return self._history

    @property
    def best_iteration(self) -> int:
        """The round with the best score, from 0, if early stopping was used."""
        return int(self._early_stopping_attribute("best_iteration"))

    @property
    def best_score(self) -> float:
        """The best score, if early stopping was used."""
        return float(self._early_stopping_attribute("best_score"))

    def _early_stopping_attribute(self, attribute: str) -> str:
        value = self.get_booster().attr(attribute)
        if value is None:
            raise AttributeError(
                f"{attribute} is defined only with early stopping; set "
                "early_stopping_rounds and pass eval_set to fit"
            )
        return value

    @property
    def oob_improvement_(self) -> npt.NDArray[np.float64]:
        """The improvement in loss on the out-of-bag rows of each round, (rounds,).

        It is defined if `callbacks` contains an `OutOfBag`, for its last training.
        """
        self.get_booster()
        for callback in self.callbacks or ():
            if isinstance(callback, OutOfBag):
                return np.array(callback.improvement)
        raise AttributeError(
            "oob_improvement_ is recorded by OutOfBag(); pass one in callbacks, and "
            "set subsample below 1"
        )

    @property
    def coef_(self) -> npt.NDArray[np.float32]:
        """The weights of a linear model, (features,) or (outputs, features)."""
        weights = self._linear("coef_").weights[:-1].T
        return weights[0] if len(weights) == 1 else weights

    @property
    def intercept_(self) -> npt.NDArray[np.float32]:
        """The intercept of a linear model, in margins: (outputs,)."""
        weights = self._linear("intercept_").weights
        booster = self.get_booster()
        base = booster.objective.to_margin(booster.model.base_score)
        return (weights[-1] + base).astype(np.float32)

    def _linear(self, attribute: str) -> LinearModel:
        linear = self.get_booster().model.linear
        if linear is None:
            raise AttributeError(
                f"{attribute} is defined only with booster='gblinear'; trees have "
                "feature_importances_"
            )
        return linear

    def get_num_boosting_rounds(self) -> int:
        """Return the number of boosting rounds of `fit`; before it, if it is known."""
        if self.n_estimators is not None:
            return self.n_estimators
        return self.get_booster().num_boosted_rounds()

    def _restore(self, booster: Booster, metadata: dict[str, Any]) -> None:
        super()._restore(booster, metadata)
        if isinstance(self.objective, ScalarLoss):
            booster.set_objective(self.objective)
        self._history = {}


def _of_bags(choice: Choice, bags: Bags) -> Choice:
    """Return a choice with what the bags have found."""
    if "n_estimators" not in choice.chosen:
        return choice
    n_bags = int(bags.bag_of.max()) + 1
    metric, scores = list(bags.history["oob"].items())[-1]
    found = {
        "n_estimators": bags.booster.num_boosted_rounds(),
        "held_out": f"{n_bags} bags",
        metric: scores[-1],
    }
    return choice._replace(chosen={**choice.chosen, **found})


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2


def _one_per_pair(values: Sequence[Any] | None, pairs: int, name: str) -> list[Any]:
    if values is None:
        return [None] * pairs
    if len(values) != pairs:
        raise DataError(
            f"{name} has {len(values)} entries and eval_set {pairs}; give one for each",
            code=ErrorCode.INVALID_EVALS,
        )
    return list(values)
