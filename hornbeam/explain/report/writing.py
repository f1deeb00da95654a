"""Write the report of a model on data."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from hornbeam.data.dmatrix import DMatrix
from hornbeam.errors import require
from hornbeam.explain.report.findings import History, find
from hornbeam.explain.report.page import page_of
from hornbeam.explain.report.pictures import pictures_of
from hornbeam.explain.tree_reader import Boosted, booster_of
from hornbeam.files import check_place, replace_file

__all__ = ["report"]


def report(
    model: Boosted,
    data: DMatrix,
    train: DMatrix | None = None,
    *,
    path: str | os.PathLike[str] | None = None,
    evals_result: History | None = None,
    class_names: Sequence[str] | None = None,
    title: str | None = None,
    rows: int | None = None,
    seed: int = 0,
    progress: Callable[[str], None] = lambda step: None,
) -> str | Path:
    """Return a report of a model on data as HTML, or the path of the written file.

    The page is self-contained and makes no requests.

    Parameters
    ----------
    model
        A booster, or a fitted estimator. It is evaluated up to its best iteration, if
        that is known.
    data
        Rows with labels to evaluate the model on, preferably not the training data.
    train
        The training data, for comparison.
    path
        File to write, atomically: it is complete, or left as it was. None: return the
        page.
    evals_result
        The `evals_result` of `train`, whose metrics are plotted.
    class_names
        Names of the classes or outputs; None: the classes of the estimator.
    title
        Of the page.
    rows
        Maximum number of rows of each data set, 400,000 if None; larger data is
        sampled.
    seed
        Seed of all random draws. The same model, data and seed give the same page.
    progress
        Called with the name of each step before it starts.

    Raises
    ------
    DataError
        If the data has no rows, no labels, or other columns than the model.
    NotTrainedError
        If the model has no rounds.
    MissingExtraError
        If Jinja2 or matplotlib is not installed.
    """
    require("jinja2", "report", "a report")
    require("matplotlib", "report", "a report")
    if path is not None:
        check_place(path)  # now, not after minutes of work
    names = getattr(model, "classes_", None) if class_names is None else class_names
    findings = find(
        booster_of(model),
        data,
        train,
        evals_result=evals_result,
        class_names=None if names is None else [str(name) for name in names],
        title=title,
        rows=rows,
        seed=seed,
        progress=progress,
    )
    progress("drawing")
    page = page_of(findings, pictures_of(findings))
    if path is None:
        return page
    replace_file(path, [page.encode()])
    return Path(path)
