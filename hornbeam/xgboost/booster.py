"""The booster with XGBoost's manners: its types, its warnings, and when it checks."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.boosting.booster import Booster as _Booster
from hornbeam.data.dmatrix import DMatrix
from hornbeam.errors import DataError, ParameterError
from hornbeam.params import ParameterSource
from hornbeam.xgboost.configuration import configuration, parameters_in, values_in
from hornbeam.xgboost.objective import as_function
from hornbeam.xgboost.parameters import gathered, told, unused

__all__ = ["Booster"]


class Booster(_Booster):
    """Gradient boosted trees with their parameters.

    What is set is looked at when it is first needed, in one go, so that the order of
    `set_param` does not matter; a parameter that has no part in the model is then told
    in a warning. Predictions are float32.

    Parameters
    ----------
    params
        Parameters of training, as a mapping or as pairs of name and value.
    cache
        Matrices that training will use.
    model_file
        A model to begin with: a path, the bytes of a file, or another booster.
    """

    def __init__(
        self,
        params: ParameterSource | None = None,
        cache: Sequence[DMatrix] | None = None,
        model_file: _Booster | bytearray | os.PathLike[str] | str | None = None,
    ) -> None:
        for data in cache or ():
            if not isinstance(data, DMatrix):
                raise TypeError(f"Invalid cache item: {type(data).__name__}")
        #: What has been set, by XGBoost's names, and what of it was told to be unused.
        self._given: dict[str, Any] = {}
        self._settled = True
        super().__init__(None, cache)
        if isinstance(model_file, Booster):
            self._given = dict(model_file._given)
            model_file._settle()
        if isinstance(model_file, _Booster):
            self._take(model_file.model.copy(), model_file.params, model_file._loss)
        elif model_file is not None:
            self.load_model(model_file)
        self.set_param(params or {})

    # Parameters

    def set_param(
        self,
        params: Mapping[str, Any] | Iterable[tuple[str, Any]] | str,
        value: Any = None,
    ) -> None:
        """Change parameters: a mapping, pairs, or a name and its value.

        Metrics are added to those that are there.
        """
        for name, item in gathered(params, value):
            if name == "eval_metric":
                more = [item] if isinstance(item, str) else list(item)
                before = self._given.get(name, [])
                item = [*before, *(metric for metric in more if metric not in before)]
            self._given[name] = item
            self._settled = False

    def _settle(self) -> None:
        """Look at what has been set since it was last looked at."""
        if self._settled:
            return
        super().set_param(told(self._given))
        self._settled = True
        if self.params.verbosity > 0 and _true(self._given, "validate_parameters"):
            names = unused(self._given, dict(parameters_in(self._configuration())))
            if names:
                listed = ", ".join(f'"{name}"' for name in names)
                warnings.warn(
                    f"WARNING: \nParameters: {{ {listed} }} are not used.\n",
                    UserWarning,
                    stacklevel=4,
                )

    def _configuration(self) -> dict[str, Any]:
        return configuration(self, self._given)

    def save_config(self) -> str:
        """Return all parameters, as they are resolved, as JSON with XGBoost's names."""
        self._settle()
        return json.dumps(self._configuration())

    def load_config(self, config: str) -> None:
        """Take the parameters that `save_config` has told of another booster."""
        self._given.update(values_in(json.loads(config)))
        self._settled = False

    # Training

    def update(self, dtrain: DMatrix, iteration: int, fobj: Any = None) -> None:
        """Add one round of trees.

        Parameters
        ----------
        dtrain
            Data with labels.
        iteration
            Number of the round, which an `Objective` gets.
        fobj
            An objective of your own: a function of (predictions, data), an
            `Objective`, or formulas.
        """
        if not isinstance(dtrain, DMatrix):
            raise TypeError(f"Invalid training matrix: {type(dtrain).__name__}")
        self._settle()
        self._validate_features(dtrain.feature_names)
        super().update(dtrain, iteration, as_function(fobj, iteration))

    def boost(
        self,
        dtrain: DMatrix,
        iteration: int,
        *,
        grad: Any = None,
        hess: Any = None,
        fobj: Any = None,
    ) -> None:
        """Add one round of trees from your own gradients and hessians.

        Parameters
        ----------
        dtrain
            Data; its labels are not looked at.
        iteration
            Number of the round, which an `Objective` gets.
        grad, hess
            (rows,) or (rows, outputs).
        fobj
            A function or an `Objective` that gives both, instead.
        """
        self._settle()
        if fobj is not None:
            if grad is not None or hess is not None:
                raise ParameterError(
                    "Provide either the objective, or the gradient and hessian, not "
                    "both."
                )
            self.update(dtrain, iteration, fobj)
            return
        super().boost(dtrain, iteration, grad=grad, hess=hess)

    # Evaluation

    def eval_set(
        self,
        evals: Sequence[tuple[DMatrix, str]],
        iteration: int = 0,
        feval: Any = None,
        output_margin: bool = True,
    ) -> str:
        r"""Return a line such as ``"[0]\ttrain-rmse:0.5\tvalid-rmse:0.6"``.

        Parameters
        ----------
        evals
            Data with labels, and the name of each.
        iteration
            The number in brackets.
        feval
            A metric of your own, besides the parameter's.
        output_margin
            Whether `feval` gets margins instead of predictions.
        """
        self._settle()
        for data, name in evals:
            if not isinstance(data, DMatrix):
                raise TypeError(f"expected DMatrix, got {type(data).__name__}")
            if not isinstance(name, str):
                raise TypeError(f"expected string, got {type(name).__name__}")
            self._validate_features(data.feature_names)
        own = len(self.metrics)
        told = [f"[{iteration}]"]
        for data, name in evals:
            scores = self.measure([(data, name)], feval, output_margin)
            told += [f"{key}:{value:.17g}" for key, value in scores[:own]]
            told += [f"{key}:{value:f}" for key, value in scores[own:]]
        return "\t".join(told)

    # Prediction

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
    ) -> npt.NDArray[np.float32]:
        """Return predictions in float32; see `hornbeam.Booster.predict`."""
        if not isinstance(data, DMatrix):
            raise TypeError(f"Expecting data to be a DMatrix object, got: {type(data)}")
        self._settle()
        if validate_features:
            self._validate_features(data.feature_names)
        kinds = output_margin + pred_leaf + pred_contribs + pred_interactions
        if kinds > 1:
            raise ParameterError("One type of prediction at a time.")
        explains = pred_contribs or pred_interactions
        found = super().predict(
            data,
            output_margin=output_margin,
            pred_leaf=pred_leaf,
            pred_contribs=pred_contribs,
            approx_contribs=approx_contribs and explains,
            pred_interactions=pred_interactions,
            validate_features=validate_features,
            training=training,
            iteration_range=iteration_range,
            strict_shape=strict_shape,
        )
        return found.astype(np.float32, copy=False)

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
    ) -> npt.NDArray[np.float32]:
        """Return predictions of an array or frame, in float32."""
        self._settle()
        found = super().inplace_predict(
            data,
            iteration_range=iteration_range,
            predict_type=predict_type,
            missing=missing,
            validate_features=validate_features,
            base_margin=base_margin,
            strict_shape=strict_shape,
        )
        return found.astype(np.float32, copy=False)

    def _validate_features(self, names: Sequence[str] | None) -> None:
        """Raise a `DataError` unless data has the names of the model, in its order."""
        expected = self.feature_names
        if expected is None or names == expected:
            return
        if names is None:
            raise DataError(
                "data did not contain feature names, but the following fields are "
                f"expected: {', '.join(expected)}"
            )
        message = f"feature_names mismatch: {expected} {list(names)}"
        lost = [name for name in expected if name not in names]
        more = [name for name in names if name not in expected]
        if lost:
            message += f"\nexpected {', '.join(lost)} in input data"
        if more:
            message += (
                f"\ntraining data did not have the following fields: {', '.join(more)}"
            )
        raise DataError(message)

    # Files and copies

    def load_model(self, fname: str | os.PathLike[str] | bytes | bytearray) -> None:
        """Replace this model by that of a file, or of the bytes of one."""
        if not isinstance(fname, str | os.PathLike | bytes | bytearray):
            raise TypeError(f"Unknown file type: {fname!r}")
        if isinstance(fname, str | os.PathLike):
            fname = os.path.expanduser(fname)
        super().load_model(fname)

    def save_model(self, fname: str | os.PathLike[str]) -> None:
        """Write the model for Hornbeam and XGBoost: ``.json``, or ``.ubj`` otherwise.

        The file is complete or, whatever happens, left as it was.
        """
        if not isinstance(fname, str | os.PathLike):
            raise TypeError("fname must be a string or os PathLike")
        self._settle()
        super().save_model(os.path.expanduser(fname))

    def save_raw(self, raw_format: str = "ubj") -> bytearray:
        """Return the bytes of a model file, ``"ubj"`` or ``"json"``."""
        self._settle()
        return super().save_raw(raw_format)

    def copy(self) -> Booster:
        """Return a booster of the same model that goes its own way."""
        return Booster(model_file=self)

    def __getstate__(self) -> dict[str, Any]:
        self._settle()
        return {**super().__getstate__(), "given": self._given}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        super().__setstate__(state)
        self._given = state["given"]

    # Attributes

    def set_attr(self, **attributes: Any) -> None:
        """Set attributes, which are saved with the model; None takes one away."""
        super().set_attr(
            **{
                name: None if value is None else str(value)
                for name, value in attributes.items()
            }
        )

    @property
    def best_iteration(self) -> int:
        """The best round of training with early stopping."""
        return super().best_iteration

    @best_iteration.setter
    def best_iteration(self, iteration: int) -> None:
        self.set_attr(best_iteration=iteration)

    @property
    def best_score(self) -> float:
        """The score of the best round of training with early stopping."""
        return super().best_score

    @best_score.setter
    def best_score(self, score: float) -> None:
        self.set_attr(best_score=score)


def _true(given: Mapping[str, Any], name: str) -> bool:
    return str(given.get(name, True)).strip().lower() not in ("false", "0")
