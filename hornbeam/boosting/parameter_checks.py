"""Combinations of parameters that no booster can train with."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.objectives.base import Objective
from hornbeam.params import Parameters

__all__ = ["check_parameters", "check_rounds", "tree_method_text"]

#: Parameters of gblinear alone, and values of `updater` that it accepts.
_LINEAR_ONLY = ("feature_selector", "top_k", "tolerance")
_LINEAR_UPDATERS = ("shotgun", "coord_descent")
#: Parameters of trees, which gblinear does not use.
_TREES_ONLY = """
    multi_strategy num_parallel_tree sketch_outputs sketch_scope sketch_eps pruning
    leaf_solver leaf_model default_direction opt_dense_col
    grow_policy max_depth max_leaves gamma gain_epsilon
    min_child_weight min_samples_leaf path_smooth
    subsample sampling_method colsample_bytree colsample_bylevel colsample_bynode
    monotone_constraints interaction_constraints feature_costs
""".split()
#: Most levels of a symmetric tree.
MOST_SYMMETRIC_LEVELS = 16
#: Parameters that symmetric trees do not have, and what to do instead.
_NOT_SYMMETRIC = {
    "max_leaves": "limit max_depth, and leave it out",
    "min_samples_leaf": "use min_child_weight, or leave it out",
    "path_smooth": "use reg_lambda, or leave it out",
    "monotone_constraints": "use grow_policy='depthwise', or leave them out",
    "feature_costs": "use grow_policy='depthwise', or leave them out",
    "pruning": "splits of less than gamma are never made; leave it out",
    **dict.fromkeys(
        (
            *("max_cat_to_onehot", "max_cat_threshold"),
            *("cat_smooth", "cat_l2", "min_data_per_group"),
        ),
        "each split by category is one category against the rest; leave it out",
    ),
    "multi_strategy": "each tree has one output; leave it out",
}


def check_parameters(parameters: Parameters, objective: Objective) -> None:
    """Raise a `ParameterError` if these parameters contradict each other."""
    _check_device(parameters)
    _check_dropout(parameters)
    _check_booster(parameters)
    _check_process_type(parameters)
    _check_tree_method(parameters)
    _check_symmetric(parameters)
    _check_leaf_solver(parameters, objective)
    _check_leaf_model(parameters)


def tree_method_text(parameters: Parameters) -> str:
    """Return the tree method as a user writes it, for error messages."""
    scope = ", sketch_scope='local'" * (parameters.sketch_scope == "local")
    return f"tree_method={parameters.method()!r}{scope}"


def _check_device(p: Parameters) -> None:
    if p.device == "cpu":
        return
    for name, value in (("booster", "gblinear"), ("process_type", "update")):
        if getattr(p, name) == value:
            raise ParameterError(
                f"device={p.device!r} grows trees, and with {name}={value!r} none are "
                "grown; leave device out",
                code=ErrorCode.INEFFECTIVE_PARAMETER,
            )


def _check_dropout(p: Parameters) -> None:
    if p.booster == "dart":
        return
    for name in ("rate_drop", "skip_drop", "one_drop"):
        if getattr(p, name):
            raise ParameterError(
                f"{name}={getattr(p, name)!r} has no effect with "
                f"booster={p.booster!r}; set booster='dart', or leave it out",
                code=ErrorCode.INEFFECTIVE_PARAMETER,
            )


def _check_booster(p: Parameters) -> None:
    linear = p.booster == "gblinear"
    changed = p.changed()
    unused = [*_TREES_ONLY] if linear else [*_LINEAR_ONLY]
    if linear and p.tree_method not in ("auto", "hist"):
        unused.append("tree_method")
    for name in unused:
        if name in changed:
            raise ParameterError(
                f"{name}={getattr(p, name)!r} has no effect with "
                f"booster={p.booster!r}; leave it out",
                code=ErrorCode.INEFFECTIVE_PARAMETER,
            )
    if p.updater != "auto" and linear != (p.updater in _LINEAR_UPDATERS):
        raise ParameterError(
            f"updater={p.updater!r} does not go with booster={p.booster!r}; "
            "leave it out",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )


def _check_process_type(p: Parameters) -> None:
    trees = p.booster != "gblinear"
    if p.process_type == "default" and trees and not (p.grows or p.updater == "auto"):
        raise ParameterError(
            f"updater={p.updater!r} updates the trees of a model; set "
            "process_type='update' and pass the model as xgb_model, or leave it out",
            code=ErrorCode.CONFLICTING_PARAMETERS,
        )
    if p.process_type == "default" and not p.refresh_leaf:
        raise ParameterError(
            "refresh_leaf=False has no effect without process_type='update'; leave it "
            "out",
            code=ErrorCode.INEFFECTIVE_PARAMETER,
        )
    if p.process_type == "update" and not trees:
        raise ParameterError(
            "process_type='update' updates trees, and booster='gblinear' has none; "
            "leave it out, and training continues from the model",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )
    if p.process_type == "update" and p.grows:
        raise ParameterError(
            f"updater={p.updater!r} grows trees; with process_type='update' it must be "
            "'refresh', 'prune' or both",
            code=ErrorCode.CONFLICTING_PARAMETERS,
        )
    ignored = "monotone_constraints" if p.monotone_constraints else "path_smooth"
    if p.process_type == "update" and p.updater != "prune" and getattr(p, ignored):
        raise ParameterError(
            "refreshed and refitted leaf values come from the data alone and ignore "
            f"{ignored}; leave {ignored} out",
            code=ErrorCode.CONFLICTING_PARAMETERS,
        )


def _check_tree_method(p: Parameters) -> None:
    p.bins()  # raises an error for a max_bin that the tree method cannot have
    multi = "multi_output_tree"
    sorts_values = p.method() == "exact" or p.sketch_scope == "local"
    if sorts_values and p.multi_strategy == multi:
        raise ParameterError(
            f"{tree_method_text(p)} grows one tree for each output, and "
            f"multi_strategy is {multi!r}; use tree_method='hist', or leave "
            "multi_strategy out",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )


def _check_symmetric(p: Parameters) -> None:
    if p.grow_policy != "symmetric":
        return
    if not 0 < p.max_depth <= MOST_SYMMETRIC_LEVELS:
        raise ParameterError(
            f"max_depth={p.max_depth} with grow_policy='symmetric', whose trees are "
            "complete: a tree of depth 16 has 65,536 leaves; set max_depth from 1 to "
            f"{MOST_SYMMETRIC_LEVELS}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )
    changed = p.changed()
    for name, instead in _NOT_SYMMETRIC.items():
        if name in changed:
            raise ParameterError(
                f"{name}={changed[name]!r} does not go with grow_policy='symmetric', "
                f"which splits all nodes of a level alike; {instead}",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )
    if p.method() == "exact" or p.sketch_scope == "local":
        raise ParameterError(
            "grow_policy='symmetric' adds up the histograms of the nodes of a level, "
            f"and {tree_method_text(p)} has none; use tree_method='hist', or leave "
            "grow_policy out",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )


def _check_leaf_solver(p: Parameters, objective: Objective) -> None:
    if p.leaf_solver != "line_search":
        return
    ignored = {
        "reg_lambda": p.reg_lambda > 0.0,
        "reg_alpha": p.reg_alpha > 0.0,
        "path_smooth": p.path_smooth > 0.0,
        "monotone_constraints": bool(p.monotone_constraints),
        "sampling_method": p.sampling_method != "uniform",
        "multi_strategy": p.multi_strategy != "one_output_per_tree",
        "process_type": p.process_type != "default",
    }
    for name, is_set in ignored.items():
        if is_set:
            raise ParameterError(
                "leaf_solver='line_search' gives each leaf the constant that minimises "
                f"the loss of its rows, and ignores {name}={p.to_dict()[name]!r}; "
                "leave one of the two out",
                code=ErrorCode.CONFLICTING_PARAMETERS,
            )
    if objective.reach is None:
        raise ParameterError(
            "leaf_solver='line_search' sums the losses of the rows of a leaf, and "
            f"{objective.name} is not a loss of single rows; leave leaf_solver out",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )


def _check_leaf_model(p: Parameters) -> None:
    if p.leaf_model == "constant":
        for name in ("linear_lambda", "linear_max_features"):
            if name in p.changed():
                raise ParameterError(
                    f"{name}={getattr(p, name)!r} has no effect with "
                    "leaf_model='constant'; set leaf_model='linear', or leave it out",
                    code=ErrorCode.INEFFECTIVE_PARAMETER,
                )
        return
    excluded = {
        "booster": p.booster == "dart",
        "multi_strategy": p.multi_strategy != "one_output_per_tree",
        "process_type": p.process_type != "default",
        "leaf_solver": p.leaf_solver != "newton",
        "monotone_constraints": bool(p.monotone_constraints),
        "grow_policy": p.grow_policy == "symmetric",
        "tree_method": p.method() == "exact",
        "sketch_scope": p.sketch_scope == "local",
    }
    for name, is_set in excluded.items():
        if is_set:
            raise ParameterError(
                f"leaf_model='linear' does not go with {name}="
                f"{p.to_dict()[name]!r}; leave one of the two out",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )


def check_rounds(rounds: Any, name: str = "num_boost_round") -> None:
    """Raise a `ParameterError` unless this argument is a number of rounds."""
    if isinstance(rounds, bool) or not isinstance(rounds, Integral):
        raise ParameterError(
            f"{name} must be an integer, not {rounds!r}",
            code=ErrorCode.INVALID_PARAMETER_TYPE,
        )
    if rounds < 0:
        raise ParameterError(
            f"{name} must be 0 or more, not {rounds}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )
