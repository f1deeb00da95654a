"""The configuration of a booster in the form of XGBoost's `save_config`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.objectives.config import spelled
from hornbeam.objectives.registry import config_groups
from hornbeam.params import Parameters

if TYPE_CHECKING:
    from hornbeam.boosting.booster import Booster

__all__ = ["NAMES", "config_tree", "iter_params", "params_from_config"]

_VERSION = [3, 2, 0]


def _single(value: Any) -> str:
    return f"{np.float32(value):.9g}"


def _as_single(text: str) -> str:
    """Return a decimal number rounded to float32; other text unchanged."""
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


class _Field(NamedTuple):
    """A parameter in the configuration."""

    name: str
    #: Returns the text of a value.
    to_text: Callable[[Any], str] = str
    #: The name of Hornbeam's parameter, if it differs.
    field: str = ""
    #: The default of a parameter that Hornbeam does not have.
    default: Any = None
    #: Whether a string that was set is kept as it is.
    verbatim: bool = False


_GENERIC = (
    _Field("device"),
    _Field("fail_on_invalid_gpu_id", _flag, default=False),
    _Field("n_jobs", field="nthread"),
    _Field("nthread"),
    _Field("random_state", field="seed"),
    _Field("seed"),
    _Field("seed_per_iteration", _flag, default=False),
    _Field("validate_parameters", _flag, default=True),
)
_LEARNER = (
    _Field("booster"),
    _Field("disable_default_eval_metric", _flag),
    _Field("multi_strategy"),
    _Field("objective"),
)
_TREE = (
    _Field("alpha", _single, "reg_alpha"),
    _Field("colsample_bylevel", _single),
    _Field("colsample_bynode", _single),
    _Field("colsample_bytree", _single),
    _Field("eta", _single, "learning_rate"),
    _Field("gamma", _single),
    _Field("grow_policy"),
    _Field("interaction_constraints", _groups, verbatim=True),
    _Field("lambda", _single, "reg_lambda"),
    _Field("learning_rate", _single),
    _Field("max_bin"),
    _Field("max_cat_threshold"),
    _Field("max_cat_to_onehot"),
    _Field("max_delta_step", _single),
    _Field("max_depth"),
    _Field("max_leaves"),
    _Field("min_child_weight", _single),
    _Field("min_split_loss", _single, "gamma"),
    _Field("monotone_constraints", _directions),
    _Field("refresh_leaf", _flag),
    _Field("reg_alpha", _single),
    _Field("reg_lambda", _single),
    _Field("sampling_method"),
    _Field("sparse_threshold", _double, default=0.2),
    _Field("subsample", _single),
)
_HISTOGRAMS = (
    _Field("debug_synchronize", _flag, default=False),
    _Field("max_cached_hist_node", _size),
)
_COLUMNS = (
    _Field("default_direction"),
    _Field("opt_dense_col", _single),
)
_DART = (
    _Field("normalize_type"),
    _Field("one_drop", _flag),
    _Field("rate_drop", _single),
    _Field("sample_type"),
    _Field("skip_drop", _single),
)
_LINEAR_ROUNDS = (
    _Field("max_row_perbatch", _size, default=2**64 - 1),
    _Field("tolerance", _single),
)
_LINEAR = (
    _Field("alpha", _single, "reg_alpha"),
    _Field("eta", _single, "learning_rate"),
    _Field("feature_selector"),
    _Field("lambda", _single, "reg_lambda"),
    _Field("learning_rate", _single),
    _Field("reg_alpha", _single),
    _Field("reg_lambda", _single),
)
_COORDINATES = (_Field("top_k"),)

#: The default updaters of each tree method.
_UPDATERS = {
    "hist": "grow_quantile_histmaker",
    "approx": "grow_histmaker",
    "exact": "grow_colmaker,prune",
}
_UPDATER_PARAMS = {
    "grow_quantile_histmaker": ("hist_train_param", _HISTOGRAMS),
    "grow_histmaker": ("hist_train_param", _HISTOGRAMS),
    "grow_colmaker": ("colmaker_train_param", _COLUMNS),
}
#: The parameter group of each metric that has one, by the name before "@".
_METRIC_PARAMS = {
    "mphe": "pseudo_huber_param",
    "quantile": "quantile_loss_param",
    "expectile": "expectile_loss_param",
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
#: Properties of the model, which cannot be set.
_READ_ONLY = frozenset("base_score boost_from_average num_feature num_trees".split())
#: All names of parameters that XGBoost knows.
NAMES = frozenset(
    [row.name for row in _ROWS]
    + [field for fields in _FIELDS.values() for field in fields]
    + [*_READ_ONLY, "num_class", "num_target", "num_parallel_tree", "num_output_group"]
    + ["process_type", "tree_method", "updater", "updater_seq", "eval_metric"]
    + ["verbosity", "use_rmm", "use_cuda_async_pool"]
)

#: The parameters that were set, by name.
Given = Mapping[str, Any]


def config_tree(booster: Booster, given: Given) -> dict[str, Any]:
    """Return the configuration as nested dictionaries; all values are strings.

    Parameters
    ----------
    booster
        A configured booster.
    given
        The parameters that were set, by XGBoost's names.
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


def _block(rows: Iterable[_Field], p: Parameters, given: Given) -> dict[str, str]:
    return {row.name: _value_text(row, p, given) for row in rows}


def _value_text(row: _Field, p: Parameters, given: Given) -> str:
    value = given.get(row.name)
    if row.verbatim and isinstance(value, str):
        return value
    if row.default is None:
        return row.to_text(getattr(p, row.field or row.name))
    try:
        return row.to_text(row.default if value is None else value)
    except ValueError:
        raise ParameterError(
            f"{row.name} is {value!r:.60}, which is not a number",
            code=ErrorCode.INVALID_PARAMETER_TYPE,
        ) from None


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
    if name not in _UPDATER_PARAMS:
        return {"name": name}
    group, rows = _UPDATER_PARAMS[name]
    return {group: _block(rows, p, given), "name": name}


def _metrics(booster: Booster) -> list[dict[str, Any]]:
    """Return the metrics; the default metric only once the model has a round."""
    p = booster.params
    if not p.eval_metric and booster.model.n_rounds == 0:
        return []
    return [
        {**_metric_params(metric.name, p), "name": metric.name}
        for metric in booster.metrics
    ]


def _metric_params(name: str, p: Parameters) -> dict[str, dict[str, str]]:
    base, _, number = name.partition("@")
    group = _METRIC_PARAMS.get(base)
    if group is None:
        return {}
    settings = {
        field: _as_single(spelled(getattr(p, field))) for field in _FIELDS[group]
    }
    if group == "lambdarank_param" and number.rstrip("-") and p.eval_metric:
        settings["lambdarank_num_pair_per_sample"] = number.rstrip("-")
    return {group: settings}


def iter_params(tree: Any) -> Iterator[tuple[str, str]]:
    """Yield the name and the value of each parameter in a part of a configuration."""
    if isinstance(tree, list):
        for part in tree:
            yield from iter_params(part)
    elif isinstance(tree, dict):
        for name, part in tree.items():
            if name.endswith("_param"):
                yield from part.items()
            else:
                yield from iter_params(part)


def params_from_config(config: str) -> dict[str, Any]:
    """Return the parameters that, when set, give this configuration.

    Raises a `ParameterError` if it is not one that `save_config` returns.
    """
    try:
        return _read_params(json.loads(config)["learner"])
    except (
        *(AttributeError, KeyError, RecursionError),
        *(TypeError, ValueError),
    ) as error:
        raise ParameterError(
            f"the configuration is not a result of save_config ({error!r:.200}); pass "
            "one as it was returned",
            code=ErrorCode.INVALID_CONFIGURATION,
        ) from None


def _read_params(learner: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        name: value
        for name, value in iter_params(learner)
        if name not in _READ_ONLY and value != spelled(None)
    }
    values.pop("rng_state", None)  # of XGBoost 3.4
    booster = learner["gradient_booster"]
    trees = booster.get("gbtree", booster)
    if booster["name"] == "gbtree" and "dart_train_param" in booster:
        # Of XGBoost 3.4, whose gbtree also drops trees.
        dropout = booster["dart_train_param"]
        if float(dropout["rate_drop"]) > 0.0 or dropout["one_drop"] == "1":
            values["booster"] = "dart"
        else:
            values = {k: v for k, v in values.items() if k not in dropout}
    if not trees.get("specified_updater", True):
        values = {
            k: v for k, v in values.items() if k not in ("updater", "updater_seq")
        }
    if learner["learner_model_param"].get("boost_from_average", "1") == "0":
        values["base_score"] = learner["learner_model_param"]["base_score"]
    values["eval_metric"] = [metric["name"] for metric in learner["metrics"]]
    return values
