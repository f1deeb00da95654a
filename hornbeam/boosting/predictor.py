"""Prediction: margins, predictions, leaf indices, intervals and SHAP values of rows.

The modules of SHAP values are imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.boosting.dart import Dropout, MarginScale
from hornbeam.boosting.learner import Learner
from hornbeam.boosting.margins import (
    MANY_ROWS,
    PlainRows,
    Rows,
    add_layout,
    add_linear,
    add_one_by_one,
    add_to_few,
    check_linear_features,
    leaf_indices,
    squeeze_outputs,
    start_margins,
)
from hornbeam.data.align import align
from hornbeam.data.containers.dispatch import as_table
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.floats import is_plain
from hornbeam.data.labels import as_base_margin
from hornbeam.data.table import Table
from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.features.derived import DerivedTable
from hornbeam.forest.layout import Layout
from hornbeam.forest.tree import Tree
from hornbeam.kernels.team import ALONE, Team, lease
from hornbeam.objectives.base import Objective
from hornbeam.objectives.compiled import OWNER

if TYPE_CHECKING:
    from hornbeam.forest.tree_paths import TreePaths

__all__ = ["Predictor"]

Margins = NDArray[np.float64]

_SINGLE = np.dtype(np.float32)
#: The most bytes of the paths of trees that are kept for the next SHAP values: those
#: of 1,000 trees of 350 leaves.
_MOST_OF_PATHS = 1 << 26


class Predictor:
    """Predicts with the model of a learner, which it never changes.

    Trees are laid out for prediction once and kept until `clear`, which has to be
    called when the model changes. So are their paths, unless they take much memory.

    Attributes
    ----------
    scale_of
        Returns the scale of margins with DART, from those before the first tree, and
        from trees.
    """

    scale_of: Callable[[Margins, Iterable[Tree]], MarginScale]

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self.scale_of = MarginScale.of
        self._layouts: dict[tuple[Any, ...], Layout] = {}
        #: The paths of the trees that were explained last, with their layout.
        self._known_paths: tuple[Layout, TreePaths] | None = None
        #: The margins of the base score, with the objective and score they belong to.
        self._known_base: tuple[Objective, Margins, Margins] | None = None

    def clear(self) -> None:
        """Drop the layouts and paths of trees."""
        self._layouts.clear()
        self._known_paths = None

    def table(self, data: Any, missing: float, validate_features: bool) -> Table:
        """Return the table of a container, whose features are not aligned yet."""
        derived = self._learner.model.derived
        has_times = derived is not None and derived.times
        return as_table(data, missing, dates="expand" if has_times else "error")

    # What a booster returns

    def predict(
        self,
        data: DMatrix,
        *,
        output_margin: bool,
        pred_leaf: bool,
        pred_contribs: bool,
        approx_contribs: bool,
        pred_interactions: bool,
        validate_features: bool,
        training: bool,
        iteration_range: tuple[int, int],
        strict_shape: bool,
    ) -> NDArray[Any]:
        """Return what `Booster.predict` documents."""
        explains = pred_contribs or pred_interactions
        if pred_leaf + pred_contribs + pred_interactions > 1:
            raise ParameterError(
                "pred_leaf, pred_contribs and pred_interactions exclude each other; "
                "set one of them at a time",
                code=ErrorCode.CONFLICTING_PREDICTION_TYPES,
            )
        if approx_contribs and not explains:
            raise ParameterError(
                "approx_contribs=True selects how contributions are computed; set "
                "pred_contribs=True or pred_interactions=True as well",
                code=ErrorCode.INEFFECTIVE_PARAMETER,
            )
        learner = self._learner
        learner.require_model()
        model = learner.model
        begin, end = model.tree_range(iteration_range)
        if model.linear is not None:
            if pred_leaf:
                raise ParameterError(
                    "a model of booster='gblinear' has no leaves; leave pred_leaf out",
                    code=ErrorCode.UNSUPPORTED_COMBINATION,
                )
            check_linear_features(data)
        data = learner.align(data, validate_features)
        layout = None
        if training and model.tree_weights is not None:
            layout = self._layout_of_dropout(begin, end, data.dtype)
        if not (explains or pred_leaf):
            margins = data.base_margin
            return self._outputs(
                data, begin, end, margins, output_margin, strict_shape, layout
            )
        layout = layout or self._layout(begin, end, data.dtype)
        if explains:
            trees = model.trees[begin:end]
            found = self._shap_values(
                data, layout, trees, approx_contribs, pred_interactions
            )
        else:
            found = self._leaves(data, layout, begin, strict_shape)
        return found if strict_shape else squeeze_outputs(found)

    def inplace_predict(
        self,
        data: Any,
        *,
        iteration_range: tuple[int, int],
        predict_type: str,
        missing: float,
        validate_features: bool,
        base_margin: Any,
        strict_shape: bool,
    ) -> NDArray[Any]:
        """Return what `Booster.inplace_predict` documents."""
        if predict_type not in ("value", "margin"):
            raise ParameterError(
                f"predict_type must be 'value' or 'margin', not {predict_type!r}",
                code=ErrorCode.UNKNOWN_OPTION,
            )
        learner = self._learner
        learner.require_model()
        model = learner.model
        output_margin = predict_type == "margin"
        rows: Rows
        if self._is_plain(data, missing):
            rows = PlainRows(data)
        else:
            table = self.table(data, missing, validate_features)
            schema = learner.schema(validate_features)
            rows = align(table, schema, learner.params.unseen)
            if model.derived is not None:
                rows = DerivedTable(rows, model.derived, not model.exact_features)
        begin, end = model.tree_range(iteration_range)
        if base_margin is not None:
            base_margin = as_base_margin(base_margin, rows.n_rows)
        return self._outputs(rows, begin, end, base_margin, output_margin, strict_shape)

    def interventional_shap(
        self,
        data: DMatrix,
        background: DMatrix,
        *,
        validate_features: bool,
        iteration_range: tuple[int, int],
        strict_shape: bool,
    ) -> NDArray[Any]:
        """Return what `Booster.shap_values` documents, given a background."""
        from hornbeam.boosting.interventional_shap import (
            background_weights,
            interventional_shap_values,
            linear_interventional_shap_values,
        )

        learner = self._learner
        learner.require_model()
        model = learner.model
        begin, end = model.tree_range(iteration_range)
        rows = learner.align(data, validate_features)
        others = learner.align(background, validate_features)
        shares = background_weights(others.row_weights, others.n_rows)
        if model.linear is not None:
            check_linear_features(data)
            check_linear_features(background)
        start = self._start(rows)
        with lease(learner.params.nthread) as team:
            if model.linear is not None:
                kind, weights = self.feature_type(rows.dtype), model.linear.weights
                found = linear_interventional_shap_values(
                    team, rows, others, shares, weights, kind, start
                )
            else:
                # Both use the rows' type of features, so that the values add up.
                layout = self._layout(begin, end, rows.dtype)
                paths = self._paths(model.trees[begin:end], layout)
                found = interventional_shap_values(
                    team, rows, others, shares, layout, paths, start
                )
        found = found.astype(self._margin_type)
        return found if strict_shape else squeeze_outputs(found)

    def _outputs(
        self,
        rows: Rows,
        begin: int,
        end: int,
        base_margin: Margins | None,
        output_margin: bool,
        strict_shape: bool,
        layout: Layout | None = None,
    ) -> NDArray[Any]:
        """Return the predictions of aligned rows, or their margins.

        They are those of trees `begin` to `end`, or of the trees of a given layout.
        """
        params = self._learner.params
        if self._learner.model.linear is not None:
            with lease(params.nthread) as team:
                margins = self._linear_margins(team, rows, base_margin)
                return self._finish(team, margins, output_margin, strict_shape)
        base = self.base_margins()
        margins = start_margins(base_margin, base, rows.n_rows, self._margin_type)
        if layout is None and rows.n_rows >= MANY_ROWS and params.device == "cpu":
            with lease(params.nthread) as team:
                if self._add_one_by_one(team, rows, begin, end, margins):
                    return self._finish(team, margins, output_margin, strict_shape)
        if layout is None:
            layout = self._layout(begin, end, rows.dtype)
        # Without what distributes the work, which would take a third of the time.
        if add_to_few(rows, layout, margins):
            return self._finish(ALONE, margins, output_margin, strict_shape)
        cells = layout.cost(rows.n_rows, rows.n_features)
        with lease(params.nthread, cells) as team:
            add_layout(team, rows, layout, margins, params.device)
            return self._finish(team, margins, output_margin, strict_shape)

    def _add_one_by_one(
        self, team: Team, rows: Rows, begin: int, end: int, margins: NDArray[Any]
    ) -> bool:
        """Add trees `begin` to `end`, as `add_one_by_one` does."""
        model, kind = self._learner.model, self.feature_type(rows.dtype)
        trees, outputs = model.trees[begin:end], model.tree_output[begin:end]
        weights = model.weights[begin:end]
        return add_one_by_one(team, rows, trees, outputs, weights, kind, margins)

    def _leaves(
        self, data: DMatrix, layout: Layout, begin: int, strict_shape: bool
    ) -> NDArray[Any]:
        """Return leaf indices, (rows, trees), of the trees from `begin` on."""
        cells = layout.cost(data.n_rows, data.n_features)
        with lease(self._learner.params.nthread, cells) as team:
            leaves = leaf_indices(team, data, layout)
        return self._shape_leaves(leaves, begin) if strict_shape else leaves

    def _shap_values(
        self,
        data: DMatrix,
        layout: Layout,
        trees: Sequence[Tree],
        approximate: bool,
        interactions: bool,
    ) -> NDArray[Any]:
        """Return SHAP values or interaction values, with a base value as the last."""
        from hornbeam.boosting.tree_shap import linear_shap_values, tree_shap_values

        linear = self._learner.model.linear
        start = self._start(data)
        with lease(self._learner.params.nthread) as team:
            if linear is not None:
                return linear_shap_values(
                    team,
                    data,
                    linear.weights,
                    self.feature_type(data.dtype),
                    start,
                    self._margin_type,
                    interactions=interactions,
                )
            return tree_shap_values(
                team,
                data,
                layout,
                self._paths(trees, layout),
                start,
                self._margin_type,
                approximate=approximate,
                interactions=interactions,
            )

    def transform(self, margins: Margins) -> Margins:
        """Return predictions as metrics take them, (rows,) or (rows, outputs).

        Of classes these are always the probabilities of all classes.
        """
        with lease(self._learner.params.nthread) as team:
            self._check_transform()
            return squeeze_outputs(self._learner.objective.transform(team, margins))

    def output(self, margins: Margins, output_margin: bool) -> NDArray[Any]:
        """Return what `predict` returns of these margins, which it may overwrite."""
        with lease(self._learner.params.nthread) as team:
            return self._finish(team, margins, output_margin, strict_shape=False)

    def _finish(
        self,
        team: Team,
        margins: NDArray[Any],
        output_margin: bool,
        strict_shape: bool,
    ) -> NDArray[Any]:
        """Return the predictions of margins, (rows, outputs), or the margins."""
        if not output_margin:
            self._check_transform()
            margins = self._learner.objective.to_output(team, margins)
        return margins if strict_shape else squeeze_outputs(margins)

    def _check_transform(self) -> None:
        """Raise a `ParameterError` if the formula of the predictions is missing."""
        owner = self._learner.model.attributes.get(OWNER)
        if owner is not None and self._learner.loss is None:
            raise ParameterError(
                f"the predictions of this model need {owner}.transform, which a model "
                f"file does not contain; call booster.set_objective({owner}), or "
                "predict margins",
                code=ErrorCode.CUSTOM_TRANSFORM_MISSING,
            )

    def _shape_leaves(self, leaves: NDArray[Any], begin: int) -> NDArray[Any]:
        """Return leaf indices as (rows, rounds, outputs, parallel trees).

        `begin` is the first of the trees.
        """
        model = self._learner.model
        parallel = model.num_parallel_tree
        outputs = 1 if model.leaf_size > 1 else model.n_outputs
        rows, trees = leaves.shape
        sizes = {tree.leaf_size for tree in model.trees[begin : begin + trees]}
        if len(sizes) > 1:
            raise ParameterError(
                "some of these rounds have a tree for each output, others one tree for "
                "all, so their leaves have no common shape; leave strict_shape out, or "
                "select rounds by iteration_range",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )
        if sizes:
            outputs = 1 if max(sizes) > 1 else model.n_outputs
        return leaves.reshape(rows, trees // (outputs * parallel), outputs, parallel)

    def _is_plain(self, data: Any, missing: Any) -> bool:
        """Whether kernels can read an array as it is: a conversion costs more."""
        model = self._learner.model
        return (
            type(data) is np.ndarray
            and data.ndim == 2
            and data.shape[1] == model.num_feature
            and model.derived is None
            and is_plain(data)
            and type(missing) is float
            and missing != missing
            and "c" not in model.feature_types
        )

    # Margins

    @property
    def sum_type(self) -> Any:
        """The type in which margins of training and evaluation data are summed."""
        model = self._learner.model
        has_scale = model.tree_weights is not None or model.linear is not None
        single = self._learner.params.margin_type == "float32" and not has_scale
        return np.float32 if single else np.float64

    @property
    def _margin_type(self) -> Any:
        return np.float64 if self._learner.model.double_scores else np.float32

    def feature_type(self, dtype: Any) -> Any:
        """Return the type in which features are compared with thresholds."""
        return np.dtype(dtype) if self._learner.model.exact_features else _SINGLE

    def base_margins(self) -> Margins:
        """Return the margins of the base score, (outputs,)."""
        objective, score = self._learner.objective, self._learner.model.base_score
        known = self._known_base
        if known is None or known[0] is not objective or known[1] is not score:
            score.flags.writeable = False  # identity stands for equality
            known = objective, score, objective.to_margin(score)
            self._known_base = known
        return known[2]

    def margins_of(
        self, data: DMatrix
    ) -> tuple[Margins, NDArray[np.float32], MarginScale | None]:
        """Return the margins of aligned `data` under all trees, (rows, outputs).

        They are of type `sum_type`. And the weights of the trees, and with DART the
        scale of the rounding.
        """
        model, threads = self._learner.model, self._learner.params.nthread
        if model.linear is not None:
            with lease(threads) as team:
                margins = self._linear_margins(team, data, data.base_margin, np.float64)
            return margins, model.weights, None
        base = self.base_margins()
        margins = start_margins(data.base_margin, base, data.n_rows, self.sum_type)
        scale, step = None, 0.0
        if model.tree_weights is not None:
            scale = self.scale_of(margins, model.trees)
            margins, step = scale.rounded(margins), scale.step
        if model.trees:
            every = np.arange(len(model.trees))
            layout = self.layout_of(every, model.weights, data.dtype, step)
            with lease(threads) as team:
                add_layout(team, data, layout, margins, self._learner.params.device)
        return margins, model.weights, scale

    def _start(self, data: DMatrix) -> Margins:
        base = self.base_margins()
        return start_margins(data.base_margin, base, data.n_rows, np.float64)

    def _linear_margins(
        self, team: Team, data: Rows, base_margin: Margins | None, dtype: Any = None
    ) -> NDArray[Any]:
        """Return the margins of the linear model, which are summed in float64."""
        linear = self._learner.model.linear
        assert linear is not None
        base = self.base_margins()
        margins = start_margins(base_margin, base, data.n_rows, np.float64)
        kind = self.feature_type(data.dtype)
        add_linear(team, data, linear.weights, kind, margins)
        return margins.astype(dtype or self._margin_type, copy=False)

    # Trees laid out for prediction

    def _layout(self, begin: int, end: int, dtype: Any) -> Layout:
        """Return trees `begin` to `end` laid out for features of this type."""
        key = (begin, end, dtype)
        layout = self._layouts.get(key)
        if layout is None:
            weights = self._learner.model.weights[begin:end]
            layout = self.layout_of(np.arange(begin, end), weights, dtype)
            self._layouts[key] = layout
        return layout

    def _layout_of_dropout(self, begin: int, end: int, dtype: Any) -> Layout:
        """Return the trees that the next round of DART keeps, laid out."""
        learner, model = self._learner, self._learner.model
        if end - begin < len(model.trees):
            raise ParameterError(
                "training=True drops trees of all rounds, so iteration_range "
                "cannot select some of them; leave one of the two out",
                code=ErrorCode.CONFLICTING_PARAMETERS,
            )
        dropout = Dropout.of_round(learner.params, model)
        return self.layout_of(np.arange(end), dropout.during(model.weights), dtype)

    def layout_of(
        self,
        numbers: NDArray[np.intp],
        weights: NDArray[np.float32],
        dtype: Any,
        step: float = 0.0,
    ) -> Layout:
        """Return the trees of these numbers, with these weights, laid out.

        Leaf values are rounded to multiples of `step`, unless it is 0.
        """
        kind, model = self.feature_type(dtype), self._learner.model
        key = (numbers.tobytes(), weights.tobytes(), kind, step)
        layout = self._layouts.get(key)
        if layout is None:
            trees = [model.trees[number] for number in numbers]
            outputs = [model.tree_output[number] for number in numbers]
            layout = Layout.of(trees, outputs, kind, model.num_feature, weights, step)
            self._layouts[key] = layout
        return layout

    def _paths(self, trees: Sequence[Tree], layout: Layout) -> TreePaths:
        """Return the paths of trees from their roots to their leaves."""
        from hornbeam.forest.tree_paths import TreePaths

        known = self._known_paths
        if known is not None and known[0] is layout:
            return known[1]
        paths = TreePaths.of(trees, layout)
        if paths.edges.nbytes <= _MOST_OF_PATHS:
            self._known_paths = layout, paths
        return paths

    def layout_between(
        self,
        before: NDArray[np.float32],
        after: NDArray[np.float32],
        dtype: Any,
        step: float,
    ) -> Layout | None:
        """Return the trees that bring margins from these tree weights to those.

        A tree whose weight changes is subtracted and added again. Returns None if no
        tree does.
        """
        old = (before != after[: before.size]).nonzero()[0]
        numbers, weight = np.arange(before.size, after.size), after[before.size :]
        if old.size > 0:
            numbers = np.concatenate([old, old, numbers])
            weight = np.concatenate([-before[old], after[old], weight])
        counts = weight.nonzero()[0]
        if counts.size == 0:
            return None
        return self.layout_of(numbers[counts], weight[counts], dtype, step)
