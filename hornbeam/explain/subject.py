"""A model and the rows that a picture asks it about."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from hornbeam.boosting.booster import Booster
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.schema import Schema, listed
from hornbeam.errors import DataError, ParameterError
from hornbeam.explain.columns import Column
from hornbeam.explain.reading import Boosted, booster_of, names_of
from hornbeam.explain.words import Float64s
from hornbeam.kernels.team import lease
from hornbeam.objectives.base import create
from hornbeam.objectives.classification import PROBABILITIES
from hornbeam.objectives.distributions import Distribution
from hornbeam.objectives.quantiles import QuantileError
from hornbeam.params import Parameters

__all__ = ["Subject"]

#: Objectives whose predictions are, or can be made, probabilities of classes.
_OF_CLASSES = {
    "binary:focal",
    "binary:logistic",
    "multi:softprob",
    "reg:logistic",
    *PROBABILITIES,
}


class Subject:
    """What a model says of rows, and what is known of them.

    Parameters
    ----------
    model
        A `Booster`, whose rounds all count, or an estimator that has been fitted, whose
        rounds count up to the best if training found one.
    data
        A `DMatrix`, or whatever it takes.
    labels
        Instead of those of the data: as the learner takes them, or of the estimator's
        classes.
    class_names
        A name for each output, or for two classes; the estimator's own if None.

    Attributes
    ----------
    booster
        The model itself.
    data
        The rows, with the columns and the codes of the model.
    rounds
        Those that predict, (begin, end).
    classes
        The names of classes; None if they are not known.
    """

    def __init__(
        self,
        model: Boosted,
        data: Any,
        labels: Any = None,
        class_names: Sequence[Any] | None = None,
    ) -> None:
        self.booster = booster = booster_of(model)
        fitted = not isinstance(model, Booster)
        own = getattr(model, "classes_", None)
        names = own if class_names is None else class_names
        trained = booster.model
        if not isinstance(data, DMatrix):
            data = DMatrix(
                data,
                missing=getattr(model, "missing", None),
                feature_types=getattr(model, "feature_types", None),
            )
        by_name = trained.feature_names and (data.feature_names or not fitted)
        expected = Schema(
            trained.num_feature or data.num_col(),
            trained.feature_names if by_name else None,
            trained.feature_types or None,
            trained.categories,
        )
        self.data = data.like(expected, booster.params.unseen)
        self.rounds = booster.rounds_to_best() if fitted else (0, 0)
        self.classes = None if names is None else names_of(trained, names)
        self._labels = None if labels is None else self._as_labels(labels, own)

    # Names

    @property
    def feature_names(self) -> list[str]:
        """Names of the model's columns; f0, f1 and so on if there are none."""
        named = self.booster.feature_names or self.data.feature_names
        return named or [f"f{i}" for i in range(self.data.num_col())]

    def feature(self, asked: str | int) -> int:
        """Return the number of a column, asked for by its name or its number."""
        names = self.feature_names
        if isinstance(asked, str):
            if asked not in names:
                raise ParameterError(
                    f"{asked!r} is not a feature of this model; it has {listed(names)}"
                )
            return names.index(asked)
        return _place(asked, len(names), "feature")

    def column(self, asked: str | int) -> Column:
        """Return the values of a feature."""
        feature = self.feature(asked)
        chosen = np.array([feature], np.intp)
        values = self.data.rows(0, self.data.num_row(), chosen)[:, 0]
        return Column(
            self.feature_names[feature],
            values.astype(np.float64),
            self._levels(feature, values),
        )

    def _levels(self, feature: int, codes: Any) -> list[str] | None:
        schema = self.data.schema
        levels = schema.categories.of(feature)
        if levels is not None:
            return [str(level) for level in levels]
        if schema.types is None or schema.types[feature] != "c":
            return None
        known = codes[np.isfinite(codes)]
        return [str(code) for code in range(1 + int(known.max(initial=-1.0)))]

    @property
    def output_names(self) -> list[str]:
        """What the outputs of the model are of."""
        n_outputs, objective = self.booster.model.n_outputs, self.booster.objective
        if self.classes is not None:
            return self.classes[-n_outputs:]  # of two classes the second has the output
        if isinstance(objective, Distribution):
            return list(objective.parameter_names)
        if isinstance(objective, QuantileError):
            return [f"quantile {level:g}" for level in objective.levels]
        return [f"output {output}" for output in range(n_outputs)]

    def output_label(self, output: int) -> str:
        """Return the name of an output, "" of one alone that has no name of its own."""
        names = self.output_names
        return "" if len(names) == 1 and self.classes is None else names[output]

    def output(self, asked: str | int | None) -> int:
        """Return the number of an output, asked for by its name or its number."""
        names = self.output_names
        if asked is None:
            if len(names) == 1:
                return 0
            raise ParameterError(
                f"the model has {len(names)} outputs, and this is of one: say of "
                f"which, output={names[0]!r} or its number ({listed(names)})"
            )
        if asked in names:
            return names.index(str(asked))
        if isinstance(asked, str):
            raise ParameterError(
                f"output={asked!r} is not an output of this model; it has "
                f"{listed(names)}"
            )
        return _place(asked, len(names), "output")

    # What the model says, (rows, outputs)

    def predictions(self, *, margins: bool = False) -> Float64s:
        """Return predictions, or margins."""
        return self._asked(output_margin=margins)

    def contributions(self) -> Float64s:
        """Return what each feature contributes, (rows, outputs, features + 1)."""
        return self._asked(pred_contribs=True)

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
        model = self.booster.model
        shares = model.objective == "reg:squarederror" and self.classes is not None
        if model.objective not in _OF_CLASSES and not shares:
            raise ParameterError(
                f"objective={model.objective!r} predicts no probabilities of classes; "
                "train with binary:logistic or multi:softprob"
            )
        objective = PROBABILITIES.get(model.objective)
        found = self.predictions(margins=objective is not None)
        if objective is not None:
            params = {"objective": objective, "num_class": model.num_class}
            link = create(Parameters.resolve(params))
            with lease(self.booster.params.nthread) as team:
                found = link.transform(team, found)
        if shares:
            found = np.clip(found, 0.0, 1.0)
        if model.num_class == 0 and found.shape[1] == 1:
            found = np.concatenate([1.0 - found, found], axis=1)
        return found

    @property
    def class_names(self) -> list[str]:
        """Names of the classes; their numbers if there are none."""
        n_classes = max(2, self.booster.model.n_outputs)
        return self.classes or [str(k) for k in range(n_classes)]

    # What is known of the rows

    @property
    def labels(self) -> Float64s:
        """The labels, (rows,) or (rows, targets)."""
        labels = self.data.labels if self._labels is None else self._labels
        if labels is None:
            raise DataError(
                "predictions are to be compared with labels, and the data has none; "
                "pass labels, or DMatrix(data, label)"
            )
        return labels

    @property
    def weights(self) -> Float64s | None:
        """The weights of rows, None if they all count as one."""
        return self.data.row_weights

    def _as_labels(self, labels: Any, classes: Any) -> Float64s:
        """Return labels as the learner takes them."""
        given = np.asarray(labels)
        n_rows = self.data.num_row()
        if len(given) != n_rows:
            raise DataError(
                f"there are {len(given)} labels for {n_rows} rows; give one for each"
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
                f"{listed(map(str, places))}"
            ) from None


def _place(asked: Any, count: int, name: str) -> int:
    """Return a number from 0 to below `count`."""
    try:
        place = operator.index(asked)
    except TypeError:
        place = -1
    if not 0 <= place < count:
        raise ParameterError(
            f"{name}={asked!r} is not one of this model; give a name, or a number from "
            f"0 to {count - 1}"
        )
    return place
