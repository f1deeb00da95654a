"""A report of a model on data, as a page and as a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from hornbeam.data.dmatrix import DMatrix
from hornbeam.errors import require
from hornbeam.explain.reading import Boosted, booster_of
from hornbeam.explain.report.findings import History, find
from hornbeam.explain.report.page import page_of
from hornbeam.explain.report.pictures import pictures_of
from hornbeam.files import replace_file

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
    """Return a report of a model on data: a page of HTML, or the path of its file.

    The page needs nothing beside itself, and fetches nothing.

    Parameters
    ----------
    model
        A booster, or an estimator that has been fitted. It is judged up to its best
        round, if that is known.
    data
        Rows with labels to judge it by, best ones that it has not seen.
    train
        What it was trained on, to compare with.
    path
        Where to write the page. The file is complete or, whatever happens, left as it
        was. None: the page itself is returned.
    evals_result
        What `train` has noted of the metrics after each round, to be drawn, too.
    class_names
        A name for each class or output; those of an estimator if None.
    title
        Of the page.
    rows
        The most rows of each data to look at, 400,000 if None; of more, so many are
        drawn.
    seed
        Of all draws. The same model, data and seed give the same page.
    progress
        Is called with what is done next.

    Raises
    ------
    DataError
        If data has no rows or no labels, or not the columns of the model.
    NotTrainedError
        If the model has no rounds.
    MissingExtraError
        If Jinja2 or matplotlib is not installed.
    """
    require("jinja2", "report", "a report")
    require("matplotlib", "report", "a report")
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
