"""Parameters and rounds that the estimators choose from the data: `quality`.

A search on held-out rows finds them. The model is then trained on all rows, for as many
more rounds as there are more rows. The idea of a hold-out and a second training, with
its scaling of the rounds, is that of chimeraboost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from hornbeam.auditions import Candidate, Objective
from hornbeam.boosting.booster import Booster
from hornbeam.boosting.custom import MetricFunction
from hornbeam.data.dmatrix import DMatrix
from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.features.matrix import Recipe, derived
from hornbeam.features.proposals import AUTOMATIC, FeatureOptions
from hornbeam.log import LOGGER
from hornbeam.parameter_search import (
    CONSTRAINTS,
    DEFAULT_ROUNDS,
    ParameterSearch,
    Preset,
    number_of_classes,
)
from hornbeam.params import Parameters

__all__ = [
    "CHOSEN",
    "DEFAULT_ROUNDS",
    "QUALITIES",
    "Choice",
    "choose",
    "described",
    "given_features",
]

#: The attribute of a booster that tells what was chosen, as JSON.
CHOSEN = "hornbeam_chosen"

QUALITIES = {
    "fast": Preset(0.2, 0.2, 0.3, (5,), 15, 15, 500, 0, races=False, averages=False),
    "auto": Preset(0.15, 0.2, 0.3, (5,), 10, 20, 1000, 600, races=True, averages=False),
    "best": Preset(
        0.05, 0.05, 0.05, (4, 6, 8), 60, 60, 4000, 10**9, races=True, averages=True
    ),
}


class Choice(NamedTuple):
    """What was chosen for a training.

    Attributes
    ----------
    params
        Parameters, in addition to the given ones.
    recipe
        Derived features; None: the columns of the data only.
    rounds
        The number of rounds.
    patience
        Early stopping on the user's evaluation data waits for so many rounds; None: no
        early stopping.
    chosen
        All of it by name, with the score; empty if nothing was to be chosen.
    booster
        The average of the models of the folds; None: a model is to be trained.
    """

    params: dict[str, Any]
    rounds: int
    recipe: Recipe | None = None
    patience: int | None = None
    chosen: Mapping[str, Any] = MappingProxyType({})
    booster: Booster | None = None

    def training_data(self, data: DMatrix) -> DMatrix:
        """Return training data with the derived features."""
        return data if self.recipe is None else derived(data, self.recipe)


def choose(
    quality: str,
    params: Mapping[str, Any],
    dtrain: Any,
    *,
    features: FeatureOptions = AUTOMATIC,
    has_evals: bool,
    may_average: bool = True,
    finds_rounds: bool = True,
    obj: Objective = None,
    custom_metric: MetricFunction | None = None,
    patience: int | None = None,
) -> Choice:
    """Return parameters and rounds for some data.

    Parameters
    ----------
    quality
        A key of `QUALITIES`.
    params
        The parameters of the user; those that are absent or None may be chosen.
    dtrain
        Training data; for other classes than `DMatrix` nothing is chosen.
    features
        Which features are derived, or tried.
    has_evals
        Whether the user's evaluation data stop the training, so no row is held out.
    may_average
        Whether the model may be an average. Callbacks see the training of all rows.
    finds_rounds
        Whether the number of rounds is wanted. Bags find it out of bag: then there are
        races, but no training beyond them, unless depths are compared.
    obj, custom_metric
        As for `train`.
    patience
        The user's number of rounds for early stopping.
    """
    if quality not in QUALITIES:
        raise ParameterError(
            f"quality must be one of {', '.join(QUALITIES)}, or None for "
            f"{DEFAULT_ROUNDS} rounds at XGBoost's learning rate, not {quality!r}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )
    preset = QUALITIES[quality].waiting(patience)
    preset = preset._replace(averages=preset.averages and may_average)
    if not finds_rounds:
        preset = preset._replace(linear_rate=preset.bags_linear_rate)
    given = {name: value for name, value in params.items() if value is not None}
    p = Parameters.resolve(given)
    search = ParameterSearch(preset, given, dtrain)
    recipe = given_features(features, given, dtrain)
    choice = Choice({}, DEFAULT_ROUNDS, recipe, patience)
    reason = search.reason_against(has_evals)
    if reason is not None:
        choice = choice._replace(chosen={"not_chosen": reason})
    elif has_evals:
        usual, found = search.usual(), {"held_out": "eval_set"}
        choice = Choice(usual, search.max_rounds, recipe, preset.patience, found)
    else:
        winner = search.winner(recipe, features, obj, custom_metric, finds_rounds)
        if math.isnan(winner.best_score):
            reason = f"{winner.metric} is not defined on the held-out rows"
            choice = choice._replace(chosen={"not_chosen": reason})
        else:
            choice = _choice_of(winner, search, dtrain.n_rows, p.nthread)
    chosen = {"quality": quality, **choice.params, **choice.chosen}
    if p.verbosity >= 2:
        LOGGER.info("chosen: %s", described(chosen))
    return choice._replace(chosen=chosen)


def _choice_of(
    winner: Candidate, search: ParameterSearch, n_rows: int, nthread: int
) -> Choice:
    """Return what the winner of a search says of the training on so many rows."""
    train, test = search.folds[0]
    rounds, booster = round((winner.best_round + 1) * n_rows / len(train)), None
    if search.preset.averages:
        booster = winner.average(nthread)
        rounds = booster.num_boosted_rounds()
    recipe = winner.recipe
    found = {
        **({} if recipe is None else {"derived_features": list(recipe.formulas)}),
        "n_estimators": rounds,
        "held_out": f"{len(search.folds)} x {len(test)} rows",
        winner.metric: winner.best_score,
    }
    params = {**winner.params, **search.learning_rate(winner.params)}
    return Choice(params, rounds, recipe, chosen=found, booster=booster)


def given_features(
    features: FeatureOptions, params: Mapping[str, Any], dtrain: Any
) -> Recipe | None:
    """Return the derived features that the user asks for; None if there are none.

    Raises
    ------
    ParameterError
        If an option is unknown, or formulas cannot be combined with a parameter.
    """
    features.check()
    if features.cat_method != "ordered_target" and not features.formulas:
        return None
    if not isinstance(dtrain, DMatrix):
        raise ParameterError(
            "on a cluster no features are derived; leave cross_features and "
            "cat_method out",
            code=ErrorCode.UNSUPPORTED_ON_CLUSTER,
        )
    given = {name: value for name, value in params.items() if value is not None}
    p = Parameters.resolve(given)
    for name in CONSTRAINTS:
        if getattr(p, name):
            raise ParameterError(
                f"{name} and derived features cannot be combined, as formulas contain "
                "the features that are constrained; leave cross_features and "
                "cat_method out",
                code=ErrorCode.CONFLICTING_PARAMETERS,
            )
    return features.given(dtrain, number_of_classes(Booster(given).objective), p.seed)


def described(chosen: Mapping[str, Any]) -> str:
    """Return what was chosen as text."""
    return ", ".join(
        f"{name} {value:.6g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in chosen.items()
    )
