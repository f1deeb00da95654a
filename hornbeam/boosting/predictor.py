"""Prediction by a model: margins of rows, and what they mean."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.boosting.accounts import ModelAccounts
from hornbeam.boosting.dart import Dropout, Scale
from hornbeam.boosting.gblinear import check_features
from hornbeam.boosting.interventional_shap import (
    contributions_against,
    linear_contributions_against,
    shares_of,
)
from hornbeam.boosting.prediction import (
    PlainRows,
    Rows,
    add_layout,
    add_linear,
    leaves_of,
    squeezed,
    start_margins,
)
from hornbeam.boosting.tree_shap import (
    contributions_of,
    linear_contributions_of,
)
from hornbeam.data.align import align
from hornbeam.data.containers.dispatch import as_table
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.floats import is_plain
from hornbeam.data.labels import as_base_margin
from hornbeam.data.schema import Schema
from hornbeam.data.table import Table
from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.forest.layout import Layout
from hornbeam.forest.tree_paths import TreePaths
from hornbeam.kernels.team import lease
from hornbeam.objectives.base import Objective
from hornbeam.objectives.compiled import OWNER, ScalarLoss
from hornbeam.objectives.distributions import Distribution
from hornbeam.params import Parameters

__all__ = ["Predictor"]

_SINGLE = np.dtype(np.float32)


class Predictor(ModelAccounts):
    """The part of a `Booster` that predicts, and changes nothing of its model."""

    params: Parameters
    objective: Objective
    _loss: ScalarLoss | None
    #: Trees laid out for prediction, until the model changes.
    _layouts: dict[tuple[Any, ...], Layout]
    #: The margins before the first tree, after what they were found by.
    _known_base: tuple[Objective, NDArray[np.float64], NDArray[np.float64]] | None = (
        None
    )

    def _aligned(self, data: DMatrix, validate_features: bool = True) -> DMatrix:
        """Return `data` with the columns and the category codes of the model."""
        if not isinstance(data, DMatrix):
            raise DataError(
                f"expected a DMatrix, got {type(data).__name__}; wrap it: "
                "DMatrix(data), or use inplace_predict",
                code=ErrorCode.NOT_A_DMATRIX,
            )
        if self.model.num_feature == 0:
            return data
        return data.like(self._expected(validate_features), self.params.unseen)

    def _expected(self, validate_features: bool) -> Schema:
        """Return the columns that the model reads; without names they go by place."""
        model = self.model
        return Schema(
            model.num_feature,
            model.feature_names if validate_features and model.feature_names else None,
            model.feature_types or None,
            model.categories,
        )

    def _feature_type(self, dtype: Any) -> Any:
        """Return the type in which features are compared with thresholds."""
        return np.dtype(dtype) if self.model.exact_features else _SINGLE

    def _layout(self, begin: int, end: int, dtype: Any) -> Layout:
        """Return trees `begin` to `end` laid out for features of type `dtype`."""
        key = (begin, end, self._feature_type(dtype))
        layout = self._layouts.get(key)
        if layout is None:
            weights = self.model.weights[begin:end]
            layout = self._layout_of(np.arange(begin, end), weights, dtype)
            self._layouts[key] = layout
        return layout

    def _layout_of(
        self,
        numbers: NDArray[np.intp],
        weights: NDArray[np.float32],
        dtype: Any,
        step: float = 0.0,
    ) -> Layout:
        """Return the trees of these numbers, with these weights, laid out."""
        kind, model = self._feature_type(dtype), self.model
        key = (numbers.tobytes(), weights.tobytes(), kind, step)
        layout = self._layouts.get(key)
        if layout is None:
            trees = [model.trees[number] for number in numbers]
            outputs = [model.tree_output[number] for number in numbers]
            layout = Layout.of(trees, outputs, kind, model.num_feature, weights, step)
            self._layouts[key] = layout
        return layout

    def _base(self) -> NDArray[np.float64]:
        """Return the margins before the first tree, (outputs,)."""
        objective, score = self.objective, self.model.base_score
        known = self._known_base
        if known is None or known[0] is not objective or known[1] is not score:
            score.flags.writeable = False  # what is known goes by which array it is
            known = objective, score, objective.to_margin(score)
            self._known_base = known
        return known[2]

    def _margins_of(
        self, data: DMatrix
    ) -> tuple[NDArray[np.float64], NDArray[np.float32], Scale | None]:
        """Return the margins of `data`, (rows, outputs), and how they came about.

        That is: the weights of the trees in them, and the scale of rounding, if any.
        """
        model = self.model
        margins = self._start(data)
        scale, step = None, 0.0
        if model.linear is not None:
            self._add_linear(data, margins)
        if model.tree_weights is not None:
            scale = Scale.of(margins, model.trees)
            margins, step = scale.rounded(margins), scale.step
        if model.trees:
            every = np.arange(len(model.trees))
            layout = self._layout_of(every, model.weights, data.dtype, step)
            with lease(self.params.nthread) as team:
                add_layout(team, data, layout, margins)
        return margins, model.weights, scale

    def _add_linear(self, data: Rows, margins: NDArray[np.float64]) -> None:
        linear = self.model.linear
        assert linear is not None
        kind = self._feature_type(data.dtype)
        with lease(self.params.nthread) as team:
            add_linear(team, data, linear.weights, kind, margins)

    def predict(
        self,
        data: DMatrix,
        *,
        output_margin: bool = False,
        pred_leaf: bool = False,
        pred_contribs: bool = False,
        approx_contribs: bool = False,
        pred_interactions: bool = False,
        validate_features: bool = True,
        training: bool = False,
        iteration_range: tuple[int, int] = (0, 0),
        strict_shape: bool = False,
    ) -> NDArray[Any]:
        """Return predictions: (rows,), or (rows, outputs) where there are several.

        Leaf values are added in float32 in the order of trees, as XGBoost does, and
        in float64 where float32 could not tell the labels apart.

        Parameters
        ----------
        data
            Columns as in training.
        output_margin
            Return margins instead of transformed predictions.
        pred_leaf
            Return the number of each row's leaf, (rows, trees); (rows,) of one tree.
        pred_contribs
            Return what each feature contributes to the margins, its Shapley value,
            and last what is predicted of rows of which nothing is known, base margin
            included: (rows, features + 1), or (rows, outputs, features + 1) of
            several. They add up to the margins.
        approx_contribs
            With `pred_contribs`: each feature contributes what the steps that ask for
            it change on the way down the trees (Saabas), which is faster, but unjust
            to features high up. With `pred_interactions`: the same on the diagonal.
        pred_interactions
            Return what each pair of features contributes together, half of it on
            either side, and on the diagonal what each does besides:
            (rows, features + 1, features + 1), or (rows, outputs, ...) of several.
        validate_features
            Whether names of columns must be those of training.
        training
            Leave out the trees of DART that the next round will leave out, which an
            objective of one's own has to know nothing of.
        iteration_range
            Rounds (begin, end); (0, 0) means all.
        strict_shape
            Return (rows, outputs) always, contributions with their outputs, and
            leaves as (rows, rounds, outputs, parallel trees); trees of all outputs are
            one.
        """
        explains = pred_contribs or pred_interactions
        if pred_leaf + pred_contribs + pred_interactions > 1:
            raise ParameterError(
                "pred_leaf, pred_contribs and pred_interactions are predictions of "
                "their own; ask for one at a time",
                code=ErrorCode.CONFLICTING_PREDICTION_TYPES,
            )
        if approx_contribs and not explains:
            raise ParameterError(
                "approx_contribs=True says how contributions are found; ask for them: "
                "pred_contribs=True, or pred_interactions=True",
                code=ErrorCode.INEFFECTIVE_PARAMETER,
            )
        self._need_model()
        begin, end = self._tree_range(iteration_range)
        if self.model.linear is not None:
            if pred_leaf:
                raise ParameterError(
                    "a model of booster='gblinear' has no leaves; leave pred_leaf out",
                    code=ErrorCode.UNSUPPORTED_COMBINATION,
                )
            check_features(data)
            data = self._aligned(data, validate_features)
            if explains:
                found = self._linear_contributions(data, pred_interactions)
                return found if strict_shape else squeezed(found)
            return self._predicted(data, data.base_margin, output_margin, strict_shape)
        data = self._aligned(data, validate_features)
        layout = self._layout(begin, end, data.dtype)
        dropout = self._next_dropout() if training else None
        if dropout is not None:
            if end - begin < len(self.model.trees):
                raise ParameterError(
                    "training=True leaves out trees of all rounds, so iteration_range "
                    "cannot name a part of them; leave one of the two out",
                    code=ErrorCode.CONFLICTING_PARAMETERS,
                )
            weights = dropout.during(self.model.weights)
            layout = self._layout_of(np.arange(end), weights, data.dtype)
        cells = None if explains else layout.cost(data.n_rows, data.n_features)
        with lease(self.params.nthread, cells) as team:
            if pred_leaf:
                leaves = leaves_of(team, data, layout)
                return self._shaped_leaves(leaves) if strict_shape else squeezed(leaves)
            if explains:
                found = contributions_of(
                    team,
                    data,
                    layout,
                    TreePaths.of(self.model.trees[begin:end], layout),
                    self._start(data),
                    self._score_type,
                    approximate=approx_contribs,
                    interactions=pred_interactions,
                )
                return found if strict_shape else squeezed(found)
            margins = start_margins(
                data.base_margin, self._base(), data.n_rows, self._score_type
            )
            add_layout(team, data, layout, margins)
            if not output_margin:
                self._need_transform()
                margins = self.objective.to_output(team, margins)
        return margins if strict_shape else squeezed(margins)

    def shap_values(
        self,
        data: DMatrix,
        background: DMatrix | None = None,
        *,
        validate_features: bool = True,
        iteration_range: tuple[int, int] = (0, 0),
        strict_shape: bool = False,
    ) -> NDArray[Any]:
        """Return what each feature contributes to the margins, its Shapley value.

        (rows, features + 1), or (rows, outputs, features + 1) of several outputs. The
        last is what is predicted where nothing is known of a row, and all of them add
        up to the margins.

        Parameters
        ----------
        data
            Columns as in training.
        background
            Rows that stand for what is not known, such as a sample of the training
            data; their weights count. What is not known of a row is then as in one of
            these, whatever goes with it (interventional Shapley values), and the last
            column is their mean margin, but for base margins. None: it is averaged by
            the cover of the trees, as `predict` does with `pred_contribs`.
        validate_features
            Whether names of columns must be those of training.
        iteration_range
            Rounds (begin, end); (0, 0) means all.
        strict_shape
            Return (rows, outputs, features + 1) always.
        """
        if background is None:
            return self.predict(
                data,
                pred_contribs=True,
                validate_features=validate_features,
                iteration_range=iteration_range,
                strict_shape=strict_shape,
            )
        self._need_model()
        begin, end = self._tree_range(iteration_range)
        rows = self._aligned(data, validate_features)
        others = self._aligned(background, validate_features)
        shares = shares_of(others.row_weights, others.n_rows)
        linear = self.model.linear
        if linear is not None:
            check_features(data)
            check_features(background)
        start = self._start(rows)
        with lease(self.params.nthread) as team:
            if linear is not None:
                kind = self._feature_type(rows.dtype)
                found = linear_contributions_against(
                    team, rows, others, shares, linear.weights, kind, start
                )
            else:
                # The background is read as the rows are, so that these add up.
                layout = self._layout(begin, end, rows.dtype)
                ways = TreePaths.of(self.model.trees[begin:end], layout)
                found = contributions_against(
                    team, rows, others, shares, layout, ways, start
                )
        found = found.astype(self._score_type)
        return found if strict_shape else squeezed(found)

    def predict_interval(
        self,
        data: DMatrix,
        level: float = 0.9,
        *,
        validate_features: bool = True,
        iteration_range: tuple[int, int] = (0, 0),
    ) -> NDArray[Any]:
        """Return intervals that hold the labels with this probability, (rows, 2).

        They are central: from the lower to the upper quantile of the distribution that
        is predicted for each row, with the same probability outside on either side. An
        interval of counts includes its ends, and may hold more.

        Parameters
        ----------
        data
            Columns as in training.
        level
            The probability, above 0 and below 1.
        validate_features
            Whether names of columns must be those of training.
        iteration_range
            Rounds (begin, end); (0, 0) means all.

        Raises
        ------
        ParameterError
            If `level` is no such probability, or the model predicts no distribution:
            that is what the objectives ``dist:*`` do.
        """
        if not 0.0 < level < 1.0:
            raise ParameterError(
                f"level must be above 0 and below 1, the probability of the interval, "
                f"not {level!r}",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
        objective = self.objective
        if not isinstance(objective, Distribution):
            raise ParameterError(
                f"objective={objective.name!r} predicts no distribution, and so no "
                "interval; train with 'dist:normal', 'dist:lognormal' or "
                "'dist:negbinomial'",
                code=ErrorCode.PREDICTION_UNSUPPORTED_BY_OBJECTIVE,
            )
        predictions = self.predict(
            data, validate_features=validate_features, iteration_range=iteration_range
        )
        outside = (1.0 - level) / 2.0
        return objective.quantiles(predictions, (outside, 1.0 - outside)).astype(
            predictions.dtype
        )

    def export(self, fname: str | os.PathLike[str], **options: Any) -> None:
        """Write the model for where Hornbeam is not.

        To ``.onnx``, ``.c`` or ``.py``, which cannot be loaded again, or to ``.json``
        or ``.ubj`` for readers of nothing but XGBoost's files. See
        `hornbeam.export.save`, which takes the options.
        """
        from hornbeam.export import save

        self._need_model()
        save(self, fname, **options)

    def _predicted(
        self,
        data: Rows,
        base_margin: NDArray[np.float64] | None,
        output_margin: bool,
        strict_shape: bool,
    ) -> NDArray[Any]:
        """Return what the linear model predicts."""
        sums = start_margins(base_margin, self._base(), data.n_rows, np.float64)
        self._add_linear(data, sums)
        margins = sums.astype(self._score_type)
        if not output_margin:
            with lease(self.params.nthread) as team:
                self._need_transform()
                margins = self.objective.to_output(team, margins)
        return margins if strict_shape else squeezed(margins)

    def _start(self, data: DMatrix) -> NDArray[np.float64]:
        return start_margins(data.base_margin, self._base(), data.n_rows, np.float64)

    def _linear_contributions(
        self, data: DMatrix, interactions: bool
    ) -> NDArray[np.floating]:
        linear = self.model.linear
        assert linear is not None
        with lease(self.params.nthread) as team:
            return linear_contributions_of(
                team,
                data,
                linear.weights,
                self._feature_type(data.dtype),
                self._start(data),
                self._score_type,
                interactions=interactions,
            )

    def _shaped_leaves(self, leaves: NDArray[Any]) -> NDArray[Any]:
        outputs, parallel = self.model.n_outputs, self.model.num_parallel_tree
        if self.model.leaf_size > 1:
            outputs = 1
        rows, trees = leaves.shape
        rounds = trees // (outputs * parallel)
        return leaves.reshape(rows, rounds, outputs, parallel)

    def inplace_predict(
        self,
        data: Any,
        *,
        iteration_range: tuple[int, int] = (0, 0),
        predict_type: str = "value",
        missing: float = np.nan,
        validate_features: bool = True,
        base_margin: Any = None,
        strict_shape: bool = False,
    ) -> NDArray[Any]:
        """Return predictions of an array or frame, without a DMatrix around it.

        Parameters
        ----------
        data
            Whatever a DMatrix takes.
        iteration_range
            Rounds (begin, end); (0, 0) means all.
        predict_type
            ``"value"``, or ``"margin"`` for margins.
        missing
            The number that stands for missing, besides NaN.
        validate_features
            Whether names of columns must be those of training.
        base_margin
            Where the sums start from, for each row, or each row and output.
        strict_shape
            Return (rows, outputs) always.
        """
        if predict_type not in ("value", "margin"):
            raise ParameterError(
                f"predict_type must be 'value' or 'margin', not {predict_type!r}",
                code=ErrorCode.UNKNOWN_OPTION,
            )
        self._need_model()
        table: Rows
        if self._is_plain(data, missing):
            table = PlainRows(data)
        else:
            table = align(
                self._table(data, missing, validate_features),
                self._expected(validate_features),
                self.params.unseen,
            )
        begin, end = self._tree_range(iteration_range)
        if base_margin is not None:
            base_margin = as_base_margin(base_margin, table.n_rows)
        if self.model.linear is not None:
            margin = predict_type == "margin"
            return self._predicted(table, base_margin, margin, strict_shape)
        margins = start_margins(
            base_margin, self._base(), table.n_rows, self._score_type
        )
        layout = self._layout(begin, end, table.dtype)
        cells = layout.cost(table.n_rows, table.n_features)
        with lease(self.params.nthread, cells) as team:
            add_layout(team, table, layout, margins)
            if predict_type == "value":
                self._need_transform()
                margins = self.objective.to_output(team, margins)
        return margins if strict_shape else squeezed(margins)

    def _table(self, data: Any, missing: float, validate_features: bool) -> Table:
        """Return the table of whatever a DMatrix takes, before its columns are."""
        return as_table(data, missing)

    def _is_plain(self, data: Any, missing: Any) -> bool:
        """Whether data is read as it is: for a single row, all else takes long."""
        model = self.model
        return (
            type(data) is np.ndarray
            and data.ndim == 2
            and data.shape[1] == model.num_feature
            and is_plain(data)
            and type(missing) is float
            and missing != missing
            and "c" not in model.feature_types
        )

    def _need_transform(self) -> None:
        """Raise an error if margins become predictions by a formula that is missing."""
        owner = self.model.attributes.get(OWNER)
        if owner is not None and self._loss is None:
            raise ParameterError(
                f"the predictions of this model need {owner}.transform, which a model "
                f"file does not hold; give it: booster.set_objective({owner}), or ask "
                "for margins",
                code=ErrorCode.CUSTOM_TRANSFORM_MISSING,
            )

    @property
    def _score_type(self) -> Any:
        return np.float64 if self.model.double_scores else np.float32

    def _next_dropout(self) -> Dropout | None:
        """Return what the next round leaves out; None unless this is DART."""
        if self.model.tree_weights is None:
            return None
        return Dropout.of_round(self.params, self.model)
