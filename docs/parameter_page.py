"""A Sphinx extension: the page of parameters, from the table that training reads.

Each row has the names of other libraries, which the finder of the page searches too.
"""

from __future__ import annotations

from html import escape
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive

from hornbeam.params import parameter_table

__all__ = ["OTHERS", "setup"]

#: Names in LightGBM, CatBoost and scikit-learn of parameters that have others here.
OTHERS = {
    "booster": ("boosting", "boosting_type"),
    "colsample_bylevel": ("rsm",),
    "colsample_bynode": ("feature_fraction_bynode", "max_features"),
    "colsample_bytree": ("feature_fraction",),
    "device": ("device_type", "task_type"),
    "eval_metric": ("metric", "scoring"),
    "feature_costs": ("cegb_penalty_feature_coupled",),
    "gamma": ("min_gain_to_split", "min_impurity_decrease"),
    "grow_policy": ("tree_learner",),
    "interaction_constraints": ("interaction_cst",),
    "learning_rate": ("shrinkage_rate",),
    "max_bin": ("max_bins", "border_count"),
    "max_cat_to_onehot": ("one_hot_max_size",),
    "max_depth": ("depth",),
    "max_leaves": ("num_leaves", "max_leaf_nodes"),
    "min_child_weight": ("min_sum_hessian_in_leaf", "min_sum_hessian"),
    "min_samples_leaf": ("min_data_in_leaf", "min_child_samples"),
    "monotone_constraints": ("mc", "monotonic_cst"),
    "nthread": ("num_threads", "thread_count", "n_jobs"),
    "objective": ("loss", "loss_function", "application"),
    "other_rate": ("other_rate",),
    "path_smooth": ("path_smooth",),
    "quantile_alpha": ("alpha", "quantile"),
    "reg_alpha": ("lambda_l1",),
    "reg_lambda": ("lambda_l2", "l2_leaf_reg", "l2_regularization"),
    "scale_pos_weight": ("class_weight",),
    "seed": ("random_seed", "random_state"),
    "subsample": ("bagging_fraction", "max_samples"),
    "top_rate": ("top_rate",),
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
            "<th>name</th><th>default</th><th>meaning</th><th>elsewhere</th></tr>"
            f'</thead><tbody>{rows}</tbody></table></div><p id="no-parameter" hidden>'
            "No parameter has this name or meaning.</p>"
        )
        return [nodes.raw("", html, format="html")]


def _row(row: Any) -> str:
    names = [f"<code>{name}</code>" for name in (row.name, *row.aliases)]
    default = "" if row.default in (None, []) else f"<code>{row.default}</code>"
    allowed = f"<br><small>{escape(row.range)}</small>" if row.range else ""
    others = ", ".join(f"<code>{name}</code>" for name in OTHERS.get(row.name, ()))
    cells = ("<br>".join(names), default, escape(row.help) + allowed, others)
    inner = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr id="parameter-{row.name}">{inner}</tr>'


def setup(app: Any) -> dict[str, bool]:
    """Register the directive and the script of its finder."""
    unknown = OTHERS.keys() - {row.name for row in parameter_table()}
    if unknown:
        raise ValueError(f"no such parameters: {sorted(unknown)}")
    app.add_directive("parameters", Parameters)
    app.add_js_file("find-parameter.js")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
