"""What the boosting estimators learn from rows that a model was not trained on.

The rows are those out of bag, or a fifth that is split off before training. Their
predictions give the out-of-bag score, calibration and conformity scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hornbeam.bagging import BAGS, Bags, bags_of, check_n_bags
from hornbeam.boosting.booster import Booster
from hornbeam.cross_validation import fold_rows
from hornbeam.data.dmatrix import DMatrix
from hornbeam.errors import ErrorCode, ParameterError, short_traceback
from hornbeam.export.links import CALIBRATION
from hornbeam.kernels.team import lease
from hornbeam.params import Parameters
from hornbeam.sklearn.base import ModelEstimator
from hornbeam.sklearn.conformal import CONFORMAL, ConformityScores, groups_of

__all__ = ["HeldOutEstimator", "HeldOutPlan"]

#: The number of bags where they are needed and `n_bags` is not given.
_N_BAGS = 8
#: One of this number of folds is split off for calibration.
_SPLIT_FOLDS = 5


class HeldOutPlan(NamedTuple):
    """Which rows of a fit are held out.

    Attributes
    ----------
    n_bags
        The number of bags; 0: one model.
    train
        The rows of training; None: all.
    calibration
        The rows of conformity scores that are in no bag; None: there are none.
    groups
        The group of each row of the data, for conformity scores; None without groups.
    """

    n_bags: int = 0
    train: DMatrix | None = None
    calibration: DMatrix | None = None
    groups: Sequence[Any] | None = None


class HeldOutEstimator(ModelEstimator):
    """Base class of estimators with bags, calibration and conformal prediction.

    Attributes
    ----------
    oob_score_
        With bags: the score of the out-of-bag predictions, as `score` returns it.
    """

    # Parameters.
    n_bags: int | None
    conformal: str | None
    conformal_groups: str | int | None
    calibration: str | None

    #: The values of `conformal` that the estimator supports.
    _conformal_methods: tuple[str, ...] = ()

    def _plan(
        self, X: Any, dtrain: Any, params: dict[str, Any], evals: Any, model: Any
    ) -> HeldOutPlan:
        """Return which rows to hold out; raise an error if that is not possible."""
        self._check_options()
        n_bags = self.n_bags
        if n_bags is None and (self.conformal == "cv+" or self.calibration is not None):
            n_bags = _N_BAGS
        if n_bags is None and self.conformal is None:
            return HeldOutPlan()
        if not isinstance(dtrain, DMatrix):
            raise ParameterError(
                "n_bags, conformal and calibration are not supported on a cluster; "
                "fit the estimator for one machine, or leave them out",
                code=ErrorCode.UNSUPPORTED_ON_CLUSTER,
            )
        if n_bags is not None:
            _check_bags_alone(evals, model)
        groups = None
        if self.conformal is not None and self.conformal_groups is not None:
            groups = groups_of(X, self.conformal_groups)
        if self.conformal not in ("split", "cqr"):
            check_n_bags(n_bags, dtrain)
            return HeldOutPlan(n_bags or 0, groups=groups)
        seed = Parameters.resolve(params).seed % 2**32
        if dtrain.n_rows < _SPLIT_FOLDS:
            raise ParameterError(
                f"conformal={self.conformal!r} holds out a fifth of the rows, and "
                f"there are {dtrain.n_rows}; fit with more rows",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
        train, held = fold_rows(dtrain, _SPLIT_FOLDS, False, None, seed, True)[0]
        part = dtrain.slice(train)
        if n_bags is not None:
            check_n_bags(n_bags, part)
        if groups is not None:
            groups = [groups[row] for row in held]
        return HeldOutPlan(n_bags or 0, part, dtrain.slice(held), groups)

    def _check_options(self) -> None:
        """Raise a `ParameterError` for a value that the estimator does not support."""
        methods = self._conformal_methods
        if self.conformal is not None and not methods:
            raise ParameterError(
                f"conformal={self.conformal!r}: a ranking has no interval, as its "
                "scores have no unit; leave conformal out",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )
        if self.conformal is not None and self.conformal not in methods:
            raise ParameterError(
                f"conformal must be None{''.join(f', {m!r}' for m in methods)}, not "
                f"{self.conformal!r}",
                code=ErrorCode.UNKNOWN_OPTION,
            )
        if self.conformal_groups is not None and self.conformal is None:
            raise ParameterError(
                "conformal_groups is for conformal prediction; set conformal as well",
                code=ErrorCode.INEFFECTIVE_PARAMETER,
            )
        if self.calibration is not None:
            self._check_calibration()

    def _check_calibration(self) -> None:
        raise ParameterError(
            "calibration is of the probabilities of classes; use HornbeamClassifier, "
            "or leave it out",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )

    def _learn_from_held_out(
        self, plan: HeldOutPlan, data: DMatrix, bags: Bags | None
    ) -> None:
        """Set what out-of-bag rows and calibration rows tell of the fitted model.

        `data` holds the rows of training.
        """
        booster = self.get_booster()
        booster.set_attr(
            **{CALIBRATION: None, CONFORMAL: None},
            **({BAGS: None} if bags is None else {}),
        )
        for name in ("oob_prediction_", "oob_decision_function_", "oob_score_"):
            self.__dict__.pop(name, None)
        if bags is not None:
            self._set_out_of_bag(self._output_of(booster, bags.margins), data, bags)
        if self.conformal is None:
            return
        rows, margins, fold_of = plan.calibration, None, None
        if rows is None:
            assert bags is not None
            rows, margins, fold_of = data, bags.margins, bags.bag_of
        else:
            margins = booster.predict(
                rows, output_margin=True, iteration_range=booster.rounds_to_best()
            )
        assert rows.labels is not None
        found = self._conformity(
            self.conformal, self._output_of(booster, margins), rows.labels.ravel()
        )
        scores = ConformityScores.of(
            self.conformal, found, fold_of, plan.groups, self.conformal_groups
        )
        booster.set_attr(**{CONFORMAL: scores.to_text()})

    def _output_of(self, booster: Booster, margins: npt.NDArray[Any]) -> Any:
        """Return the predictions of margins, before calibration."""
        columns = margins.reshape(len(margins), -1).copy()
        with lease(self.n_jobs or 0) as team:
            values = booster.objective.to_output(team, columns)
        return values[:, 0] if values.shape[1] == 1 else values

    def _set_out_of_bag(self, outputs: Any, data: DMatrix, bags: Bags) -> None:
        """Set the attributes of out-of-bag predictions."""
        self.oob_prediction_ = outputs
        score = self._score_out_of_bag(outputs, data)
        if score is not None:
            self.oob_score_ = score

    def _score_out_of_bag(self, outputs: Any, data: DMatrix) -> float | None:
        """Return the score of out-of-bag predictions; None if they have none."""
        metric = self.get_booster().metrics[-1]
        return metric.of(np.asarray(outputs, np.float64), data.info)

    def _conformity(self, method: str, outputs: Any, labels: Any) -> Any:
        """Return the conformity scores of held-out rows, (kinds, rows)."""
        raise NotImplementedError

    # Prediction

    def _conformity_scores(self) -> ConformityScores | None:
        """Return the conformity scores of the model; None if it has none."""
        text = self.get_booster().attr(CONFORMAL)
        return None if text is None else ConformityScores.from_text(text)

    def _outputs_by_fold(self, X: Any, scores: ConformityScores) -> list[Any]:
        """Return the predictions of the models that computed the scores."""
        if scores.method == "cv+":
            return self._outputs_by_bag(X)
        booster = self.get_booster()
        return [self._output_of(booster, self._predict(X, "margin"))]

    def _groups(self, X: Any, scores: ConformityScores) -> list[Any] | None:
        return None if scores.column is None else groups_of(X, scores.column)

    def _outputs_by_bag(self, X: Any) -> list[Any]:
        features = self._validate_features(X, reset=False)
        return [
            self._output_of(
                bag,
                bag.inplace_predict(
                    features,
                    predict_type="margin",
                    missing=self.missing,
                    validate_features=False,
                ),
            )
            for bag in bags_of(self.get_booster())
        ]

    @short_traceback
    def predict_std(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the standard error of each prediction, over draws of training rows.

        It is the grouped jackknife's (Shao and Wu 1989): the root of (bags - 1) times
        the variance of the bags' predictions, each of which leaves out one fold. It
        is of what the model predicts, not of the target, which `predict_interval` is
        for. A classifier has the standard error of each class's probability, (rows,
        classes), before calibration; other estimators those of `predict`.

        Raises
        ------
        ParameterError
            If the model has no bags.
        """
        if self.get_booster().attr(BAGS) is None:
            raise ParameterError(
                "standard errors come from bags, and this model has none; fit with "
                "n_bags, such as 8",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )
        by_bag = np.array(self._outputs_by_bag(X), np.float64)
        return np.sqrt(len(by_bag) - 1) * by_bag.std(axis=0)


def _check_bags_alone(evals: Any, model: Any) -> None:
    """Raise a `ParameterError` if bags cannot be trained with these arguments."""
    for name, value in (("eval_set", evals), ("xgb_model", model)):
        if value:
            raise ParameterError(
                f"{name} cannot be combined with bags, which are measured on the rows "
                f"out of bag; leave {name} out, or n_bags, calibration and "
                "conformal='cv+'",
                code=ErrorCode.CONFLICTING_PARAMETERS,
            )
