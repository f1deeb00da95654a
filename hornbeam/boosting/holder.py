"""What a trained model holds beside its trees: columns, attributes, and its files."""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence

from hornbeam.data.categories import Categories
from hornbeam.data.schema import check_names, check_types
from hornbeam.errors import ErrorCode, NotTrainedError, ParameterError
from hornbeam.forest.model import Model
from hornbeam.forest.model_file import digest, encode, save

__all__ = ["ModelHolder"]


class ModelHolder:
    """The part of a `Booster` that reads and writes its model, and never trains it."""

    model: Model

    def num_boosted_rounds(self) -> int:
        """Return the number of rounds."""
        return self.model.n_rounds

    def num_features(self) -> int:
        """Return the number of columns that the model reads."""
        return self.model.num_feature

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the columns; None if they have none."""
        return list(self.model.feature_names) or None

    @feature_names.setter
    def feature_names(self, names: Sequence[str] | None) -> None:
        self.model.feature_names = check_names(names, self.model.num_feature) or []

    @property
    def feature_types(self) -> list[str] | None:
        """Types of the columns; None if they are not known."""
        return list(self.model.feature_types) or None

    @feature_types.setter
    def feature_types(self, types: Sequence[str] | None) -> None:
        self.model.feature_types = check_types(types, self.model.num_feature) or []

    def get_categories(self, export_to_arrow: bool = False) -> Categories:
        """Return the categories that the model knows, by name.

        `export_to_arrow` is taken for XGBoost's sake: `Categories.to_arrow` always
        works.
        """
        return self.model.categories

    def digest(self) -> str:
        """Return the hash of the model's bytes: equal models have equal digests."""
        return digest(self.model)

    def save_model(self, fname: str | os.PathLike[str]) -> None:
        """Write the model for Hornbeam and XGBoost: ``.json``, or ``.ubj`` otherwise.

        The file is complete or, whatever happens, left as it was.
        """
        save(self.model, fname)

    def save_raw(self, raw_format: str = "ubj") -> bytearray:
        """Return the bytes of a model file, ``"ubj"`` or ``"json"``."""
        return bytearray(encode(self.model, raw_format))

    def attr(self, key: str) -> str | None:
        """Return an attribute, or None."""
        return self.model.attributes.get(key)

    def attributes(self) -> dict[str, str]:
        """Return all attributes."""
        return dict(self.model.attributes)

    def set_attr(self, **attributes: str | None) -> None:
        """Set attributes, which are saved with the model; None takes one away."""
        for name, value in attributes.items():
            if value is None:
                self.model.attributes.pop(name, None)
            elif isinstance(value, str):
                self.model.attributes[name] = value
            else:
                raise ParameterError(
                    f"attribute {name!r} must be a string, not "
                    f"{type(value).__name__}; pass str(value)",
                    code=ErrorCode.INVALID_PARAMETER_TYPE,
                )

    @property
    def best_iteration(self) -> int:
        """The best round of training with early stopping."""
        return int(self._early_stopping("best_iteration"))

    @property
    def best_score(self) -> float:
        """The score of the best round of training with early stopping."""
        return float(self._early_stopping("best_score"))

    def _early_stopping(self, name: str) -> str:
        value = self.model.attributes.get(name)
        if value is None:
            raise AttributeError(
                f"`{name}` is only defined when early stopping is used: train with "
                "early_stopping_rounds"
            )
        return value

    def rounds_to_best(self) -> tuple[int, int]:
        """Return the rounds (begin, end) up to the best, if training found one.

        Else (0, 0), which is all. A linear model has no part of its rounds.
        """
        best = self.model.attributes.get("best_iteration")
        if best is None or self.model.linear is not None:
            return 0, 0
        return 0, int(best) + 1

    # For prediction

    def _tree_range(self, rounds: tuple[int, int]) -> tuple[int, int]:
        """Return the first tree of `rounds` and the one after their last."""
        n_rounds = self.model.n_rounds
        try:
            begin, end = map(operator.index, rounds)
        except (TypeError, ValueError):
            raise ParameterError(
                "iteration_range must be two whole numbers (begin, end), "
                f"not {rounds!r}",
                code=ErrorCode.INVALID_ITERATION_RANGE,
            ) from None
        end = end or n_rounds
        if self.model.linear is not None and (begin, end) != (0, n_rounds):
            raise ParameterError(
                "a model of booster='gblinear' changes as a whole, so that "
                f"iteration_range={tuple(rounds)} cannot name a part of its "
                f"{n_rounds} rounds; leave it out",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )
        if not 0 <= begin <= end <= n_rounds or (begin == end and n_rounds > 0):
            raise ParameterError(
                f"iteration_range={tuple(rounds)} is not a part of the model's "
                f"{n_rounds} rounds; give (begin, end) with "
                f"0 <= begin < end <= {n_rounds}, or (0, 0) for all",
                code=ErrorCode.ITERATION_RANGE_OUT_OF_BOUNDS,
            )
        if self.model.linear is not None:
            return 0, 0
        return self.model.round_starts[begin], self.model.round_starts[end]

    def _need_model(self) -> None:
        if self.model.num_feature == 0:
            raise NotTrainedError(
                "this Booster has neither been trained nor loaded; train it, or use "
                "load_model",
                code=ErrorCode.EMPTY_BOOSTER,
            )
