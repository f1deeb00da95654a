"""The content of a report, computed independently of its presentation."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np

from hornbeam import __version__
from hornbeam.boosting.booster import Booster
from hornbeam.data.dmatrix import DMatrix
from hornbeam.errors import ErrorCode, NotTrainedError, ParameterError
from hornbeam.explain.report.curves import Curves, curves_of
from hornbeam.explain.report.drift import Drift, drift_of, duplicates_of
from hornbeam.explain.report.groups import feature_name
from hornbeam.explain.report.importances import Importances, importances_of
from hornbeam.explain.report.intervals import Score, scores_of
from hornbeam.explain.report.leakage import leakage_of
from hornbeam.explain.report.lints import Lint, lints_of
from hornbeam.explain.report.profile import Profile, profile_of
from hornbeam.explain.report.rows import Floats, Rows, read_rows
from hornbeam.explain.report.slices import Slices, slices_of
from hornbeam.explain.report.task import Task, task_of
from hornbeam.explain.report.trees import TreeData, tree_data
from hornbeam.params import ATTRIBUTE, Parameters, parameter_table
from hornbeam.quality import CHOSEN, described

__all__ = ["Findings", "History", "Setting", "find"]

#: Default maximum number of rows of each data set.
_ROWS = 400_000

#: Parameters of the machine, which are not stored in the model.
_OF_PLACE = {"nthread", "device", "verbosity"}

History = Mapping[str, Mapping[str, Sequence[float]]]


@dataclass(frozen=True)
class Setting:
    """A resolved parameter."""

    name: str
    value: str
    default: str
    changed: bool
    help: str


@dataclass(frozen=True)
class Findings:
    """The content of a report.

    Parameters
    ----------
    title
        Title of the page.
    booster
        The model, cut to the rounds used for prediction.
    task
        Task of the model.
    rows
        The evaluated rows.
    before
        The training rows; None if they were not given.
    facts
        Facts about the model, as pairs of name and text.
    settings
        Parameters of the model; `settings_known` says whether all of them are known.
    profiles
        Summary of each data set.
    scores
        Metrics on each data set by name.
    curves
        Metrics by number of rounds; None for a linear model.
    history
        Metrics recorded during training.
    importances, slices, drift, lints, trees
        Content of these sections; None where a section is empty.
    seed
        Seed of all random draws.
    versions
        Versions of the libraries that made the report.
    """

    title: str
    booster: Booster
    task: Task
    rows: Rows
    before: Rows | None
    facts: dict[str, str]
    settings: list[Setting]
    settings_known: bool
    profiles: list[Profile]
    scores: dict[str, list[Score]]
    curves: Curves | None
    best_round: int | None
    history: History | None
    importances: Importances
    slices: Slices | None
    drift: Drift | None
    lints: list[Lint]
    trees: TreeData | None
    seed: int
    versions: dict[str, str]


def find(
    booster: Booster,
    data: DMatrix,
    train: DMatrix | None = None,
    *,
    evals_result: History | None = None,
    class_names: Sequence[str] | None = None,
    title: str | None = None,
    rows: int | None = None,
    seed: int = 0,
    progress: Callable[[str], None] = lambda step: None,
) -> Findings:
    """Return the content of a report; the parameters are those of `report`."""
    rows = _ROWS if rows is None else rows
    _check(booster, rows, seed)
    kept, best = _best_rounds(booster)
    progress("reading the rows")
    now = read_rows(
        "validation" if train is not None else "given", kept, data, rows, seed
    )
    before = None if train is None else read_rows("training", kept, train, rows, seed)
    parts = [now] if before is None else [before, now]
    progress("predicting")
    params, known = _parameters(booster)
    task = task_of(kept, params, parts, class_names)
    start = _constant(task, parts[0])
    progress("measuring, with intervals")
    scores = {part.name: scores_of(part, task, start, seed) for part in parts}
    progress("drawing learning curves")
    has_rounds = booster.model.linear is None
    curves = curves_of(booster, parts, task, seed) if has_rounds else None
    progress("asking what features are worth")
    importances = importances_of(kept, now, task, seed)
    progress("looking for the worst slices")
    slices = slices_of(now, task, importances, seed)
    progress("looking for leaks and drift")
    drift = None if before is None else drift_of(before, now, seed)
    lints = lints_of(
        before,
        now,
        task,
        leakage=leakage_of(parts[0], task, seed),
        drift=drift,
        duplicates=None if before is None else duplicates_of(before, now, task),
        importances=importances,
        curves=curves,
        stopped=best is not None,
    )
    progress("laying out the trees")
    names = [feature_name(now, f) for f in range(now.matrix.n_features)]
    return Findings(
        title=title or f"Report of a model for {task.objective.name}",
        booster=kept,
        task=task,
        rows=now,
        before=before,
        facts=_facts(booster, kept, best),
        settings=_settings(params),
        settings_known=known,
        profiles=[profile_of(part, task) for part in parts],
        scores=scores,
        curves=curves,
        best_round=best,
        history=evals_result,
        importances=importances,
        slices=slices,
        drift=drift,
        lints=lints,
        trees=tree_data(kept, now, task, names, seed),
        seed=seed,
        versions={
            "Hornbeam": __version__,
            "Python": platform.python_version(),
            "NumPy": np.__version__,
            "matplotlib": version("matplotlib"),
        },
    )


def _check(booster: Booster, rows: int, seed: int) -> None:
    if booster.num_boosted_rounds() == 0:
        raise NotTrainedError(
            "there is nothing to report on: this Booster has no rounds; train it, or "
            "use load_model",
            code=ErrorCode.NOT_TRAINED,
        )
    if rows < 1:
        raise ParameterError(
            f"rows must be 1 or more, the most rows to look at, not {rows!r}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )
    if seed < 0:
        raise ParameterError(
            f"seed must be a whole number from 0 on, not {seed!r}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )


def _best_rounds(booster: Booster) -> tuple[Booster, int | None]:
    """Return the booster cut after its best iteration, and that iteration."""
    best = booster.attr("best_iteration")
    if best is None or booster.model.linear is not None:
        return booster, None
    end = int(best) + 1
    if not 0 < end <= booster.num_boosted_rounds():
        return booster, None
    return booster[:end], end


def _constant(task: Task, rows: Rows) -> Floats | None:
    """Return the best constant prediction, if there is one."""
    labels = task.plain_labels(rows)
    weights = rows.weights
    if labels is None or not weights.sum() > 0:
        return None
    mean = np.array(np.average(labels, weights=weights))
    if task.kind == "binary" and task.objective.prediction != "probability":
        return None
    if task.kind == "classes":
        shares = np.bincount(labels.astype(np.intp), weights, len(task.outputs))
        return np.asarray(shares / shares.sum())
    levels = task.objective.leaf_levels
    if levels is not None:
        found = np.quantile(labels, levels if len(levels) > 1 else levels[0])
        return np.asarray(found)
    return mean if task.kind in ("binary", "regression") else None


def _facts(booster: Booster, kept: Booster, best: int | None) -> dict[str, str]:
    """Return facts about a model as pairs of name and text."""
    model = kept.model
    rounds = f"{booster.num_boosted_rounds():,}"
    if best is not None:
        rounds = f"{best:,} of {rounds}, up to the best"
    facts = {"Objective": booster.objective.name, "Rounds": rounds}
    if model.linear is not None:
        facts["Weights"] = f"{model.linear.weights.size:,}"
    else:
        facts["Trees"] = f"{len(model.trees):,}"
        facts["Leaves"] = f"{sum(tree.n_leaves for tree in model.trees):,}"
        facts["Deepest leaf"] = str(max(tree.depth() for tree in model.trees))
    chosen = booster.attr(CHOSEN)
    if chosen is not None:
        # Another program may have set an attribute of that name.
        with suppress(ValueError, AttributeError):
            facts["Chosen from the data"] = described(json.loads(chosen))
    facts["Features"] = f"{booster.num_features():,}"
    facts["Base score"] = ", ".join(f"{score:.6g}" for score in model.base_score)
    facts["Size of the file"] = f"{len(booster.save_raw()) / 1e6:.2f} MB"
    facts["Digest"] = booster.digest()
    return facts


def _parameters(booster: Booster) -> tuple[Parameters, bool]:
    """Return the training parameters of a booster, and whether they are complete.

    The command line stores its training parameters in the model file.
    """
    kept = booster.attr(ATTRIBUTE)
    if kept is not None:
        try:
            return Parameters.resolve(json.loads(kept)), True
        except (ValueError, TypeError):
            pass  # an attribute of that name set by another program
    return booster.params, False


def _settings(params: Parameters) -> list[Setting]:
    """Return the parameters, non-default ones first."""
    values, changed = params.to_dict(), params.changed()
    found = [
        Setting(
            row.name,
            _spelled(values[row.name]),
            _spelled(row.default),
            row.name in changed,
            row.help,
        )
        for row in parameter_table()
        if row.name not in _OF_PLACE
    ]
    return sorted(found, key=lambda setting: not setting.changed)


def _spelled(value: object) -> str:
    if value is None or value in ([], ()):
        return "not given"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value)
