"""A Sphinx extension: the page of parameters, from the table that training reads.

Each row has the names of other libraries, which the finder of the page searches too.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive

from hornbeam.params import parameter_table

__all__ = ["LIGHTGBM", "OTHERS", "OWN", "setup"]

#: Parameters that XGBoost 3.2 does not have; all others have its names.
OWN = {
    *("cat_l2", "cat_smooth", "expectile_alpha", "feature_costs", "feature_costs_for"),
    *("focal_gamma", "leaf_model", "leaf_solver", "linear_lambda"),
    *("linear_max_features", "margin_type", "min_data_per_group", "min_samples_leaf"),
    *("monotone_constraints_method", "other_rate", "path_smooth", "pruning"),
    *("sketch_eps", "sketch_outputs", "sketch_scope", "top_rate", "unseen"),
}

#: LightGBM's names.
LIGHTGBM = {
    "booster": ("boosting", "boosting_type"),
    "cat_l2": ("cat_l2",),
    "cat_smooth": ("cat_smooth",),
    "colsample_bynode": ("feature_fraction_bynode",),
    "colsample_bytree": ("feature_fraction",),
    "device": ("device_type",),
    "eval_metric": ("metric",),
    "feature_costs": ("cegb_penalty_feature_coupled",),
    "gamma": ("min_gain_to_split",),
    "interaction_constraints": ("interaction_constraints",),
    "lambdarank_bias_norm": ("lambdarank_position_bias_regularization",),
    "lambdarank_normalization": ("lambdarank_norm",),
    "lambdarank_num_pair_per_sample": ("lambdarank_truncation_level",),
    "leaf_model": ("linear_tree",),
    "learning_rate": ("learning_rate", "shrinkage_rate"),
    "linear_lambda": ("linear_lambda",),
    "max_bin": ("max_bin",),
    "max_cat_threshold": ("max_cat_threshold",),
    "max_cat_to_onehot": ("max_cat_to_onehot",),
    "max_delta_step": ("max_delta_step",),
    "max_depth": ("max_depth",),
    "max_leaves": ("num_leaves",),
    "min_child_weight": ("min_sum_hessian_in_leaf",),
    "min_data_per_group": ("min_data_per_group",),
    "min_samples_leaf": ("min_data_in_leaf", "min_child_samples"),
    "monotone_constraints": ("monotone_constraints", "mc"),
    "monotone_constraints_method": ("monotone_constraints_method",),
    "nthread": ("num_threads",),
    "num_class": ("num_class",),
    "objective": ("objective", "application"),
    "other_rate": ("other_rate",),
    "path_smooth": ("path_smooth",),
    "quantile_alpha": ("alpha",),
    "rate_drop": ("drop_rate",),
    "reg_alpha": ("lambda_l1",),
    "reg_lambda": ("lambda_l2",),
    "sampling_method": ("data_sample_strategy",),
    "scale_pos_weight": ("scale_pos_weight",),
    "seed": ("seed", "random_seed"),
    "skip_drop": ("skip_drop",),
    "subsample": ("bagging_fraction",),
    "top_rate": ("top_rate",),
    "tweedie_variance_power": ("tweedie_variance_power",),
    "verbosity": ("verbosity",),
}

#: Names in CatBoost and scikit-learn of parameters that have others here.
OTHERS = {
    "colsample_bylevel": ("rsm",),
    "colsample_bynode": ("max_features",),
    "device": ("task_type",),
    "eval_metric": ("scoring",),
    "gamma": ("min_impurity_decrease",),
    "interaction_constraints": ("interaction_cst",),
    "max_bin": ("max_bins", "border_count"),
    "max_cat_to_onehot": ("one_hot_max_size",),
    "max_depth": ("depth",),
    "max_leaves": ("max_leaf_nodes",),
    "monotone_constraints": ("monotonic_cst",),
    "nthread": ("thread_count", "n_jobs"),
    "objective": ("loss", "loss_function"),
    "quantile_alpha": ("quantile",),
    "reg_lambda": ("l2_leaf_reg", "l2_regularization"),
    "sampling_method": ("bootstrap_type",),
    "scale_pos_weight": ("class_weight",),
    "seed": ("random_state",),
    "subsample": ("max_samples",),
    "verbosity": ("verbose",),
}


class Parameters(Directive):
    """Writes the finder and the table."""

    def run(self) -> list[nodes.Node]:
        rows = "".join(_row(row) for row in parameter_table())
        html = (
            '<p><input id="find-parameter" type="search" autocomplete="off" '
            'aria-label="Find a parameter" '
            'placeholder="a name here, in LightGBM, CatBoost or scikit-learn"></p>'
            '<div class="parameters"><table class="table" id="parameters"><thead><tr>'
            "<th>name</th><th>default</th><th>meaning</th><th>XGBoost</th>"
            "<th>LightGBM</th><th>CatBoost, scikit-learn</th></tr>"
            f'</thead><tbody>{rows}</tbody></table></div><p id="no-parameter" hidden>'
            "No parameter has this name or meaning.</p>"
        )
        return [nodes.raw("", html, format="html")]


def _row(row: Any) -> str:
    default = "" if row.default in (None, []) else f"<code>{row.default}</code>"
    allowed = f"<br><small>{escape(row.range)}</small>" if row.range else ""
    cells = {
        "name": _names((row.name, *row.aliases), "<br>"),
        "default": default,
        "meaning": escape(row.help) + allowed,
        "XGBoost": "" if row.name in OWN else "the same",
        "LightGBM": _names(LIGHTGBM.get(row.name, ())),
        "CatBoost, scikit-learn": _names(OTHERS.get(row.name, ())),
    }
    inner = "".join(
        f'<td data-column="{name}">{cell}</td>' for name, cell in cells.items()
    )
    return f'<tr id="parameter-{row.name}">{inner}</tr>'


def _names(names: Sequence[str], between: str = ", ") -> str:
    return between.join(f"<code>{name}</code>" for name in names)


def setup(app: Any) -> dict[str, bool]:
    """Register the directive and the script of its finder."""
    named = OWN | LIGHTGBM.keys() | OTHERS.keys()
    unknown = named - {row.name for row in parameter_table()}
    if unknown:
        raise ValueError(f"no such parameters: {sorted(unknown)}")
    app.add_directive("parameters", Parameters)
    app.add_js_file("find-parameter.js")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
