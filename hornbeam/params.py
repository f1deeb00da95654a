"""Training parameters: one table of names, types, ranges, defaults and help texts.

The documentation, the command line and the estimators read this table.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import numbers
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from hornbeam.errors import ErrorCode, ParameterError

__all__ = [
    "ATTRIBUTE",
    "GAIN_EPSILON",
    "MAX_OUTPUTS",
    "ParameterRow",
    "ParameterSource",
    "Parameters",
    "parameter_table",
    "unknown_parameter",
]

#: The model attribute in which the command line stores the training parameters, as
#: JSON.
ATTRIBUTE = "parameters"

#: The model attribute in which estimators store their metadata, as XGBoost's do.
ESTIMATOR = "scikit_learn"

#: Most classes or targets: arrays of this size are allocated before any tree is grown
#: or read.
MAX_OUTPUTS = 1 << 20

#: The gain that a split has to exceed for any `gamma` (XGBoost's kRtEps).
GAIN_EPSILON = 1e-6

ParameterSource: TypeAlias = Mapping[str, Any] | Iterable[tuple[str, Any]]


def _bound(value: float) -> str:
    """Return a bound as text; those of 32 and 64 bits are powers of two."""
    for bits in (31, 63):
        if value == 2**bits - 1:
            return f"2**{bits} - 1"
        if value == -(2**bits):
            return f"-2**{bits}"
    return str(value) if isinstance(value, int) else f"{value:g}"


@dataclass(frozen=True, slots=True)
class _Rule:
    """The help text, the aliases and the allowed values of a parameter."""

    help: str
    aliases: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    low_open: bool = False
    high_open: bool = False
    choices: tuple[Any, ...] = ()
    later: tuple[str, ...] = ()
    synonyms: tuple[tuple[str, str], ...] = ()
    forms: tuple[tuple[str, str], ...] = ()

    @property
    def range(self) -> str:
        """The allowed values in words; "" if all values of the type are allowed."""
        if self.choices:
            forms = [form for form, _ in self.forms]
            return " or ".join(map(repr, [*self.choices, *forms]))
        if self.low is None:
            return ""
        low = _bound(self.low)
        if self.high is None:
            return f"above {low}" if self.low_open else f"{low} or more"
        high = _bound(self.high)
        if not self.low_open and not self.high_open:
            return f"from {low} to {high}"
        least = f"{'above' if self.low_open else 'at least'} {low}"
        return f"{least} and {'below' if self.high_open else 'at most'} {high}"

    def allows(self, value: Any) -> bool:
        if self.choices:
            patterns = [pattern for _, pattern in self.forms]
            return value in self.choices or any(
                re.fullmatch(pattern, value) for pattern in patterns
            )
        above = self.low is None or (
            value > self.low if self.low_open else value >= self.low
        )
        return above and (
            self.high is None
            or (value < self.high if self.high_open else value <= self.high)
        )

    def check(self, name: str, value: Any) -> None:
        if self.allows(value):
            return
        if isinstance(value, str) and value.partition(":")[0] in self.later:
            raise ParameterError(
                f"{name}={value!r} of XGBoost is not in Hornbeam yet; "
                f"it must be {self.range}",
                code=ErrorCode.UNSUPPORTED_PARAMETER_VALUE,
            )
        raise ParameterError(
            f"{name} must be {self.range}, not {value!r} ({name}: {self.help})",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )


def parameter(
    default: Any,
    *,
    help: str,
    aliases: tuple[str, ...] = (),
    low: float | None = None,
    high: float | None = None,
    low_open: bool = False,
    high_open: bool = False,
    choices: tuple[Any, ...] = (),
    later: tuple[str, ...] = (),
    synonyms: tuple[tuple[str, str], ...] = (),
    forms: tuple[tuple[str, str], ...] = (),
) -> Any:
    """Return a field of `Parameters` with its rule as metadata.

    `later` lists values that XGBoost accepts and Hornbeam does not support yet,
    `synonyms` other libraries' words for a choice, each with the choice. `forms` are
    choices with numbers in them: how they are shown, and a regular expression.
    """
    bounds = low, high, low_open, high_open
    rule = _Rule(help, aliases, *bounds, choices, later, synonyms, forms)
    return field(default=default, metadata={"rule": rule})


#: A device with its number, as a regular expression.
_DEVICE = r"(gpu|cuda|opencl:[0-9]{1,4}):[0-9]{1,4}"
#: The tree method of each updater that grows trees.
_GROWERS = {
    "grow_quantile_histmaker": "hist",
    "grow_histmaker": "approx",
    "grow_colmaker": "exact",
    "grow_colmaker,prune": "exact",
}


@dataclass(frozen=True)  # no slots: cached_property needs __dict__
class Parameters:
    """The parameters of training under their canonical names.

    `Parameters.resolve` creates them from XGBoost's names, aliases and value formats,
    and validates them; the constructor does not.
    """

    booster: str = parameter(
        "gbtree",
        choices=("gbtree", "dart", "gblinear"),
        help="trees (gbtree), trees with dropout (dart) or a linear model (gblinear)",
    )
    device: str = parameter(
        "cpu",
        choices=("cpu", "gpu", "cuda"),
        forms=(
            ("gpu:N", r"gpu:[0-9]{1,4}"),
            ("cuda:N", r"cuda:[0-9]{1,4}"),
            ("opencl:P:D", r"opencl:[0-9]{1,4}:[0-9]{1,4}"),
            ("gpu:0+gpu:1", rf"{_DEVICE}([+]{_DEVICE})+"),
        ),
        later=("sycl",),
        help="where rows are trained on and predicted: gpu is the first GPU, cuda the "
        "first of NVIDIA, opencl:P:D device D of OpenCL platform P, and several with + "
        "share the rows; does not change the model",
    )
    nthread: int = parameter(
        0,
        aliases=("n_jobs",),
        low=-(2**63),
        high=4096,
        help="number of threads, all available ones if 0 or less; does not change the "
        "model",
    )
    seed: int = parameter(
        0,
        aliases=("random_state",),
        low=-(2**63),
        high=2**63 - 1,
        help="seed of all random numbers",
    )
    verbosity: int = parameter(
        1,
        low=0,
        high=3,
        help="0 silent, 1 warnings, 2 and 3 also the trees of each round",
    )
    validate_parameters: bool = parameter(
        True, choices=(True,), help="an unknown parameter is always an error"
    )
    objective: str = parameter("reg:squarederror", help="the loss to minimise")
    num_class: int = parameter(
        0, low=0, high=MAX_OUTPUTS, help="number of classes of the multi:* objectives"
    )
    num_target: int = parameter(
        1,
        low=1,
        high=MAX_OUTPUTS,
        help="number of columns of the label, counted if not given",
    )
    base_score: float | tuple[float, ...] | None = parameter(
        None,
        help="prediction before the first tree, estimated if not given",
    )
    scale_pos_weight: float = parameter(
        1.0, low=0, help="factor on the weight of rows with label 1"
    )
    focal_gamma: float = parameter(
        2.0,
        low=0,
        help="exponent of 1 - p in the row weights of binary:focal, where p is the "
        "probability of the label",
    )
    huber_slope: float = parameter(
        1.0,
        low=0,
        low_open=True,
        help="residual size from which reg:pseudohubererror is about linear",
    )
    quantile_alpha: tuple[float, ...] | None = parameter(
        None,
        low=0,
        high=1,
        low_open=True,
        high_open=True,
        help="levels of the quantiles of reg:quantileerror",
    )
    expectile_alpha: tuple[float, ...] | None = parameter(
        None,
        low=0,
        high=1,
        low_open=True,
        high_open=True,
        help="levels of the expectiles of reg:expectileerror, ascending",
    )
    tweedie_variance_power: float = parameter(
        1.5,
        low=1,
        high=2,
        high_open=True,
        help="exponent of the mean in the variance of reg:tweedie",
    )
    eval_metric: tuple[str, ...] = parameter(
        (), help="evaluation metrics; the objective's default metric if not given"
    )
    disable_default_eval_metric: bool = parameter(
        False, help="do not evaluate the default metric of the objective"
    )
    lambdarank_pair_method: str = parameter(
        "topk",
        choices=("topk", "mean"),
        help="pairs of rank:*: all with one of the first places (topk), or some "
        "sampled for each row (mean)",
    )
    lambdarank_num_pair_per_sample: int | None = parameter(
        None,
        low=1,
        high=2**31 - 1,
        help="number of first places of topk (32 if not given), or of sampled pairs "
        "per row of mean (1)",
    )
    lambdarank_normalization: bool = parameter(
        True, help="reduce the gradients of groups that have many pairs"
    )
    lambdarank_score_normalization: bool = parameter(
        True, help="reduce the gradients of pairs with distant scores"
    )
    lambdarank_unbiased: bool = parameter(
        False, help="estimate the position bias of labels that are clicks"
    )
    lambdarank_bias_norm: float = parameter(
        1.0, low=0, help="regularisation of the position bias"
    )
    ndcg_exp_gain: bool = parameter(
        True,
        help="ndcg takes labels as grades with a gain of 2**grade - 1; if false, as "
        "gains",
    )
    aft_loss_distribution: str = parameter(
        "normal",
        choices=("normal", "logistic", "extreme"),
        help="distribution of the errors of log times in survival:aft",
    )
    aft_loss_distribution_scale: float = parameter(
        1.0, low=0, low_open=True, help="scale of the distribution of survival:aft"
    )
    tree_method: str = parameter(
        "auto",
        choices=("auto", "hist", "exact", "approx"),
        later=("gpu_hist",),
        help="how splits are found; auto is hist",
    )
    sketch_scope: str = parameter(
        "global",
        choices=("global", "local"),
        help="approx: propose cuts once for each tree (global), or again for each node "
        "(local)",
    )
    sketch_eps: float | None = parameter(
        None,
        low=2.0**-15,
        high=1,
        low_open=True,
        high_open=True,
        help="approx: fraction of the sum of hessians between two cuts, instead of "
        "max_bin",
    )
    default_direction: str = parameter(
        "learn",
        choices=("learn", "left", "right"),
        help="exact: direction of missing values, learned for each split or fixed",
    )
    opt_dense_col: float = parameter(
        1.0,
        low=0,
        high=1,
        help="exact: missing values go left in features with at least this fraction of "
        "entries present",
    )
    grow_policy: str = parameter(
        "depthwise",
        choices=("depthwise", "lossguide", "symmetric"),
        synonyms=(("SymmetricTree", "symmetric"),),
        help="grow level by level, or the leaf with the largest gain first, or "
        "symmetric trees, which split all nodes of a level alike (CatBoost's "
        "SymmetricTree)",
    )
    learning_rate: float = parameter(
        0.3,
        aliases=("eta",),
        low=0,
        help="factor on the contribution of each round; 0.5 by default for gblinear",
    )
    gamma: float = parameter(
        0.0, aliases=("min_split_loss",), low=0, help="minimum gain of a split"
    )
    gain_epsilon: float = parameter(
        GAIN_EPSILON,
        low=0,
        help="a split has to gain more than this for any gamma, which XGBoost fixes; "
        "lower it for labels in so large a unit that all gains are small",
    )
    pruning: str = parameter(
        "auto",
        choices=("auto", "before", "after"),
        help="make no split that gains less than gamma (before), or remove such splits "
        "from the grown tree if no split below gains enough (after); auto is "
        "after for exact",
    )
    leaf_solver: str = parameter(
        "newton",
        choices=("newton", "line_search"),
        help="leaf values by one Newton step, or by a line search for the least loss "
        "of the leaf's rows, in trees fitted to the gradients by least squares",
    )
    leaf_model: str = parameter(
        "constant",
        choices=("constant", "linear"),
        help="what a leaf predicts: a constant, or also terms of the numerical "
        "features on its path",
    )
    linear_lambda: float = parameter(
        10.0,
        low=0,
        help="leaf_model='linear': L2 regularisation of the slopes of standardised "
        "features",
    )
    linear_max_features: int = parameter(
        0,
        low=0,
        help="leaf_model='linear': maximum number of features of a leaf, those of the "
        "nearest splits; 0 is no limit",
    )
    max_depth: int = parameter(6, low=0, help="maximum depth of a tree; 0 is no limit")
    max_leaves: int = parameter(
        0, low=0, help="maximum number of leaves of a tree; 0 is no limit"
    )
    max_bin: int = parameter(
        256, low=2, high=65535, help="maximum number of bins of a feature"
    )
    min_child_weight: float = parameter(
        1.0, low=0, help="minimum sum of hessians in each child of a split"
    )
    reg_lambda: float = parameter(
        1.0,
        aliases=("lambda",),
        low=0,
        help="L2 regularisation of leaf values, 0 by default with line_search; of "
        "weights for gblinear, 0 by default",
    )
    reg_alpha: float = parameter(
        0.0,
        aliases=("alpha",),
        low=0,
        help="L1 regularisation of leaf values, or of weights for gblinear",
    )
    min_samples_leaf: int = parameter(
        0, low=0, help="minimum number of rows in each child of a split"
    )
    path_smooth: float = parameter(
        0.0,
        low=0,
        help="smoothing of leaf values towards the value of their parent, which counts "
        "as this many rows",
    )
    max_delta_step: float = parameter(
        0.0,
        low=0,
        help="maximum size of a leaf value before the learning rate; 0 is no limit",
    )
    subsample: float = parameter(
        1.0, low=0, high=1, low_open=True, help="fraction of rows sampled for each tree"
    )
    sampling_method: str = parameter(
        "uniform",
        choices=("uniform", "gradient_based", "goss"),
        help="row sampling: uniform, with probabilities by gradient, or goss, which "
        "takes the rows with the largest gradients and a fraction of the others",
    )
    top_rate: float = parameter(
        0.2,
        low=0,
        high=1,
        low_open=True,
        help="fraction of rows with the largest gradients in goss",
    )
    other_rate: float = parameter(
        0.1, low=0, high=1, low_open=True, help="fraction of other rows in goss"
    )
    extmem_single_page: bool = parameter(
        False,
        help="keep the sampled rows of a tree in memory; for external memory only",
    )
    colsample_bytree: float = parameter(
        1.0,
        low=0,
        high=1,
        low_open=True,
        help="fraction of features sampled for each tree",
    )
    colsample_bylevel: float = parameter(
        1.0,
        low=0,
        high=1,
        low_open=True,
        help="fraction of the tree's features sampled for each level",
    )
    colsample_bynode: float = parameter(
        1.0,
        low=0,
        high=1,
        low_open=True,
        help="fraction of the level's features sampled for each node",
    )
    monotone_constraints: tuple[int, ...] | tuple[tuple[int | str, int], ...] = (
        parameter(
            (),
            help="1 for features in which predictions must not fall, -1 for those in "
            "which they must not rise, 0 for others: in order of the features, or by "
            "name",
        )
    )
    monotone_constraints_method: str = parameter(
        "basic",
        choices=("basic", "intermediate"),
        help="bounds on leaf values: fixed by each split, or updated as the tree grows",
    )
    feature_costs: tuple[float, ...] | tuple[tuple[int | str, float], ...] = parameter(
        (),
        help="gain that a split by a feature needs in addition to gamma, in order of "
        "the features, or by name",
    )
    feature_costs_for: str = parameter(
        "model",
        choices=("model", "rows"),
        help="charge the cost of a feature once for the model, or for each row that a "
        "tree tests it on",
    )
    interaction_constraints: tuple[tuple[int | str, ...], ...] = parameter(
        (), help="groups of features, by number or name, that may interact"
    )
    sample_type: str = parameter(
        "uniform",
        choices=("uniform", "weighted"),
        help="dart: drop trees with equal probabilities, or in proportion to their "
        "weights",
    )
    normalize_type: str = parameter(
        "tree",
        choices=("tree", "forest"),
        help="dart: scale a new tree like one dropped tree, or like all of them",
    )
    rate_drop: float = parameter(
        0.0, low=0, high=1, help="dart: fraction of the trees that a round drops"
    )
    one_drop: bool = parameter(
        False, help="dart: drop at least one tree in every round that does not skip it"
    )
    skip_drop: float = parameter(
        0.0, low=0, high=1, help="dart: probability that a round drops no tree"
    )
    feature_selector: str = parameter(
        "cyclic",
        choices=("cyclic", "shuffle", "random", "greedy", "thrifty"),
        help="gblinear: order in which the weights of features are updated",
    )
    top_k: int = parameter(
        0,
        low=0,
        help="gblinear: maximum number of features that greedy and thrifty update in a "
        "round; 0: all",
    )
    tolerance: float = parameter(
        0.0, low=0, help="gblinear: stop when no weight changes by more; 0: never"
    )
    max_cat_to_onehot: int = parameter(
        4,
        low=1,
        help="features with fewer categories are split by one category against the "
        "rest",
    )
    max_cat_threshold: int = parameter(
        64,
        low=1,
        help="maximum number of categories on one side of a split of sorted categories",
    )
    cat_smooth: float = parameter(
        0.0,
        low=0,
        help="smoothing of the order of categories: added to their hessians in it; "
        "categories of fewer rows are left out",
    )
    cat_l2: float = parameter(
        0.0,
        low=0,
        help="added to reg_lambda in both children of a split of sorted categories",
    )
    min_data_per_group: int = parameter(
        0,
        low=0,
        help="minimum number of rows between two cuts of sorted categories that are "
        "tried, and beyond the last",
    )
    num_parallel_tree: int = parameter(
        1, low=1, help="number of trees for each round and output"
    )
    multi_strategy: str = parameter(
        "one_output_per_tree",
        choices=("one_output_per_tree", "multi_output_tree"),
        help="one tree for each output, or trees of all outputs with vector leaves",
    )
    sketch_outputs: int = parameter(
        0,
        low=0,
        help="number of random projections of the outputs to search the splits of "
        "multi_output_tree by; 0 uses all outputs",
    )
    process_type: str = parameter(
        "default",
        choices=("default", "update"),
        help="grow new trees, or update the existing ones, one round after the other",
    )
    updater: str = parameter(
        "auto",
        aliases=("updater_seq",),
        choices=(
            "auto",
            *_GROWERS,
            "refresh",
            "prune",
            "refresh,prune",
            "prune,refresh",
            "shotgun",
            "coord_descent",
        ),
        help="algorithm that grows trees, or updates them; auto grows, or refreshes; "
        "shotgun and coord_descent are the same, and for gblinear",
    )
    refresh_leaf: bool = parameter(
        True, help="refresh the leaf values in addition to the statistics of nodes"
    )
    unseen: str = parameter(
        "error",
        choices=("error", "missing"),
        help="what to do with categories that were not in the training data",
    )
    margin_type: str = parameter(
        "float64",
        choices=("float64", "float32"),
        help="type of labels and of sums of leaf values during training; float32 as in "
        "XGBoost",
    )
    max_cached_hist_node: int | None = parameter(
        None, low=1, help="maximum number of nodes whose histograms are cached"
    )

    @classmethod
    def resolve(cls, params: ParameterSource | None = None) -> Parameters:
        """Return the defaults, updated with `params`.

        Parameters
        ----------
        params
            Names or aliases with values. Values may be strings, in XGBoost's formats;
            None is the same as leaving the parameter out.
        """
        return cls().updated(params)

    @staticmethod
    def read(name: str, raw: Any) -> Any:
        """Return the validated value of one parameter, its default for None."""
        row = _TABLE[_CANONICAL[name]]
        return row.default if raw is None else _parse(name, row, raw)

    @staticmethod
    def choices(name: str) -> tuple[str, ...]:
        """Return the values that a parameter may have, () for all of its type."""
        return _rule(_TABLE[name]).choices

    def updated(self, params: ParameterSource | None) -> Parameters:
        """Return a copy updated with `params`; the object itself if they are None."""
        if params is None:
            return self
        given: dict[str, tuple[str, Any]] = {}
        for name, raw in _pairs(params):
            if raw is None:
                continue
            canonical = _CANONICAL.get(name)
            if canonical is None:
                raise unknown_parameter(name)
            value = _parse(name, _TABLE[canonical], raw)
            if canonical in given:
                first_name, first = given[canonical]
                if canonical == "eval_metric":
                    value = first + tuple(v for v in value if v not in first)
                elif value != first:
                    raise ParameterError(
                        f"{first_name}={first!r} and {name}={value!r} set the same "
                        "parameter to different values; keep one of them",
                        code=ErrorCode.CONFLICTING_PARAMETERS,
                    )
            given[canonical] = (name, value)
        values = {canonical: value for canonical, (_, value) in given.items()}
        kind = (
            values.get("booster", self.booster),
            values.get("leaf_solver", self.leaf_solver),
        )
        # Defaults may differ between boosters and leaf solvers.
        moved = {
            name: _default(name, kind)
            for name in _OWN_DEFAULTS
            if getattr(self, name) == _default(name, self._kind)
        }
        return dataclasses.replace(self, **{**moved, **values})

    @property
    def _kind(self) -> tuple[str, ...]:
        """The booster and the leaf solver, which some defaults depend on."""
        return self.booster, self.leaf_solver

    @property
    def grows(self) -> bool:
        """Whether the updater, if one is named, grows trees."""
        return self.updater in _GROWERS

    def method(self) -> str:
        """Return the tree method: ``"hist"``, ``"approx"`` or ``"exact"``.

        Raises ParameterError if tree_method, updater and their parameters contradict
        each other.
        """
        named = "hist" if self.tree_method == "auto" else self.tree_method
        method = _GROWERS.get(self.updater, named)
        if method != named and self.tree_method != "auto":
            raise ParameterError(
                f"updater={self.updater!r} implies tree_method={method!r}, and "
                f"tree_method is {self.tree_method!r}; leave updater out",
                code=ErrorCode.CONFLICTING_PARAMETERS,
            )
        if self.sketch_scope == "local" and method != "approx":
            raise ParameterError(
                "sketch_scope='local' requires tree_method='approx', and trees are "
                f"grown by {method!r}; set tree_method='approx', or leave "
                "sketch_scope out",
                code=ErrorCode.CONFLICTING_PARAMETERS,
            )
        given = self._changed
        for name in ("default_direction", "opt_dense_col"):
            if name in given and method != "exact":
                raise ParameterError(
                    f"{name}={given[name]!r} requires tree_method='exact', and trees "
                    f"are grown by {method!r}; set tree_method='exact', or leave "
                    f"{name} out",
                    code=ErrorCode.INEFFECTIVE_PARAMETER,
                )
        return method

    def bins(self) -> int:
        """Return the maximum number of bins of a feature, by max_bin or sketch_eps.

        Raises ParameterError if one of the two has no effect, or if they contradict
        each other.
        """
        method, given = self.method(), self._changed
        by_bins = method != "exact"
        by_histograms = by_bins and self.sketch_scope == "global"
        useless = {"max_bin": not by_bins, "max_cached_hist_node": not by_histograms}
        for name, is_useless in useless.items():
            if is_useless and name in given:
                raise ParameterError(
                    f"{name}={given[name]} has no effect on tree_method={method!r}, "
                    "which searches the values of each node; leave it out",
                    code=ErrorCode.INEFFECTIVE_PARAMETER,
                )
        if self.sketch_eps is None:
            return self.max_bin
        if method != "approx":
            raise ParameterError(
                f"sketch_eps={self.sketch_eps:g} requires tree_method='approx', and "
                f"trees are grown by {method!r}; set tree_method='approx', or leave "
                "sketch_eps out",
                code=ErrorCode.INEFFECTIVE_PARAMETER,
            )
        bins = math.ceil(round(1.0 / self.sketch_eps, 6))
        if "max_bin" in given and self.max_bin != bins:
            raise ParameterError(
                f"sketch_eps={self.sketch_eps:g} corresponds to max_bin={bins}, and "
                f"max_bin is {self.max_bin}; keep one of them",
                code=ErrorCode.CONFLICTING_PARAMETERS,
            )
        return bins

    def prunes(self) -> bool:
        """Return whether splits that gain less than gamma are pruned after growth."""
        if self.pruning == "auto":
            return self.method() == "exact"
        return self.pruning == "after"

    def drawn_share(self) -> float:
        """Return the fraction of rows that are sampled for a tree.

        Raises ParameterError if the sampling parameters contradict each other.
        """
        if self.sampling_method != "goss":
            return self.subsample
        if self.subsample < 1.0:
            raise ParameterError(
                f"sampling_method='goss' samples rows by top_rate and other_rate, and "
                f"subsample={self.subsample:g} samples them as well; leave subsample "
                "out",
                code=ErrorCode.CONFLICTING_PARAMETERS,
            )
        share = self.top_rate + self.other_rate
        if share > 1.0:
            raise ParameterError(
                f"top_rate={self.top_rate:g} and other_rate={self.other_rate:g} are "
                "fractions of all rows, and their sum is above 1; lower one of them",
                code=ErrorCode.CONFLICTING_PARAMETERS,
            )
        return share

    def cached_share(self) -> float:
        """Return the fraction of rows that stay in memory for a tree; 0: none.

        Raises ParameterError if extmem_single_page is set and rows are not sampled.
        """
        if not self.extmem_single_page:
            return 0.0
        share = self.drawn_share()
        if share == 1.0:
            raise ParameterError(
                "extmem_single_page keeps the sampled rows of a tree in memory, and "
                "subsample=1 does not sample; set subsample below 1, or leave "
                "extmem_single_page out",
                code=ErrorCode.INEFFECTIVE_PARAMETER,
            )
        return share

    def multi_output_columns(self, n_outputs: int) -> int:
        """Return the number of gradient columns that multi-output splits use.

        It is 0 if each tree has one output. Raises ParameterError if other parameters
        contradict multi_strategy.
        """
        if self.multi_strategy == "one_output_per_tree":
            if self.sketch_outputs > 0:
                raise ParameterError(
                    f"sketch_outputs={self.sketch_outputs} is for multi-output trees; "
                    "set multi_strategy='multi_output_tree', or leave sketch_outputs "
                    "out",
                    code=ErrorCode.INEFFECTIVE_PARAMETER,
                )
            return 0
        if n_outputs == 1:
            return 0
        if self.monotone_constraints and 0 < self.sketch_outputs < n_outputs:
            raise ParameterError(
                "monotone_constraints apply to each output, and "
                f"sketch_outputs={self.sketch_outputs} searches splits by projections "
                "of the outputs; leave one of the two out",
                code=ErrorCode.CONFLICTING_PARAMETERS,
            )
        return min(self.sketch_outputs or n_outputs, n_outputs)

    def to_dict(self) -> dict[str, Any]:
        """Return all parameters under their canonical names, as plain values."""
        return {name: _plain(getattr(self, name)) for name in _TABLE}

    def changed(self) -> dict[str, Any]:
        """Return the parameters that differ from their defaults, as plain values."""
        return dict(self._changed)

    @functools.cached_property
    def _changed(self) -> dict[str, Any]:
        # Cached: every round reads it several times, and it compares all parameters.
        return {
            name: _plain(value)
            for name, default in _defaults(self._kind).items()
            if (value := getattr(self, name)) != default
        }


class ParameterRow(NamedTuple):
    """A row of the parameter table, as text."""

    name: str
    aliases: tuple[str, ...]
    type: str
    default: Any
    range: str
    help: str


def parameter_table() -> list[ParameterRow]:
    """Return the table for the documentation and ``hornbeam train --help``."""
    return [
        ParameterRow(
            entry.name,
            _rule(entry).aliases,
            str(entry.type),
            _plain(entry.default),
            _rule(entry).range,
            _rule(entry).help,
        )
        for entry in _TABLE.values()
    ]


#: Defaults that differ for a booster or a leaf solver.
_OWN_DEFAULTS = {
    "learning_rate": {"gblinear": 0.5},
    "reg_lambda": {"gblinear": 0.0, "line_search": 0.0},
}


def _default(name: str, kind: tuple[str, ...]) -> Any:
    own = _OWN_DEFAULTS.get(name, {})
    return next((own[k] for k in kind if k in own), _TABLE[name].default)


@functools.cache
def _defaults(kind: tuple[str, ...]) -> Mapping[str, Any]:
    return {name: _default(name, kind) for name in _TABLE}


def _rule(entry: dataclasses.Field[Any]) -> _Rule:
    rule: _Rule = entry.metadata["rule"]
    return rule


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _pairs(params: ParameterSource) -> Iterator[tuple[str, Any]]:
    if isinstance(params, Mapping):
        pairs = list(params.items())
    else:
        try:
            pairs = [(name, value) for name, value in params]
        except (TypeError, ValueError):
            raise ParameterError(
                "params must be a dict, or a list of (name, value) pairs, "
                f"not {type(params).__name__}",
                code=ErrorCode.INVALID_PARAMETER_TYPE,
            ) from None
    for name, value in pairs:
        if not isinstance(name, str):
            raise ParameterError(
                f"a parameter's name must be a string, not {name!r}; "
                "params must be a dict, or a list of (name, value) pairs",
                code=ErrorCode.INVALID_PARAMETER_TYPE,
            )
        yield name, value


# --- Values ---------------------------------------------------------------------------


def _parse(name: str, entry: dataclasses.Field[Any], raw: Any) -> Any:
    """Return `raw` converted to the type of the field, checked against its rule."""
    if getattr(raw, "ndim", None) == 0 and hasattr(raw, "item"):
        raw = raw.item()
    rule = _rule(entry)
    value = _READERS[str(entry.type)](name, raw)
    if isinstance(value, str):
        value = dict(rule.synonyms).get(value, value)
    each = value if entry.type == _NUMBERS else (value,)
    for item in each:
        rule.check(name, item)
    return value


def _boolean(name: str, raw: Any) -> bool:
    if isinstance(raw, str | int):
        text = str(raw).strip().lower()
        if text in ("true", "1"):
            return True
        if text in ("false", "0"):
            return False
    raise ParameterError(
        f"{name} must be true or false, not {raw!r}",
        code=ErrorCode.INVALID_PARAMETER_TYPE,
    )


def _integer(name: str, raw: Any) -> int:
    number = _finite(raw)
    if number is None or number != int(number):
        raise ParameterError(
            f"{name} must be a whole number, not {raw!r}",
            code=ErrorCode.INVALID_PARAMETER_TYPE,
        )
    return int(number)


def _number(name: str, raw: Any) -> float:
    number = _finite(raw)
    if number is None:
        raise ParameterError(
            f"{name} must be a finite number, not {raw!r}",
            code=ErrorCode.INVALID_PARAMETER_TYPE,
        )
    return float(number)


def _finite(raw: Any) -> int | float | None:
    """Return `raw` as a number; None if it is not a number, or not finite."""
    if isinstance(raw, str):
        for read in (int, float):
            try:
                number = read(raw)
            except ValueError:
                continue
            return number if math.isfinite(number) else None
        return None
    if isinstance(raw, bool) or not isinstance(raw, numbers.Real):
        return None
    if isinstance(raw, numbers.Integral):
        return int(raw)
    number = float(raw)
    return number if math.isfinite(number) else None


def _text(name: str, raw: Any) -> str:
    if not isinstance(raw, str) or not raw.strip():
        raise ParameterError(
            f"{name} must be a name in a string, not {raw!r}",
            code=ErrorCode.INVALID_PARAMETER_TYPE,
        )
    return raw.strip()


def _texts(name: str, raw: Any) -> tuple[str, ...]:
    if isinstance(raw, str):
        return (_text(name, raw),)
    if not isinstance(raw, Sequence):
        raise ParameterError(
            f"{name} must be a name or a list of names, not {raw!r}; "
            "a function goes to custom_metric",
            code=ErrorCode.INVALID_PARAMETER_TYPE,
        )
    return tuple(dict.fromkeys(_text(name, item) for item in raw))


def _intercept(name: str, raw: Any) -> float | tuple[float, ...]:
    """Return a number or several; a string may be a JSON list, as in model files."""
    if isinstance(raw, str) and raw.strip().startswith("["):
        try:
            raw = json.loads(raw)
        except json.JSONDecodeError:
            raise ParameterError(
                f"{name} must be a number or a list of numbers, not {raw!r}",
                code=ErrorCode.INVALID_PARAMETER_TYPE,
            ) from None
    if hasattr(raw, "tolist"):
        raw = raw.tolist()
    if isinstance(raw, list | tuple):
        if not raw:
            raise ParameterError(
                f"{name} is an empty list; leave it out, or give one",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
        return tuple(_number(name, item) for item in raw)
    return _number(name, raw)


def _directions(name: str, raw: Any) -> Any:
    found = _by_feature(name, raw, _integer)
    for value in found:
        direction = value[1] if isinstance(value, tuple) else value
        if direction not in (-1, 0, 1):
            raise ParameterError(
                f"{name} must be 1, -1 or 0 (increasing, decreasing, none), not "
                f"{direction}",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
    return found


def _costs(name: str, raw: Any) -> Any:
    found = _by_feature(name, raw, _number)
    for value in found:
        cost = value[1] if isinstance(value, tuple) else value
        if cost < 0.0:
            raise ParameterError(
                f"{name} must be 0 or more, not {cost:g}",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
    return found


def _by_feature(name: str, raw: Any, read: Callable[[str, Any], Any]) -> Any:
    """Return numbers in feature order, or pairs of feature and number, as tuples."""
    given = _json_value(raw) if isinstance(raw, str) else raw
    if hasattr(given, "tolist"):
        given = given.tolist()
    if isinstance(given, Mapping):
        given = [list(pair) for pair in given.items()]
    if not _is_list(given):
        raise ParameterError(
            f"{name} must be a list of numbers, one for each feature, or a dict by "
            f"name, not {raw!r}",
            code=ErrorCode.INVALID_PARAMETER_TYPE,
        )
    if given and all(_is_list(pair) and len(pair) == 2 for pair in given):
        return tuple((_feature(name, key), read(name, item)) for key, item in given)
    return tuple(read(name, item) for item in given)


def _groups(name: str, raw: Any) -> tuple[tuple[int | str, ...], ...]:
    """Return groups of features; a string may be a JSON list of lists."""
    groups = _json_value(raw) if isinstance(raw, str) else raw
    if not _is_list(groups) or not all(map(_is_list, groups)):
        raise ParameterError(
            f"{name} must be a list of lists of features, such as [[0, 1], [2, 3]] or "
            f"[['age', 'income'], ['city']], not {raw!r}",
            code=ErrorCode.INVALID_PARAMETER_TYPE,
        )
    return tuple(tuple(_feature(name, item) for item in group) for group in groups)


def _feature(name: str, raw: Any) -> int | str:
    if isinstance(raw, str):
        return raw
    if isinstance(raw, numbers.Integral) and not isinstance(raw, bool):
        return int(raw)
    raise ParameterError(
        f"{name} must be names of features or their indices, from 0, not {raw!r}",
        code=ErrorCode.INVALID_PARAMETER_TYPE,
    )


def _is_list(raw: Any) -> bool:
    return isinstance(raw, Sequence | set | frozenset) and not isinstance(raw, str)


def _json_value(text: str) -> Any:
    """Return the value of a JSON string, a tuple as a list; None if it is not JSON."""
    text = text.strip()
    if text.startswith("(") and text.endswith(")"):
        text = f"[{text[1:-1].rstrip(',')}]"
    try:
        return json.loads(text or "[]")
    except json.JSONDecodeError:
        return None


def _numbers(name: str, raw: Any) -> tuple[float, ...]:
    value = _intercept(name, raw)
    return value if isinstance(value, tuple) else (value,)


_NUMBERS = "tuple[float, ...] | None"
_READERS: dict[str, Callable[[str, Any], Any]] = {
    "bool": _boolean,
    "int": _integer,
    "int | None": _integer,
    "float": _number,
    "float | None": _number,
    "str": _text,
    "tuple[str, ...]": _texts,
    "tuple[tuple[int | str, ...], ...]": _groups,
    "tuple[int, ...] | tuple[tuple[int | str, int], ...]": _directions,
    "tuple[float, ...] | tuple[tuple[int | str, float], ...]": _costs,
    "float | tuple[float, ...] | None": _intercept,
    _NUMBERS: _numbers,
}

# --- Names ----------------------------------------------------------------------------

_TABLE = {entry.name: entry for entry in dataclasses.fields(Parameters)}
_CANONICAL = {
    name: entry.name
    for entry in _TABLE.values()
    for name in (entry.name, *_rule(entry).aliases)
}

# Parameters of XGBoost 3.2 that Hornbeam does not support yet.
_LATER = frozenset(
    """
    seed_per_iteration fail_on_invalid_gpu_id boost_from_average
    debug_synchronize sparse_threshold max_row_perbatch
    """.split()
)

# Arguments that users often pass as parameters.
_ELSEWHERE = {
    "n_estimators": "pass num_boost_round to train",
    "num_round": "pass num_boost_round to train",
    "num_boost_round": "pass it to train itself",
    "early_stopping_rounds": "pass it to train itself",
    "evals": "pass it to train itself",
    "callbacks": "pass it to train itself",
    "missing": "pass it to DMatrix",
    "enable_categorical": "pass it to DMatrix",
    "importance_type": "pass it to get_score",
}


def unknown_parameter(name: str, names: Iterable[str] = ()) -> ParameterError:
    """Return the error for a name that is no parameter, with the one that is meant.

    Parameters
    ----------
    name
        What a user has given.
    names
        The names that there are; empty: all of the booster.
    """
    text = _text_for_unknown(name, [*names])
    return ParameterError(text, code=ErrorCode.UNKNOWN_PARAMETER)


def _text_for_unknown(name: str, names: list[str]) -> str:
    if not names and name in _LATER:
        return f"parameter {name!r} of XGBoost is not in Hornbeam yet; leave it out"
    if not names and name in _ELSEWHERE:
        return f"{name!r} is not a parameter of the learner; {_ELSEWHERE[name]}"
    # For this error alone.
    from difflib import get_close_matches

    from hornbeam.parameter_names import owners_of

    known = names or [*_CANONICAL, *_LATER]
    for parameter, library in owners_of(name):
        same = {parameter, *_rule(_TABLE[parameter]).aliases}.intersection(known)
        if same:
            here = parameter if parameter in same else min(same)
            return (
                f"unknown parameter {name!r}: {library} has it, and here it is {here!r}"
            )
    near = get_close_matches(name.lower(), known, n=1)
    if near:
        return f"unknown parameter {name!r}; did you mean {near[0]!r}?"
    return f"unknown parameter {name!r}; parameter_table() lists the known ones"
