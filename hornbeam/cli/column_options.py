"""The options that name columns which are not features, the same for all commands."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from hornbeam.cli.completion import columns
from hornbeam.cli.rows import meta_columns

__all__ = ["BaseMargin", "takes_columns"]

Target = Annotated[
    str | None,
    typer.Option(
        help="The label column; not for libsvm files, which have labels.",
        autocompletion=columns,
    ),
]
Weight = Annotated[
    str | None, typer.Option(help="The column of weights.", autocompletion=columns)
]
Group = Annotated[
    str | None,
    typer.Option(
        "--group",
        "--qid",
        help="The column of query ids, for ranking: non-decreasing integers.",
        autocompletion=columns,
    ),
]
LowerBound = Annotated[
    str | None,
    typer.Option(
        "--label-lower-bound",
        help="The column of lower bounds of labels, for survival:aft.",
        autocompletion=columns,
    ),
]
UpperBound = Annotated[
    str | None,
    typer.Option(
        "--label-upper-bound",
        help="The column of upper bounds of labels; inf if right-censored.",
        autocompletion=columns,
    ),
]
BaseMargin = Annotated[
    str | None,
    typer.Option(
        help="The column of base margins, to which trees add.", autocompletion=columns
    ),
]
#: The name and the type of the option of each argument of a matrix.
_OPTIONS: dict[str, tuple[str, Any]] = {
    "label": ("target", Target),
    "weight": ("weight", Weight),
    "qid": ("group", Group),
    "label_lower_bound": ("label_lower_bound", LowerBound),
    "label_upper_bound": ("label_upper_bound", UpperBound),
    "base_margin": ("base_margin", BaseMargin),
}


def takes_columns(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with options of columns, which it takes as `columns`."""

    @wraps(command)
    def call(**options: Any) -> None:
        named = {field: options.pop(name) for field, (name, _) in _OPTIONS.items()}
        command(columns=meta_columns(**named), **options)

    signature = inspect.signature(command, eval_str=True)
    parameters = []
    for parameter in signature.parameters.values():
        if parameter.name != "columns":
            parameters.append(parameter)
            continue
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters += [
            inspect.Parameter(name, kind, default=None, annotation=option)
            for name, option in _OPTIONS.values()
        ]
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return call
