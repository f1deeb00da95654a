"""The names of parameters in other libraries: for a page, a search, and errors."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["LIGHTGBM", "OTHERS", "OWN", "other_names", "owners_of"]

#: Parameters that XGBoost 3.2 does not have; all others have its names.
OWN = {
    *("cat_l2", "cat_smooth", "expectile_alpha", "feature_costs", "feature_costs_for"),
    *("focal_gamma", "gain_epsilon", "leaf_model", "leaf_solver", "linear_lambda"),
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


def other_names(parameter: str) -> tuple[str, ...]:
    """Return what other libraries call a parameter."""
    return (*LIGHTGBM.get(parameter, ()), *OTHERS.get(parameter, ()))


def owners_of(name: str) -> Iterator[tuple[str, str]]:
    """Yield each parameter that other libraries call `name`, and which they are."""
    named = {"LightGBM": LIGHTGBM, "CatBoost or scikit-learn": OTHERS}
    for library, names in named.items():
        for parameter, theirs in names.items():
            if name in theirs:
                yield parameter, library
