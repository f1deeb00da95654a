"""A trained model as arrays, the common input of all exporters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.floats import nearest
from hornbeam.data.schema import DURATION, time_zone
from hornbeam.errors import ErrorCode, NotTrainedError, ParameterError
from hornbeam.export.links import link_of
from hornbeam.features.derived import DerivedFeatures
from hornbeam.features.formulas import names_of
from hornbeam.forest.layout import weighted_leaf_values
from hornbeam.forest.model import Model
from hornbeam.forest.tree import (
    LeafTerms,
    concatenate_trees,
    deleted_nodes,
    joined_terms,
    with_equal_leaves,
)
from hornbeam.objectives.base import Link, Objective

__all__ = ["Exportable", "ExportedModel", "Nodes", "model_of"]


class HasModel(Protocol):
    """A booster."""

    @property
    def model(self) -> Model:
        """The trees, or the linear model."""

    @property
    def objective(self) -> Objective:
        """Turns margins into predictions."""


class HasBooster(Protocol):
    """A fitted estimator."""

    def get_booster(self) -> Any:
        """Return the trained model."""


#: A booster, or the estimator that has trained one.
Exportable: TypeAlias = HasModel | HasBooster


@dataclass(frozen=True, slots=True)
class Nodes:
    """The concatenated nodes of all trees, without pruned nodes.

    Attributes
    ----------
    roots, outputs
        (trees,): the index of each root, and the output that the tree adds to.
    left
        The index of the left child, which the right child follows; -1 for leaves.
    feature
        The feature of a split; 0 for leaves.
    threshold
        float64: smaller values go left; NaN for leaves and categorical splits.
    missing_right
        Whether missing values go right.
    by_category
        Whether a split is categorical.
    categories
        int32: the concatenated category codes that go right at categorical splits.
    category_starts
        (nodes + 1,): the start of each node's codes in `categories`.
    values
        float32, (nodes, 1), or (nodes, outputs) with vector leaves: the values that
        leaves add to the margins.
    terms
        Of linear leaves, node after node, with numbers of features; None: all leaves
        are constants.
    """

    roots: NDArray[np.int64]
    outputs: NDArray[np.int64]
    left: NDArray[np.int64]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    missing_right: NDArray[np.bool_]
    by_category: NDArray[np.bool_]
    categories: NDArray[np.int32]
    category_starts: NDArray[np.int64]
    values: NDArray[np.float32]
    terms: LeafTerms | None = None

    @classmethod
    def of(cls, model: Model) -> Nodes:
        """Return the nodes of a model that has trees."""
        trees = with_equal_leaves(model.trees, model.tree_output)
        joined, starts = concatenate_trees(trees)
        roots, sizes = starts[:-1], np.diff(starts)
        kept = ~deleted_nodes(joined, roots)
        place = np.cumsum(kept) - 1
        is_leaf = joined.left < 0
        children = np.where(is_leaf, 0, joined.left + np.repeat(roots, sizes))
        weights = np.repeat(model.weights, sizes)[:, np.newaxis]
        values = weighted_leaf_values(joined.value.reshape(kept.size, -1), weights, 0.0)
        kind = np.float64 if model.exact_features else np.float32
        threshold = nearest(joined.threshold, kind).astype(np.float64)
        terms = joined_terms(trees)
        return cls(
            roots=place[roots],
            outputs=np.array(model.tree_output, np.int64),
            left=np.where(is_leaf, -1, place[children])[kept],
            feature=np.where(is_leaf, 0, joined.feature)[kept],
            threshold=threshold[kept],
            missing_right=(~is_leaf & (joined.default_left == 0))[kept],
            by_category=(joined.split_type != 0)[kept],
            categories=joined.categories,
            category_starts=np.append(
                joined.category_starts[:-1][kept], joined.categories.size
            ),
            values=values[kept],
            terms=terms and terms._replace(counts=terms.counts[kept]),
        )

    @property
    def is_leaf(self) -> NDArray[np.bool_]:
        return self.left < 0

    @property
    def has_vector_leaves(self) -> bool:
        """Whether leaves have one value per output."""
        return self.values.shape[1] > 1

    def codes(self, node: int) -> list[int]:
        """Return the category codes that go right at a categorical split."""
        first, last = self.category_starts[node : node + 2]
        codes: list[int] = self.categories[first:last].tolist()
        return codes


def _clock(kind: str) -> str:
    if kind == DURATION:
        return "seconds"
    zone = time_zone(kind)
    of_zone = "" if zone is None else f" of {zone}"
    return f"seconds since 1970 on the clock{of_zone}"


@dataclass(frozen=True, slots=True)
class ExportedModel:
    """The part of a model that predictions need.

    Attributes
    ----------
    feature_names
        The names of the columns of the data; f0, f1, ... if they have none.
    feature_types
        ``"c"`` for categories, and XGBoost's types for other features.
    categories
        The category names of each feature, in the order of their codes; None for
        features without names of categories.
    derived
        The formulas of further features, which trees read after these; None: there are
        none.
    unseen_missing
        Whether an unseen category is a missing value. If not, it is an error.
    nodes
        The trees; None for a linear model.
    weights
        (features + 1, outputs) float32 of a linear model, the biases last; else None.
    base
        (outputs,) float64: the initial margins.
    exact_features
        Whether features are compared as float64. If not, they are rounded to float32.
    double_scores
        Whether margins are float64.
    link
        The link function from margins to predictions.
    classes
        The class labels of a classifier, by class index; their dtype is object (for
        strings), bool, int64 or float64. None for other models.
    objective
        The name of the objective.
    """

    feature_names: list[str]
    feature_types: list[str]
    categories: list[list[Any] | None]
    derived: DerivedFeatures | None
    unseen_missing: bool
    nodes: Nodes | None
    weights: NDArray[np.float32] | None
    base: NDArray[np.float64]
    exact_features: bool
    double_scores: bool
    link: Link
    classes: NDArray[Any] | None
    objective: str

    @classmethod
    def of(
        cls,
        exported: Exportable,
        output_margin: bool = False,
        iteration_range: Sequence[int] = (0, 0),
    ) -> ExportedModel:
        """Return the exported model of a booster or a fitted estimator.

        Parameters
        ----------
        exported
            The booster or estimator. An estimator adds its class labels, and with early
            stopping leaves out the rounds after the best iteration.
        output_margin
            Whether predictions are margins.
        iteration_range
            Rounds (begin, end) of a booster; (0, 0) means all.
        """
        booster, classes = _booster_of(exported)
        model = model_of(exported, iteration_range)
        if classes is None and _predicts_classes(booster.objective):
            classes = np.arange(max(2, model.n_outputs))
        if classes is not None:
            classes = _exportable_labels(classes, max(2, model.n_outputs))
        link = Link("identity")
        if not output_margin:
            is_classifier = booster is not exported and classes is not None
            link = link_of(booster.objective, model.attributes, is_classifier)
        raw = model.raw_schema
        features = range(raw.n_features)
        levels = [raw.categories.of(feature) for feature in features]
        return cls(
            feature_names=names_of(raw),
            feature_types=raw.types or ["float" for _ in features],
            derived=model.derived,
            categories=[None if own is None else own.tolist() for own in levels],
            unseen_missing=model.unseen_missing,
            nodes=None if model.linear is not None else Nodes.of(model),
            weights=None if model.linear is None else model.linear.weights,
            base=booster.objective.to_margin(model.base_score),
            exact_features=model.exact_features,
            double_scores=model.double_scores,
            link=link,
            classes=None if output_margin else classes,
            objective=model.objective,
        )

    @property
    def n_features(self) -> int:
        return len(self.feature_names)

    @property
    def n_values(self) -> int:
        """The number of features that trees read, with the derived ones."""
        more = 0 if self.derived is None else len(self.derived.formulas)
        return self.n_features + more

    @property
    def times(self) -> dict[int, str]:
        """How to give each time, by feature: seconds since when, on which clock."""
        found = {} if self.derived is None else self.derived.times
        return {feature: _clock(kind) for feature, kind in found.items()}

    @property
    def n_outputs(self) -> int:
        """The number of margins per row."""
        return self.base.size

    @property
    def is_categorical(self) -> list[bool]:
        """Whether each feature is categorical."""
        return [
            kind == "c" or levels is not None
            for kind, levels in zip(self.feature_types, self.categories, strict=True)
        ]


def model_of(exported: Exportable, iteration_range: Sequence[int]) -> Model:
    """Return a slice of rounds of a trained model.

    The arguments are those of `ExportedModel.of`.
    """
    booster, _ = _booster_of(exported)
    model: Model = booster.model
    if model.num_feature == 0 or not (model.trees or model.linear is not None):
        raise NotTrainedError(
            "the model is not trained; train it, or use load_model, before an export",
            code=ErrorCode.NOT_TRAINED,
        )
    begin, end = iteration_range
    best = model.attributes.get("best_iteration")
    if booster is not exported and best is not None and model.linear is None:
        end = end or int(best) + 1
    if (begin, end) == (0, 0):
        return model
    return model.slice(begin, end or model.n_rounds)


def _booster_of(exported: Any) -> tuple[Any, NDArray[Any] | None]:
    """Return the booster, and the class labels if an estimator has them."""
    if hasattr(exported, "get_booster"):
        classes = getattr(exported, "classes_", None)
        return exported.get_booster(), None if classes is None else np.asarray(classes)
    if not hasattr(exported, "model"):
        raise ParameterError(
            "the exported model must be a Booster or an estimator of Hornbeam, not a "
            f"{type(exported).__name__}",
            code=ErrorCode.NOT_A_MODEL,
        )
    return exported, None


def _predicts_classes(objective: Objective) -> bool:
    """Return whether the model is a classifier with classes 0, 1, ... ."""
    return (
        objective.task in ("binary", "classes")
        and objective.has_probabilities
        and objective.prediction != "margin"
    )


def _exportable_labels(classes: NDArray[Any], n_classes: int) -> NDArray[Any]:
    """Return the labels of `n_classes` classes, in a dtype that can be exported."""
    if len(classes) != n_classes:
        raise ParameterError(
            f"the estimator was fitted to {len(classes)} class, which cannot be "
            "exported; fit it to two classes or more",
            code=ErrorCode.NOT_EXPORTABLE,
        )
    kind = classes.dtype.kind
    if kind in "OUT" and all(isinstance(label, str) for label in classes):
        return classes.astype(object)
    if kind in "biuf":
        return classes.astype({"b": bool, "f": np.float64}.get(kind, np.int64))
    raise ParameterError(
        f"labels such as {classes.tolist()[0]!r} cannot be exported; train with labels "
        "that are all strings or all numbers",
        code=ErrorCode.NOT_EXPORTABLE,
    )
