"""XGBoost's estimators with the interface of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hornbeam.errors import require
from hornbeam.lazy import forward_modules, names_from

require("sklearn", "sklearn", "an estimator of hornbeam.xgboost")

if TYPE_CHECKING:
    from hornbeam.xgboost.sklearn.custom_functions import ltr_metric_decorator
    from hornbeam.xgboost.sklearn.estimators import (
        XGBClassifier,
        XGBRegressor,
        XGBRFClassifier,
        XGBRFRegressor,
    )
    from hornbeam.xgboost.sklearn.fit_matrices import (
        get_model_categories,
        pick_ref_categories,
    )
    from hornbeam.xgboost.sklearn.model import XGBModel
    from hornbeam.xgboost.sklearn.ranker import XGBRanker, XGBRankerMixIn

__all__ = [
    "XGBClassifier",
    "XGBModel",
    "XGBRFClassifier",
    "XGBRFRegressor",
    "XGBRanker",
    "XGBRankerMixIn",
    "XGBRegressor",
    "get_model_categories",
    "ltr_metric_decorator",
    "pick_ref_categories",
]

_HOMES = {
    "ArrayLike": "hornbeam.xgboost._typing",
    "DEFAULT_N_ESTIMATORS": "hornbeam.xgboost.sklearn.model",
    "EvalsLog": "hornbeam.xgboost._typing",
    "FeatureNames": "hornbeam.xgboost._typing",
    "FeatureTypes": "hornbeam.xgboost._typing",
    "IterationRange": "hornbeam.xgboost._typing",
    "Metric": "hornbeam.xgboost.core",
    "ModelIn": "hornbeam.xgboost._typing",
    "PlainObj": "hornbeam.xgboost.core",
    "SKLEARN_INSTALLED": "hornbeam.xgboost.compat",
    "SklObjective": "hornbeam.xgboost.sklearn.custom_functions",
    "TrainingCallback": "hornbeam.xgboost.callback",
    "XGBClassifierBase": "hornbeam.xgboost.compat",
    "XGBClassifier": "hornbeam.xgboost.sklearn.estimators",
    "XGBModel": "hornbeam.xgboost.sklearn.model",
    "XGBModelBase": "hornbeam.xgboost.compat",
    "XGBRFClassifier": "hornbeam.xgboost.sklearn.estimators",
    "XGBRFRegressor": "hornbeam.xgboost.sklearn.estimators",
    "XGBRanker": "hornbeam.xgboost.sklearn.ranker",
    "XGBRankerMixIn": "hornbeam.xgboost.sklearn.ranker",
    "XGBRegressor": "hornbeam.xgboost.sklearn.estimators",
    "XGBRegressorBase": "hornbeam.xgboost.compat",
    "_deprecate_positional_args": "hornbeam.xgboost.core",
    "_metric_decorator": "hornbeam.sklearn.custom_functions:metric_of",
    "_objective_decorator": "hornbeam.xgboost.sklearn.custom_functions:adapt_objective",
    "get_model_categories": "hornbeam.xgboost.sklearn.fit_matrices",
    "ltr_metric_decorator": "hornbeam.xgboost.sklearn.custom_functions",
    "pick_ref_categories": "hornbeam.xgboost.sklearn.fit_matrices",
    "train": "hornbeam.xgboost.training",
}

__getattr__, __dir__ = names_from(__name__, _HOMES)

#: Former names of modules, which pickles of estimators contain.
_RENAMED = {
    "classifier": "estimators",
    "forests": "estimators",
    "regressor": "estimators",
}

forward_modules(__name__, _RENAMED)
