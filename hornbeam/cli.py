"""The command line: train, predict, evaluate, inspect, warmup."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import numpy as np
import numpy.typing as npt

from hornbeam import __version__
from hornbeam.errors import DataError, ParameterError, require
from hornbeam.params import Parameters, parameter_table

for module in ("typer", "rich", "pyarrow"):
    require(module, "cli", "the command line")

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from hornbeam.boosting.booster import Booster
    from hornbeam.data.dmatrix import DMatrix

__all__ = ["app"]

# The attribute of a model file that keeps what it was trained with.
PARAMETERS = "parameters"
# Where a model is trained must not be seen in its bytes.
PLACE = {"nthread", "device", "verbosity"}

app = typer.Typer(
    help="Gradient boosted trees, the same model on any number of threads.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Data = Annotated[Path, typer.Argument(help="A CSV or Parquet file.", metavar="DATA")]
ModelIn = Annotated[Path, typer.Option("--model", help="A model, .ubj or .json.")]
Target = Annotated[str, typer.Option(help="The column to predict.")]
Weight = Annotated[str | None, typer.Option(help="The column of weights.")]


def _parameters_help() -> str:
    """Return the table of parameters, as lines that are not to be wrapped."""
    lines = ["\b", "Parameters, with their defaults:"]
    for row in parameter_table():
        default = "" if row.default in (None, []) else f" [{row.default}]"
        names = ", ".join([row.name, *row.aliases])
        lines.append(f"  {names:28} {row.help}{default}")
    return "\n".join(lines)


@app.command(epilog=_parameters_help())
def train(
    data: Data,
    settings: Annotated[
        list[str] | None,
        typer.Argument(help="Parameters, such as max_depth=4.", metavar="KEY=VALUE"),
    ] = None,
    *,
    target: Target,
    model: Annotated[Path, typer.Option(help="Where to save: .ubj or .json.")],
    valid: Annotated[Path | None, typer.Option(help="Data to evaluate on.")] = None,
    params: Annotated[
        list[str] | None,
        typer.Option(help="Parameters: a .json or .toml file, or key=value."),
    ] = None,
    rounds: Annotated[int, typer.Option(help="Rounds of boosting.")] = 100,
    early_stopping: Annotated[
        int | None,
        typer.Option(help="Stop after so many rounds without a better --valid."),
    ] = None,
    weight: Weight = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="A column to leave out; may be repeated.")
    ] = None,
) -> None:
    """Train a model on DATA and save it."""
    parameters = Parameters.resolve(_settings([*(params or ()), *(settings or ())]))
    _check_destination(model, (".ubj", ".json"))
    if early_stopping is not None and valid is None:
        raise ParameterError("--early-stopping needs data to watch; pass --valid")

    from hornbeam.callbacks import ProgressBar
    from hornbeam.training import train as train_model

    start = perf_counter()
    dtrain = _matrix(data, target, weight, drop or ())
    evals = []
    if valid is not None:
        names = dtrain.feature_names
        evals = [(_matrix(valid, target, weight, columns=names), "valid")]
    booster = train_model(
        parameters.changed(),
        dtrain,
        rounds,
        evals=evals,
        early_stopping_rounds=early_stopping,
        verbose_eval=False,
        callbacks=[ProgressBar(rounds)],
    )
    kept = {k: v for k, v in parameters.changed().items() if k not in PLACE}
    booster.set_attr(**{PARAMETERS: json.dumps(kept)})
    booster.save_model(model)

    best = booster.attr("best_score")
    _say(
        f"{booster.num_boosted_rounds()} rounds on {dtrain.n_rows:,} rows and "
        f"{dtrain.n_features:,} columns in {perf_counter() - start:.1f} s"
        + (f", best score {float(best):.5f}" if best is not None else "")
        + f"; model {booster.digest()[:12]} saved to {model}"
    )


@app.command()
def predict(
    data: Data,
    *,
    model: ModelIn,
    output: Annotated[
        Path | None,
        typer.Option(help="Where to write: .csv or .parquet; CSV to stdout if absent."),
    ] = None,
    margin: Annotated[
        bool, typer.Option("--margin", help="Leave out the objective's transformation.")
    ] = False,
) -> None:
    """Predict the rows of DATA with a saved model."""
    if output is not None:
        _check_destination(output, (".csv", ".parquet"))
    booster = _load(model)
    matrix = _matrix(data, columns=_columns_of(booster))
    values = booster.predict(
        matrix, output_margin=margin, iteration_range=_best_rounds(booster)
    )
    table = _prediction_table(values)
    if output is None:
        pyarrow.csv.write_csv(table, sys.stdout.buffer)
    elif output.suffix == ".parquet":
        pyarrow.parquet.write_table(table, output)
    else:
        pyarrow.csv.write_csv(table, output)


@app.command()
def evaluate(
    data: Data,
    *,
    model: ModelIn,
    target: Target,
    weight: Weight = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="A metric; may be repeated. The objective's if absent."),
    ] = None,
) -> None:
    """Print how good a saved model is on DATA, a metric a line."""
    booster = _load(model)
    if metric:
        booster.set_param("eval_metric", metric)
    matrix = _matrix(data, target, weight, columns=_columns_of(booster))
    begin, end = _best_rounds(booster)
    if end:
        booster = booster[begin:end]
    for item in booster.eval_set([(matrix, "data")]).split("\t")[1:]:
        name, _, score = item.removeprefix("data-").rpartition(":")
        typer.echo(f"{name}\t{float(score):.6g}")


@app.command()
def inspect(
    model: Annotated[Path, typer.Argument(help="A model, .ubj or .json.")],
    importance: Annotated[
        str, typer.Option(help="gain, weight, cover, total_gain or total_cover.")
    ] = "gain",
    top: Annotated[int, typer.Option(help="How many features to list.")] = 20,
) -> None:
    """Print what a model holds: size, parameters and importances."""
    booster = _load(model)
    scores = booster.get_score(importance_type=importance)
    trees = booster.model.trees
    facts = {
        "objective": booster.model.objective,
        "rounds": booster.num_boosted_rounds(),
        "trees": len(trees),
        "leaves": sum(tree.n_leaves for tree in trees),
        "deepest leaf": max((tree.depth() for tree in trees), default=0),
        "features": booster.num_features(),
        "base score": " ".join(f"{score:.6g}" for score in booster.model.base_score),
        "digest": booster.digest(),
    }
    attributes = booster.attributes()
    trained_with = json.loads(attributes.pop(PARAMETERS, "{}"))
    _print_table("Model", facts | attributes)
    if trained_with:
        _print_table("Parameters", trained_with)
    ranked = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    if ranked:
        shown = {name: f"{score:.6g}" for name, score in ranked[:top]}
        _print_table(f"Importance ({importance})", shown)


@app.command()
def warmup() -> None:
    """Compile the kernels now, so that the first fit need not."""
    from hornbeam.warm import warmup as compile_kernels

    start = perf_counter()
    compile_kernels()
    _say(f"the kernels are ready after {perf_counter() - start:.1f} s")


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


# --- Parameters -----------------------------------------------------------------------


def _settings(items: Sequence[str]) -> list[tuple[str, Any]]:
    """Return the pairs of ``key=value`` items and of files of parameters, in order."""
    pairs: list[tuple[str, Any]] = []
    for item in items:
        name, equals, value = item.partition("=")
        if equals:
            pairs.append((name.strip(), value.strip()))
        else:
            pairs.extend(_read_parameters(Path(item)).items())
    return pairs


def _read_parameters(path: Path) -> dict[str, Any]:
    if path.suffix not in (".json", ".toml"):
        raise ParameterError(
            f"{str(path)!r} is neither key=value nor a .json or .toml file"
        )
    text = path.read_text()
    try:
        params = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:
        raise ParameterError(f"cannot read parameters from {path}: {error}") from error
    if not isinstance(params, dict):
        raise ParameterError(f"{path} must hold one object of names and values")
    return params


# --- Data -----------------------------------------------------------------------------


def _read(path: Path) -> pa.Table:
    try:
        if path.suffix == ".parquet":
            return pyarrow.parquet.read_table(path)
        if path.suffix == ".csv":
            return pyarrow.csv.read_csv(path)
    except pa.ArrowInvalid as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"cannot read {path}: {reason}") from error
    raise DataError(f"cannot read {path}: it must end in .csv or .parquet")


def _matrix(
    path: Path,
    target: str | None = None,
    weight: str | None = None,
    drop: Sequence[str] = (),
    columns: Sequence[str] | None = None,
) -> DMatrix:
    """Return the file as a matrix: of `columns`, or of all that have no other part."""
    from hornbeam.data.dmatrix import DMatrix

    table = _read(path)
    apart = [name for name in (target, weight, *drop) if name is not None]
    for name in [*apart, *(columns or ())]:
        if name not in table.column_names:
            raise DataError(
                f"{path} has no column {name!r}; it has {', '.join(table.column_names)}"
            )
    return DMatrix(
        table.drop_columns(apart) if columns is None else table.select(columns),
        None if target is None else _numbers(table, target),
        weight=None if weight is None else _numbers(table, weight),
    )


def _numbers(table: pa.Table, name: str) -> npt.NDArray[np.float64]:
    column = table.column(name)
    try:
        return column.cast(pa.float64()).to_numpy()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise DataError(
            f"column {name!r} holds {column.type}, not numbers; write classes as 0, 1, "
            "2 and so on"
        ) from None


def _prediction_table(values: npt.NDArray[np.float32]) -> pa.Table:
    if values.ndim == 1:
        return pa.table({"prediction": values})
    return pa.table({f"prediction_{k}": values[:, k] for k in range(values.shape[1])})


def _check_destination(path: Path, endings: tuple[str, ...]) -> None:
    """Find out before the work, not after it, that its result has no place."""
    if path.suffix not in endings:
        raise ParameterError(f"{path} must end in {' or '.join(endings)}")
    if not path.parent.is_dir():
        raise ParameterError(f"{path} lies in no folder that is there; make it first")


# --- Models ---------------------------------------------------------------------------


def _load(path: Path) -> Booster:
    from hornbeam.boosting.booster import Booster

    return Booster(model_file=path)


def _columns_of(booster: Booster) -> list[str] | None:
    """Return the names to pick from the data; None takes all columns in order."""
    names = booster.feature_names
    return None if names is None else list(names)


def _best_rounds(booster: Booster) -> tuple[int, int]:
    """Return the rounds up to the best, where training stopped early; else all."""
    best = booster.attr("best_iteration")
    return (0, 0) if best is None else (0, int(best) + 1)


# --- Output ---------------------------------------------------------------------------


def _say(line: str, stream: TextIO | None = None) -> None:
    print(line, file=stream or sys.stderr)


def _print_table(title: str, rows: dict[str, Any]) -> None:
    """Print names and values: a table on a terminal, tab-separated in a pipe."""
    if not sys.stdout.isatty():
        for name, value in rows.items():
            typer.echo(f"{name}\t{value}")
        return
    table = Table(title=title, show_header=False, title_justify="left")
    for name, value in rows.items():
        table.add_row(name, str(value))
    Console().print(table)
