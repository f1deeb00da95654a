"""All parameters of a booster as XGBoost's tree of names, every value a string."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hornbeam.objectives.base import config_groups
from hornbeam.objectives.config import spelled
from hornbeam.params import Parameters

if TYPE_CHECKING:
    from hornbeam.boosting.booster import Booster

__all__ = ["NAMES", "configuration", "parameters_in", "values_in"]

_VERSION = [3, 2, 0]


def _single(value: Any) -> str:
    return f"{np.float32(value):.9g}"


def _as_single(text: str) -> str:
    """Return a number as the nearest float32; other words as they are."""
    return _single(text) if re.fullmatch(r"-?\d+\.\d+", text) else text


def _double(value: Any) -> str:
    return f"{float(value):.17g}"


def _flag(value: Any) -> str:
    return str(int(str(value).strip().lower() in ("true", "1")))


def _size(value: Any) -> str:
    return str(2**64 - 1 if value is None else int(value))


def _directions(value: Any) -> str:
    inside = ",".join(map(str, value))
    return f"({inside})"


def _groups(value: Any) -> str:
    if not value:
        return ""
    return json.dumps([list(group) for group in value])


class _Row(NamedTuple):
    """A parameter: how it is spelled, and where its value comes from."""

    name: str
    spell: Callable[[Any], str] = str
    #: The parameter of Hornbeam; of its name, if "".
    field: str = ""
    #: Its value unless given, where Hornbeam has no such parameter.
    default: Any = None
    #: Whether text that was given is told as it was written.
    verbatim: bool = False


_GENERIC = (
    _Row("device"),
    _Row("fail_on_invalid_gpu_id", _flag, default=False),
    _Row("n_jobs", field="nthread"),
    _Row("nthread"),
    _Row("random_state", field="seed"),
    _Row("seed"),
    _Row("seed_per_iteration", _flag, default=False),
    _Row("validate_parameters", _flag, default=True),
)
_LEARNER = (
    _Row("booster"),
    _Row("disable_default_eval_metric", _flag),
    _Row("multi_strategy"),
    _Row("objective"),
)
_TREE = (
    _Row("alpha", _single, "reg_alpha"),
    _Row("colsample_bylevel", _single),
    _Row("colsample_bynode", _single),
    _Row("colsample_bytree", _single),
    _Row("eta", _single, "learning_rate"),
    _Row("gamma", _single),
    _Row("grow_policy"),
    _Row("interaction_constraints", _groups, verbatim=True),
    _Row("lambda", _single, "reg_lambda"),
    _Row("learning_rate", _single),
    _Row("max_bin"),
    _Row("max_cat_threshold"),
    _Row("max_cat_to_onehot"),
    _Row("max_delta_step", _single),
    _Row("max_depth"),
    _Row("max_leaves"),
    _Row("min_child_weight", _single),
    _Row("min_split_loss", _single, "gamma"),
    _Row("monotone_constraints", _directions),
    _Row("refresh_leaf", _flag),
    _Row("reg_alpha", _single),
    _Row("reg_lambda", _single),
    _Row("sampling_method"),
    _Row("sparse_threshold", _double, default=0.2),
    _Row("subsample", _single),
)
_HISTOGRAMS = (
    _Row("debug_synchronize", _flag, default=False),
    _Row("max_cached_hist_node", _size),
)
_COLUMNS = (
    _Row("default_direction"),
    _Row("opt_dense_col", _single),
)
_DART = (
    _Row("normalize_type"),
    _Row("one_drop", _flag),
    _Row("rate_drop", _single),
    _Row("sample_type"),
    _Row("skip_drop", _single),
)
_LINEAR_ROUNDS = (
    _Row("max_row_perbatch", _size, default=2**64 - 1),
    _Row("tolerance", _single),
)
_LINEAR = (
    _Row("alpha", _single, "reg_alpha"),
    _Row("eta", _single, "learning_rate"),
    _Row("feature_selector"),
    _Row("lambda", _single, "reg_lambda"),
    _Row("learning_rate", _single),
    _Row("reg_alpha", _single),
    _Row("reg_lambda", _single),
)
_COORDINATES = (_Row("top_k"),)

#: The updaters of each way to find splits, and the parameters of each updater.
_UPDATERS = {
    "hist": "grow_quantile_histmaker",
    "approx": "grow_histmaker",
    "exact": "grow_colmaker,prune",
}
_OF_UPDATER = {
    "grow_quantile_histmaker": ("hist_train_param", _HISTOGRAMS),
    "grow_histmaker": ("hist_train_param", _HISTOGRAMS),
    "grow_colmaker": ("colmaker_train_param", _COLUMNS),
}
#: The metrics that take parameters of a loss, by how their names begin.
_OF_METRIC = {
    "mphe": "pseudo_huber_param",
    "quantile": "quantile_loss_param",
    "aft-nloglik": "aft_loss_param",
    "ndcg": "lambdarank_param",
    "map": "lambdarank_param",
    "pre": "lambdarank_param",
}
#: The parameters of each group of an objective.
_FIELDS = config_groups()
_ROWS = (
    *_GENERIC,
    *_LEARNER,
    *_TREE,
    *_HISTOGRAMS,
    *_COLUMNS,
    *_DART,
    *_LINEAR_ROUNDS,
    *_LINEAR,
    *_COORDINATES,
)
#: What says of a model what it is, and is nobody's to set.
_TOLD_ONLY = frozenset("base_score boost_from_average num_feature num_trees".split())
#: All names of parameters that XGBoost knows.
NAMES = frozenset(
    [row.name for row in _ROWS]
    + [field for fields in _FIELDS.values() for field in fields]
    + [*_TOLD_ONLY, "num_class", "num_target", "num_parallel_tree", "num_output_group"]
    + ["process_type", "tree_method", "updater", "updater_seq", "eval_metric"]
    + ["verbosity", "use_rmm", "use_cuda_async_pool"]
)

#: What its user has set, by name.
Given = Mapping[str, Any]


def configuration(booster: Booster, given: Given) -> dict[str, Any]:
    """Return the tree of names that XGBoost's `save_config` tells.

    Parameters
    ----------
    booster
        With its parameters as they are resolved.
    given
        What its user has set.
    """
    p, model = booster.params, booster.model
    return {
        "learner": {
            "generic_param": _block(_GENERIC, p, given),
            "gradient_booster": _gradient_booster(booster, given),
            "learner_model_param": {
                "base_score": spelled(tuple(model.base_score.tolist())),
                "boost_from_average": str(int(model.boost_from_average)),
                "num_class": str(model.num_class),
                "num_feature": str(model.num_feature),
                "num_target": str(model.num_target),
            },
            "learner_train_param": _block(_LEARNER, p, given),
            "metrics": _metrics(booster),
            "objective": {
                "name": model.objective,
                **{
                    group: {name: _as_single(text) for name, text in settings.items()}
                    for group, settings in model.objective_config.items()
                },
                **{key: own.tolist() for key, own in model.objective_state.items()},
            },
        },
        "version": _VERSION,
    }


def _block(rows: Iterable[_Row], p: Parameters, given: Given) -> dict[str, str]:
    return {row.name: _told(row, p, given) for row in rows}


def _told(row: _Row, p: Parameters, given: Given) -> str:
    own = given.get(row.name)
    if row.verbatim and isinstance(own, str):
        return own
    if row.default is None:
        return row.spell(getattr(p, row.field or row.name))
    return row.spell(row.default if own is None else own)


def _gradient_booster(booster: Booster, given: Given) -> dict[str, Any]:
    p = booster.params
    if p.booster == "gblinear":
        updater = "shotgun" if p.updater == "auto" else p.updater
        coordinates = {"coordinate_param": _block(_COORDINATES, p, given)}
        return {
            "gblinear_train_param": {
                **_block(_LINEAR_ROUNDS, p, given),
                "updater": updater,
            },
            "name": "gblinear",
            "updater": {
                **(coordinates if updater == "coord_descent" else {}),
                "linear_train_param": _block(_LINEAR, p, given),
            },
        }
    trees = _trees(booster, given)
    if p.booster == "gbtree":
        return trees
    return {
        "dart_train_param": _block(_DART, p, given),
        "gbtree": trees,
        "name": "dart",
    }


def _trees(booster: Booster, given: Given) -> dict[str, Any]:
    p, model = booster.params, booster.model
    specified = p.updater != "auto"
    updater = p.updater if specified else _UPDATERS[p.method()]
    return {
        "gbtree_model_param": {
            "num_parallel_tree": str(p.num_parallel_tree),
            "num_trees": str(len(model.trees)),
        },
        "gbtree_train_param": {
            "process_type": p.process_type,
            "tree_method": p.tree_method,
            "updater": updater,
            "updater_seq": updater,
        },
        "name": "gbtree",
        "specified_updater": specified,
        "tree_train_param": _block(_TREE, p, given),
        "updater": [_updater(name, p, given) for name in updater.split(",")],
    }


def _updater(name: str, p: Parameters, given: Given) -> dict[str, Any]:
    if name not in _OF_UPDATER:
        return {"name": name}
    group, rows = _OF_UPDATER[name]
    return {group: _block(rows, p, given), "name": name}


def _metrics(booster: Booster) -> list[dict[str, Any]]:
    """Return the metrics; one that nobody named is there once there is a round."""
    p = booster.params
    if not p.eval_metric and booster.model.n_rounds == 0:
        return []
    return [
        {**_of_metric(metric.name, p), "name": metric.name}
        for metric in booster.metrics
    ]


def _of_metric(name: str, p: Parameters) -> dict[str, dict[str, str]]:
    base, _, number = name.partition("@")
    group = _OF_METRIC.get(base)
    if group is None:
        return {}
    settings = {
        field: _as_single(spelled(getattr(p, field))) for field in _FIELDS[group]
    }
    if group == "lambdarank_param" and number.rstrip("-") and p.eval_metric:
        settings["lambdarank_num_pair_per_sample"] = number.rstrip("-")
    return {group: settings}


def parameters_in(tree: Any) -> Iterator[tuple[str, str]]:
    """Yield name and value of the parameters that a part of the configuration holds."""
    if isinstance(tree, list):
        for part in tree:
            yield from parameters_in(part)
    elif isinstance(tree, dict):
        for name, part in tree.items():
            if name.endswith("_param"):
                yield from part.items()
            else:
                yield from parameters_in(part)


def values_in(tree: Any) -> dict[str, Any]:
    """Return what the user of a booster would have set for this configuration."""
    learner = tree["learner"]
    values: dict[str, Any] = {
        name: value
        for name, value in parameters_in(learner)
        if name not in _TOLD_ONLY and value != spelled(None)
    }
    trees = learner["gradient_booster"]
    trees = trees.get("gbtree", trees)
    if not trees.get("specified_updater", True):
        values = {
            k: v for k, v in values.items() if k not in ("updater", "updater_seq")
        }
    if learner["learner_model_param"].get("boost_from_average", "1") == "0":
        values["base_score"] = learner["learner_model_param"]["base_score"]
    values["eval_metric"] = [metric["name"] for metric in learner["metrics"]]
    return values
