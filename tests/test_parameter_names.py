"""The names of parameters in other libraries exist there."""

from __future__ import annotations

import json

import lightgbm
import numpy as np
import xgboost

from hornbeam.parameter_names import LIGHTGBM, OTHERS, OWN
from hornbeam.params import parameter_table

#: Parameters that XGBoost does not write into its configuration.
UNWRITTEN = {"eval_metric", "extmem_single_page", "top_k", "verbosity"}
CONFIGURATIONS = [
    {"booster": "dart"},
    {"booster": "gblinear"},
    {"objective": "rank:ndcg"},
    {"objective": "reg:quantileerror", "quantile_alpha": 0.5},
    {"objective": "reg:pseudohubererror"},
    {"objective": "reg:tweedie"},
    {"objective": "survival:aft"},
    {"tree_method": "approx"},
    {"tree_method": "exact"},
    {"objective": "multi:softprob", "num_class": 2},
]


def keys_of(value):
    """Yield all keys of nested mappings."""
    if isinstance(value, dict):
        yield from value
        for inner in value.values():
            yield from keys_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys_of(inner)


def test_xgboost_has_the_parameters_that_the_page_says_it_has():
    data = xgboost.DMatrix(np.ones((4, 1)), np.array([0, 1, 0, 1]), group=[4])
    known = set(UNWRITTEN)
    for params in CONFIGURATIONS:
        booster = xgboost.Booster({"verbosity": 0, **params}, [data])
        known.update(keys_of(json.loads(booster.save_config())))
    names = {row.name for row in parameter_table()}
    assert names - known == OWN
    assert names.issuperset([*LIGHTGBM, *OTHERS])


def test_lightgbm_has_the_names_of_the_page():
    aliases = lightgbm.basic._ConfigAliases._get_all_param_aliases()
    known = set(aliases).union(*aliases.values())
    for names in LIGHTGBM.values():
        assert known.issuperset(names), names
