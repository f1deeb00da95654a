"""The command line: train, predict, evaluate, report, inspect, export, warmup."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, TextIO, TypeAlias

import numpy as np
import numpy.typing as npt

import hornbeam
from hornbeam import __version__
from hornbeam.data.sources.batches import Place
from hornbeam.errors import DataError, ErrorCode, ParameterError, require
from hornbeam.lazy import extension
from hornbeam.params import ATTRIBUTE, Parameters, parameter_table

for module in ("typer", "rich", "pyarrow"):
    require(module, "cli", "the command line")

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from hornbeam import Booster, DMatrix
    from hornbeam.data.sources.batches import Source

__all__ = ["app"]

#: What columns are to a matrix, if they are no features, and their names.
Beside: TypeAlias = dict[str, Any]

#: Labels that are known by where they lie.
BOUND = "label_lower_bound"

# Where a model is trained must not be seen in its bytes.
PLACE = {"nthread", "device", "verbosity"}

app = typer.Typer(
    help="Gradient boosted trees, the same model on any number of threads.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Data = Annotated[
    str,
    typer.Argument(
        help="A file of Parquet, CSV, libsvm or Arrow, a folder or glob of them, maybe "
        "with options: data.txt?format=csv. With --database a query: SELECT ...",
        metavar="DATA",
    ),
]
Database = Annotated[
    Path | None,
    typer.Option(help="A file of DuckDB; DATA is a query of it, and so is --valid."),
]
Unseen = Annotated[
    str | None,
    typer.Option(help="Categories that training did not see: error or missing."),
]
ModelIn = Annotated[Path, typer.Option("--model", help="A model, .ubj or .json.")]
Target = Annotated[
    str | None,
    typer.Option(help="The column to predict; not for libsvm, which has labels."),
]
Weight = Annotated[str | None, typer.Option(help="The column of weights.")]
Group = Annotated[
    str | None,
    typer.Option(
        "--group",
        "--qid",
        help="The column of groups, for ranking: numbers that never fall.",
    ),
]
LowerBound = Annotated[
    str | None,
    typer.Option(
        "--label-lower-bound",
        help="The column of times from which on labels lie, for survival:aft.",
    ),
]
UpperBound = Annotated[
    str | None,
    typer.Option(
        "--label-upper-bound",
        help="The column of times up to which labels lie; inf where none is known.",
    ),
]
BaseMargin = Annotated[
    str | None,
    typer.Option(help="The column of margins that the trees add to."),
]


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
    target: Target = None,
    model: Annotated[Path, typer.Option(help="Where to save: .ubj or .json.")],
    valid: Annotated[str | None, typer.Option(help="Data to evaluate on.")] = None,
    database: Database = None,
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
    group: Group = None,
    label_lower_bound: LowerBound = None,
    label_upper_bound: UpperBound = None,
    base_margin: BaseMargin = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="A column to leave out; may be repeated.")
    ] = None,
    cache: Annotated[
        list[Path] | None,
        typer.Option(
            help="A folder for the rows in bins, which are then on disk and not in "
            "memory; may be repeated, best with a folder of each disk."
        ),
    ] = None,
    memory_limit: Annotated[
        str | None,
        typer.Option(help="The most memory to take with --cache, such as 2GB."),
    ] = None,
) -> None:
    """Train a model on DATA and save it."""
    parameters = Parameters.resolve(_settings([*(params or ()), *(settings or ())]))
    _check_destination(model, (".ubj", ".json"))
    if early_stopping is not None and valid is None:
        raise ParameterError(
            "--early-stopping needs data to watch; pass --valid",
            code=ErrorCode.MISSING_PARAMETER,
        )
    if memory_limit is not None and not cache:
        raise ParameterError(
            "--memory-limit needs a folder on disk; pass --cache",
            code=ErrorCode.MISSING_PARAMETER,
        )

    beside = _beside(
        label=target,
        weight=weight,
        qid=group,
        label_lower_bound=label_lower_bound,
        label_upper_bound=label_upper_bound,
        base_margin=base_margin,
    )
    start = perf_counter()
    source = _open(data, database)
    features = _features(source, beside, drop or ())

    def matrix_of(rows: Source, name: str, **options: Any) -> DMatrix:
        if not cache:
            return _matrix(rows, beside)
        matrix = hornbeam.ExtMemQuantileDMatrix(
            rows,
            cache=[folder / name for folder in cache],
            memory_limit=memory_limit,
            max_bin=parameters.max_bin,
            nthread=parameters.nthread,
            **beside,
            **options,
        )
        return _with_labels(matrix, rows)

    dtrain = matrix_of(features, "train")
    evals = []
    if valid is not None:
        names = dtrain.feature_names
        other = _columns(_open(valid, database), names, beside)
        watched = matrix_of(other, "valid", ref=dtrain, unseen=parameters.unseen)
        if watched.table.is_stream:
            # Looked at in every round, so it is not read in every round.
            watched = hornbeam.QuantileDMatrix(
                other,
                ref=dtrain,
                max_bin=parameters.max_bin,
                unseen=parameters.unseen,
                **beside,
            )
        evals = [(watched, "valid")]
    booster = hornbeam.train(
        parameters.changed(),
        dtrain,
        rounds,
        evals=evals,
        early_stopping_rounds=early_stopping,
        verbose_eval=False,
        callbacks=[hornbeam.ProgressBar(rounds)],
    )
    kept = {k: v for k, v in parameters.changed().items() if k not in PLACE}
    booster.set_attr(**{ATTRIBUTE: json.dumps(kept)})
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
    base_margin: BaseMargin = None,
    database: Database = None,
    unseen: Unseen = None,
) -> None:
    """Predict the rows of DATA with a saved model."""
    if output is not None:
        _check_destination(output, (".csv", ".parquet"))
    booster = _load(model, unseen)
    beside = _beside(base_margin=base_margin)
    source = _columns(_open(data, database), _columns_of(booster), beside)
    tables = _predictions(booster, source, beside, margin)
    if output is None:
        _write_csv(tables, sys.stdout.buffer)
        return
    write = _write_parquet if output.suffix == ".parquet" else _write_csv
    # What is there stays as it is until all is well.
    part = output.with_name(f"{output.name}.part")
    try:
        write(tables, part)
        part.replace(output)
    finally:
        part.unlink(missing_ok=True)


@app.command()
def evaluate(
    data: Data,
    *,
    model: ModelIn,
    target: Target = None,
    weight: Weight = None,
    group: Group = None,
    label_lower_bound: LowerBound = None,
    label_upper_bound: UpperBound = None,
    base_margin: BaseMargin = None,
    database: Database = None,
    unseen: Unseen = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="A metric; may be repeated. The objective's if absent."),
    ] = None,
) -> None:
    """Print how good a saved model is on DATA, a metric a line."""
    booster = _load(model, unseen)
    if metric:
        booster.set_param("eval_metric", metric)
    beside = _beside(
        label=target,
        weight=weight,
        qid=group,
        label_lower_bound=label_lower_bound,
        label_upper_bound=label_upper_bound,
        base_margin=base_margin,
    )
    source = _columns(_open(data, database), _columns_of(booster), beside)
    matrix = _matrix(source, beside)
    begin, end = _best_rounds(booster)
    if end:
        booster = booster[begin:end]
    for name, score in booster.measure([(matrix, "data")]):
        typer.echo(f"{name.removeprefix('data-')}\t{score:.6g}")


@app.command()
def report(
    model: Annotated[Path, typer.Argument(help="A model, .ubj or .json.")],
    data: Data,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write the page, .html.")
    ] = Path("report.html"),
    target: Target = None,
    weight: Weight = None,
    group: Group = None,
    label_lower_bound: LowerBound = None,
    label_upper_bound: UpperBound = None,
    base_margin: BaseMargin = None,
    train: Annotated[
        str | None,
        typer.Option(help="What the model was trained on, to compare DATA with."),
    ] = None,
    valid: Annotated[
        str | None,
        typer.Option(
            help="What to judge the model by; DATA is then what it was trained on."
        ),
    ] = None,
    database: Annotated[
        Path | None,
        typer.Option(
            help="A file of DuckDB; DATA, --train and --valid are queries of it."
        ),
    ] = None,
    class_names: Annotated[
        list[str] | None,
        typer.Option("--class", help="The name of a class; repeated, in their order."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Of the page.")] = None,
    rows: Annotated[
        int | None,
        typer.Option(help="The most rows of each data to look at, 400,000 if absent."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of all draws.")] = 0,
) -> None:
    """Write a report of a saved model on DATA: one page that fetches nothing."""
    if train is not None and valid is not None:
        raise ParameterError(
            "--train and --valid both name the other data; DATA is judged by with "
            "--train, and trained on with --valid: pass one of them",
            code=ErrorCode.CONFLICTING_PARAMETERS,
        )
    _check_destination(output, (".html", ".htm"))
    beside = _beside(
        label=target,
        weight=weight,
        qid=group,
        label_lower_bound=label_lower_bound,
        label_upper_bound=label_upper_bound,
        base_margin=base_margin,
    )
    start = perf_counter()
    booster = _load(model)

    def matrix_of(rows: str) -> DMatrix:
        source = _open(rows, database)
        return _matrix(_columns(source, _columns_of(booster), beside), beside)

    judged, trained_on = (data, train) if valid is None else (valid, data)
    with Console(stderr=True).status("reading") as status:
        extension("report")(
            booster,
            matrix_of(judged),
            None if trained_on is None else matrix_of(trained_on),
            path=output,
            class_names=class_names,
            title=title,
            rows=rows,
            seed=seed,
            progress=status.update,
        )
    size = output.stat().st_size / 1e6
    _say(f"report of {size:.1f} MB in {perf_counter() - start:.1f} s, see {output}")


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
    trained_with = json.loads(attributes.pop(ATTRIBUTE, "{}"))
    _print_table("Model", facts | attributes)
    if trained_with:
        _print_table("Parameters", trained_with)
    ranked = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    if ranked:
        shown = {name: f"{score:.6g}" for name, score in ranked[:top]}
        _print_table(f"Importance ({importance})", shown)


@app.command()
def export(
    model: Annotated[Path, typer.Argument(help="A model, .ubj or .json.")],
    *,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="Where to write: .onnx, .c, .py, .json or .ubj."
        ),
    ],
    margin: Annotated[
        bool, typer.Option("--margin", help="Leave out the objective's transformation.")
    ] = False,
) -> None:
    """Write a model as ONNX, as source of C or Python, or for XGBoost alone."""
    _check_destination(output, (".onnx", ".c", ".py", ".json", ".ubj"))
    booster = _load(model)
    options = {"output_margin": True} if margin else {}
    if _tells_labels(booster):
        classifier = hornbeam.HornbeamClassifier()
        classifier.load_model(model)
        classifier.export(output, **options)
    else:
        booster.export(output, iteration_range=_best_rounds(booster), **options)
    _say(f"{booster.digest()[:12]} exported to {output}")


@app.command()
def warmup() -> None:
    """Compile the kernels now, so that the first fit need not."""
    from rich.progress import Progress

    start = perf_counter()
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("compiling", total=None)
        hornbeam.warmup(
            lambda done, total: bar.update(task, completed=done, total=total)
        )
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
            f"{str(path)!r} is neither key=value nor a .json or .toml file",
            code=ErrorCode.INVALID_CONFIGURATION,
        )
    text = path.read_text()
    try:
        params = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:
        raise ParameterError(
            f"cannot read parameters from {path}: {error}",
            code=ErrorCode.INVALID_CONFIGURATION,
        ) from error
    if not isinstance(params, dict):
        raise ParameterError(
            f"{path} must hold one object of names and values",
            code=ErrorCode.INVALID_CONFIGURATION,
        )
    return params


# --- Data -----------------------------------------------------------------------------


def _open(data: str, database: Path | None) -> Source:
    """Return the rows of a file, or of a query of the database."""
    if database is None:
        return hornbeam.read(data)
    duckdb = require("duckdb", "files", "--database")
    if not database.is_file():
        raise DataError(
            f"there is no database {database}",
            code=ErrorCode.FILE_NOT_FOUND,
            path=database,
        )
    try:
        connection = duckdb.connect(database, read_only=True)
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        raise DataError(
            f"cannot open the database {database}: {reason}",
            code=ErrorCode.FILE_NOT_READABLE,
        ) from error
    return hornbeam.read(data, connection=connection)


def _beside(**columns: str | None) -> Beside:
    """Return the columns that are no features, by what they are to a matrix."""
    beside = {role: name for role, name in columns.items() if name is not None}
    roles: dict[str, str] = {}
    for role, name in beside.items():
        if roles.setdefault(name, role) != role:
            raise ParameterError(
                f"the column {name!r} cannot be both {roles[name]} and {role}; name "
                "another column for one of them",
                code=ErrorCode.CONFLICTING_PARAMETERS,
            )
    return beside


def _features(source: Source, beside: Beside, drop: Sequence[str]) -> Source:
    """Return the source with all its columns but those to drop."""
    names = source.column_names
    if names is None:
        return _columns(source, drop or None, beside)
    _check_columns(source, [*beside.values()], drop)
    return _columns(source, [name for name in names if name not in drop], beside)


def _columns(source: Source, columns: Sequence[str] | None, beside: Beside) -> Source:
    """Return the source with only these columns; with all of them if None."""
    added = [*beside.values()]
    _check_columns(source, added, columns or ())
    if columns is None or not source.named:
        return source
    return hornbeam.read(
        source, columns=[*columns, *(n for n in added if n not in columns)]
    )


def _check_columns(source: Source, *groups: Sequence[str]) -> None:
    names = source.column_names
    for name in (name for group in groups for name in group):
        if names is not None and name not in names:
            raise DataError(
                f"{source.name} has no column {name!r}; it has {', '.join(names)}",
                code=ErrorCode.COLUMN_NOT_FOUND,
            )


def _matrix(source: Source, beside: Beside) -> DMatrix:
    return _with_labels(hornbeam.DMatrix(source, **beside), source)


def _with_labels(matrix: DMatrix, source: Source) -> DMatrix:
    if not any(map(len, (matrix.get_label(), matrix.get_float_info(BOUND)))):
        raise ParameterError(
            f"{source.name} brings no labels; name their column with --target, or of "
            "survival:aft with --label-lower-bound",
            code=ErrorCode.MISSING_PARAMETER,
        )
    return matrix


def _predictions(
    booster: Booster, source: Source, beside: Beside, margin: bool
) -> Iterator[pa.Table]:
    """Yield the predictions of each batch; a mistake is said with its place.

    One reading is enough to predict, so the source is not looked through before.
    """
    rounds = _best_rounds(booster)
    row = 0
    for number, batch in enumerate(source.batches()):
        with Place(number, row, source.name, batch.origin).named():
            matrix = hornbeam.DMatrix(batch.data, **beside)
            values = booster.predict(
                matrix, output_margin=margin, iteration_range=rounds
            )
        row += matrix.num_row()
        yield _prediction_table(values)


def _prediction_table(values: npt.NDArray[np.float32]) -> pa.Table:
    if values.ndim == 1:
        return pa.table({"prediction": _column(values)})
    columns = np.ascontiguousarray(values.T)
    return pa.table({f"prediction_{k}": _column(v) for k, v in enumerate(columns)})


def _column(values: npt.NDArray[np.float32]) -> pa.Array:
    # Of an array of NumPy's, Arrow would ask pandas, which takes half a second to come.
    return pa.Array.from_buffers(
        pa.float32(), len(values), [None, pa.py_buffer(values)]
    )


def _write_csv(tables: Iterator[pa.Table], sink: Any) -> None:
    first = next(tables)
    with pyarrow.csv.CSVWriter(sink, first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table)


def _write_parquet(tables: Iterator[pa.Table], sink: Any) -> None:
    first = next(tables)
    with pyarrow.parquet.ParquetWriter(sink, first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table)


def _check_destination(path: Path, endings: tuple[str, ...]) -> None:
    """Find out before the work, not after it, that its result has no place."""
    if path.suffix not in endings:
        raise ParameterError(
            f"{path} must end in {' or '.join(endings)}",
            code=ErrorCode.UNKNOWN_FILE_FORMAT,
        )
    if not path.parent.is_dir():
        raise ParameterError(
            f"{path} lies in no folder that is there; make it first",
            code=ErrorCode.FOLDER_NOT_FOUND,
        )


# --- Models ---------------------------------------------------------------------------


def _load(path: Path, unseen: str | None = None) -> Booster:
    if not path.exists():
        raise DataError(
            f"there is no model {path}; hornbeam train --model makes one",
            code=ErrorCode.FILE_NOT_FOUND,
            path=path,
        )
    booster = hornbeam.Booster(model_file=path)
    if unseen is not None:
        booster.set_param("unseen", unseen)
    return booster


def _columns_of(booster: Booster) -> list[str] | None:
    """Return the names to pick from the data; None takes all columns in order."""
    names = booster.feature_names
    return None if names is None else list(names)


def _tells_labels(booster: Booster) -> bool:
    """Return whether a classifier has written its labels into the model's file."""
    mark = json.loads(booster.attr("scikit_learn") or "{}")
    return isinstance(mark, dict) and "classes" in mark


def _best_rounds(booster: Booster) -> tuple[int, int]:
    """Return the rounds up to the best, where training stopped early; else all."""
    best = booster.attr("best_iteration")
    # A linear model has no part of its rounds.
    if best is None or booster.model.linear is not None:
        return 0, 0
    return 0, int(best) + 1


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
