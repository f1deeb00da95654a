"""A model together with the data that an explanation evaluates it on."""

from __future__ import annotations

import copy
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from hornbeam.boosting.booster import Booster
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.schema import listed
from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.explain.columns import Column, columns_of, feature_number
from hornbeam.explain.node_text import Float64s
from hornbeam.explain.tree_reader import Boosted, booster_of, names_of
from hornbeam.kernels.team import lease
from hornbeam.objectives.distributions import Distribution
from hornbeam.objectives.quantiles import QuantileError

__all__ = ["Subject", "check_count", "check_option"]


def check_count(name: str, value: float) -> None:
    """Raise a `ParameterError` unless an argument is 1 or more."""
    if value < 1:
        raise ParameterError(
            f"{name} must be 1 or more, not {value}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )


def check_option(name: str, value: Any, options: Sequence[str]) -> None:
    """Raise a `ParameterError` unless an argument is one of the options."""
    if value not in options:
        raise ParameterError(
            f"{name} must be one of {', '.join(options)}, not {value!r}",
            code=ErrorCode.UNKNOWN_OPTION,
        )


class Subject:
    """A model on data: predictions, contributions, labels and names.

    Parameters
    ----------
    model
        A `Booster`, all of whose rounds are used, or a fitted estimator, whose
        rounds are used up to the best iteration if training found one.
    data
        A `DMatrix`, or anything that `DMatrix` accepts.
    labels
        Labels to use instead of those in the data: numbers, or classes of the
        estimator.
    margins
        Whether outputs are margins, before the objective's transformation.
    class_names
        Names of the outputs, or of two classes; None: the classes of the estimator.

    Attributes
    ----------
    booster
        The model itself.
    data
        The rows, with the columns and category codes of the model.
    rounds
        Rounds that are used for prediction, (begin, end).
    classes
        Names of the classes; None if unknown.
    """

    def __init__(
        self,
        model: Boosted,
        data: Any,
        labels: Any = None,
        class_names: Sequence[Any] | None = None,
        margins: bool = False,
    ) -> None:
        self._margins = margins
        self.booster = booster = booster_of(model)
        fitted = not isinstance(model, Booster)
        own = getattr(model, "classes_", None)
        names = own if class_names is None else class_names
        trained = booster.model
        if data is None:
            raise DataError(
                "there is no data; pass rows: a DMatrix, or what it takes",
                code=ErrorCode.EMPTY_DATA,
            )
        if not isinstance(data, DMatrix):
            told = model if fitted else None
            data = DMatrix(
                data,
                missing=getattr(told, "missing", None),
                feature_types=getattr(told, "feature_types", None),
            )
        if not data.num_row():
            raise DataError(
                "there are no rows in the data; give one at least",
                code=ErrorCode.EMPTY_DATA,
            )
        self.data = booster.aligned(data)
        self.rounds = booster.rounds_to_best() if fitted else (0, 0)
        self.classes = None if names is None else names_of(trained, names)
        self._labels = None if labels is None else self._as_labels(labels, own)

    def of_rows(self, rows: Any) -> Subject:
        """Return the same model on a subset of the rows."""
        part = self.of_data(self.data.slice(rows, allow_groups=True))
        if self._labels is not None:
            part._labels = self._labels[rows]
        return part

    def of_data(self, data: DMatrix) -> Subject:
        """Return the same model on other data with the same columns."""
        part = copy.copy(self)
        part.data = data
        return part

    def spread(self, most: int | None) -> Subject:
        """Return the same model on at most this many rows, evenly spaced."""
        n_rows = self.data.num_row()
        if most is not None:
            check_count("max_rows", most)
        if most is None or n_rows <= most:
            return self
        return self.of_rows(np.linspace(0, n_rows - 1, most).astype(np.intp))

    # Names

    @property
    def feature_names(self) -> list[str]:
        """Feature names of the model; f0, f1 and so on if it has none."""
        named = self.booster.feature_names or self.data.feature_names
        return named or [f"f{i}" for i in range(self.data.num_col())]

    def feature(self, asked: str | int) -> int:
        """Return the index of a feature that is given by name or index."""
        return feature_number(asked, self.feature_names)

    def columns(self, features: Sequence[int] | None = None) -> list[Column]:
        """Return the columns of features by index; of all features if None."""
        return columns_of(self.data, self.feature_names, features)

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs of the model."""
        n_outputs, objective = self.booster.model.n_outputs, self.booster.objective
        if self._margins and objective.margin_names:
            return list(objective.margin_names)
        if self.classes is not None:
            return self.classes[
                -n_outputs:
            ]  # with two classes the output belongs to the second
        if isinstance(objective, Distribution):
            return list(objective.parameter_names)
        if isinstance(objective, QuantileError):
            return [f"quantile {level:g}" for level in objective.levels]
        return [f"output {output}" for output in range(n_outputs)]

    def output_label(self, output: int) -> str:
        """Return the name of an output, "" for a single output without a name."""
        names = self.output_names
        return "" if len(names) == 1 and self.classes is None else names[output]

    def output(self, asked: str | int | None) -> int:
        """Return the index of an output that is given by name or index."""
        names = self.output_names
        if asked is None:
            if len(names) == 1:
                return 0
            raise ParameterError(
                f"the model has {len(names)} outputs, and this is of one: say of "
                f"which, output={names[0]!r} or its number ({listed(names)})",
                code=ErrorCode.AMBIGUOUS_OUTPUT,
            )
        if asked in names:
            return names.index(str(asked))
        if isinstance(asked, str) or not 0 <= operator.index(asked) < len(names):
            raise ParameterError(
                f"output={asked!r} is not an output of this model; it has "
                f"{listed(names)}",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
        return operator.index(asked)

    # Predictions and explanations, (rows, outputs)

    def predictions(self, *, margins: bool = False) -> Float64s:
        """Return predictions, or margins."""
        return self._asked(output_margin=margins)

    def values(self, *, margins: bool = False) -> Float64s:
        """Return the prediction of each output: probabilities for classes.

        With `margins`, return margins instead.
        """
        objective = self.booster.objective
        if (
            not margins
            and objective.prediction == "class"
            and objective.has_probabilities
        ):
            return self.probabilities()
        return self.predictions(margins=margins)

    def contributions(self) -> Float64s:
        """Return the SHAP values, (rows, outputs, features + 1)."""
        return self._asked(pred_contribs=True)

    def interactions(self) -> Float64s:
        """Return SHAP interactions, (rows, outputs, features + 1, features + 1)."""
        return self._asked(pred_interactions=True)

    def _asked(self, **options: bool) -> Float64s:
        found = self.booster.predict(
            self.data,
            validate_features=False,  # they have been
            iteration_range=self.rounds,
            strict_shape=True,
            **options,
        )
        return np.asarray(found, np.float64)

    def probabilities(self) -> Float64s:
        """Return the probability of each class, (rows, classes)."""
        model, objective = self.booster.model, self.booster.objective
        shares = model.objective == "reg:squarederror" and self.classes is not None
        if not objective.has_probabilities and not shares:
            raise ParameterError(
                f"objective={model.objective!r} predicts no probabilities of classes; "
                "train with binary:logistic or multi:softprob",
                code=ErrorCode.PREDICTION_UNSUPPORTED_BY_OBJECTIVE,
            )
        from_margins = not shares and objective.prediction != "probability"
        found = self.predictions(margins=from_margins)
        if from_margins:
            with lease(self.booster.params.nthread) as team:
                found = objective.class_probabilities(team, found)
        if shares and found.shape[1] > 1:
            found /= found.sum(axis=1, keepdims=True)
        if shares:
            found = np.clip(found, 0.0, 1.0)
        if model.num_class == 0 and found.shape[1] == 1:
            found = np.concatenate([1.0 - found, found], axis=1)
        return found

    @property
    def class_names(self) -> list[str]:
        """Names of the classes; their indices if there are none."""
        n_classes = max(2, self.booster.model.n_outputs)
        return self.classes or [str(k) for k in range(n_classes)]

    # Labels and weights

    @property
    def labels(self) -> Float64s:
        """The labels, (rows,) or (rows, targets)."""
        labels = self.data.labels if self._labels is None else self._labels
        if labels is None:
            raise DataError(
                "predictions are to be compared with labels, and the data has none; "
                "pass labels, or DMatrix(data, label)",
                code=ErrorCode.META_INFO_MISSING,
            )
        return labels

    @property
    def weights(self) -> Float64s | None:
        """The sample weights, None if there are none."""
        return self.data.row_weights

    def _as_labels(self, labels: Any, classes: Any) -> Float64s:
        """Return labels as numbers, with classes as their indices."""
        given = np.asarray(labels)
        n_rows = self.data.num_row()
        if len(given) != n_rows:
            raise DataError(
                f"there are {len(given)} labels for {n_rows} rows; give one for each",
                code=ErrorCode.EVALUATION_SIZE_MISMATCH,
            )
        if classes is None:
            beside = DMatrix(np.zeros((n_rows, 1)), label=labels)
            assert beside.labels is not None
            return beside.labels
        places = {label: place for place, label in enumerate(np.asarray(classes))}
        try:
            return np.array([places[label] for label in given.ravel().tolist()], float)
        except KeyError as error:
            raise DataError(
                f"the label {error.args[0]!r} is not a class of the estimator; it has "
                f"{listed(map(str, places))}",
                code=ErrorCode.LABEL_NOT_IN_TRAINING,
            ) from None
