"""The parameters of XGBoost's estimators."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from hornbeam.data.categories import Categories
from hornbeam.xgboost.deprecation import deprecate_positional_args

__all__ = ["XGBParameters"]


# Parameters of the estimators only, which are not passed to the booster.
_WRAPPER_PARAMS = {
    "callbacks",
    "coll_cfg",
    "early_stopping_rounds",
    "enable_categorical",
    "feature_types",
    "feature_weights",
    "importance_type",
    "kwargs",
    "missing",
    "n_estimators",
}


class XGBParameters(BaseEstimator):
    """Base class that holds the parameters of XGBoost's estimators.

    A parameter that is None has the booster's default. Other keyword arguments are
    stored as `kwargs` and passed to the booster.
    """

    kwargs: dict[str, Any]

    @deprecate_positional_args
    def __init__(
        self,
        *,
        max_depth: int | None = None,
        max_leaves: int | None = None,
        max_bin: int | None = None,
        grow_policy: str | None = None,
        learning_rate: float | None = None,
        n_estimators: int | None = None,
        verbosity: int | None = None,
        objective: Any = None,
        booster: str | None = None,
        tree_method: str | None = None,
        n_jobs: int | None = None,
        gamma: float | None = None,
        min_child_weight: float | None = None,
        max_delta_step: float | None = None,
        subsample: float | None = None,
        sampling_method: str | None = None,
        colsample_bytree: float | None = None,
        colsample_bylevel: float | None = None,
        colsample_bynode: float | None = None,
        reg_alpha: float | None = None,
        reg_lambda: float | None = None,
        scale_pos_weight: float | None = None,
        base_score: float | Sequence[float] | None = None,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
        missing: float = np.nan,
        num_parallel_tree: int | None = None,
        monotone_constraints: Mapping[str, int] | str | None = None,
        interaction_constraints: str | Sequence[Sequence[str]] | None = None,
        importance_type: str | None = None,
        device: str | None = None,
        validate_parameters: bool | None = None,
        enable_categorical: bool = False,
        feature_types: Sequence[str] | None = None,
        feature_weights: Any = None,
        max_cat_to_onehot: int | None = None,
        max_cat_threshold: int | None = None,
        multi_strategy: str | None = None,
        eval_metric: Any = None,
        early_stopping_rounds: int | None = None,
        callbacks: list[Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self.max_depth = max_depth
        self.max_leaves = max_leaves
        self.max_bin = max_bin
        self.grow_policy = grow_policy
        self.learning_rate = learning_rate
        self.n_estimators = n_estimators
        self.verbosity = verbosity
        self.objective = objective
        self.booster = booster
        self.tree_method = tree_method
        self.n_jobs = n_jobs
        self.gamma = gamma
        self.min_child_weight = min_child_weight
        self.max_delta_step = max_delta_step
        self.subsample = subsample
        self.sampling_method = sampling_method
        self.colsample_bytree = colsample_bytree
        self.colsample_bylevel = colsample_bylevel
        self.colsample_bynode = colsample_bynode
        self.reg_alpha = reg_alpha
        self.reg_lambda = reg_lambda
        self.scale_pos_weight = scale_pos_weight
        self.base_score = base_score
        self.random_state = random_state
        self.missing = missing
        self.num_parallel_tree = num_parallel_tree
        self.monotone_constraints = monotone_constraints
        self.interaction_constraints = interaction_constraints
        self.importance_type = importance_type
        self.device = device
        self.validate_parameters = validate_parameters
        self.enable_categorical = enable_categorical
        self.feature_types = feature_types
        self.feature_weights = feature_weights
        self.max_cat_to_onehot = max_cat_to_onehot
        self.max_cat_threshold = max_cat_threshold
        self.multi_strategy = multi_strategy
        self.eval_metric = eval_metric
        self.early_stopping_rounds = early_stopping_rounds
        self.callbacks = callbacks
        if isinstance(feature_types, Categories):
            raise TypeError(
                "feature_types must be a list of types; to use the categories of a "
                "model, pass it as xgb_model of fit"
            )
        if kwargs:
            self.kwargs = kwargs

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Return the parameters of this class, followed by those of its bases."""
        names: dict[str, None] = {}
        for kind in cls.__mro__:
            if issubclass(kind, XGBParameters) and "__init__" in vars(kind):
                taken = inspect.signature(kind.__init__).parameters.values()
                own = [p.name for p in taken if p.kind is p.KEYWORD_ONLY]
                names.update(dict.fromkeys(sorted(own)))
        return list(names)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all parameters, including `kwargs`.

        A random generator is replaced by a seed drawn from it.
        """
        params: dict[str, Any] = super().get_params(deep)
        params.update(getattr(self, "kwargs", {}))
        most, state = np.iinfo(np.int32).max, params["random_state"]
        if isinstance(state, np.random.RandomState):
            params["random_state"] = state.randint(most)
        elif isinstance(state, np.random.Generator):
            params["random_state"] = int(state.integers(most))
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, including other parameters of the booster; return self."""
        for name, value in params.items():
            if hasattr(self, name):
                setattr(self, name, value)
            else:
                self.__dict__.setdefault("kwargs", {})[name] = value
        return self

    def get_xgb_params(self) -> dict[str, Any]:
        """Return the parameters that are passed to the booster."""
        return {
            name: value
            for name, value in self.get_params().items()
            if name not in self._wrapper_params() and not callable(value)
        }

    def _wrapper_params(self) -> set[str]:
        """Return the names of the parameters that are not passed to the booster."""
        return _WRAPPER_PARAMS

    # The documentation link in scikit-learn's HTML representation.
    _doc_link_module = "hornbeam"

    @property
    def _doc_link_template(self) -> str:
        pages = "https://xgboost.readthedocs.io/en/release_3.2.0/python/python_api.html"
        return f"{pages}#xgboost.{type(self).__name__}"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.no_validation = True
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.input_tags.categorical = self.enable_categorical
        return tags
