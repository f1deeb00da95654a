"""The command line: train, predict, evaluate, report, inspect, export, warmup, info."""

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

# The names of these packages are loaded on first use, so that --help stays fast.
import hornbeam
import hornbeam.explain.report
from hornbeam import __version__
from hornbeam.data.sources.batches import Place
from hornbeam.errors import DataError, ErrorCode, ParameterError, require
from hornbeam.files import naming, replacing
from hornbeam.installation import describe
from hornbeam.params import ATTRIBUTE, Parameters, parameter_table

for module in ("typer", "rich", "pyarrow"):
    require(module, "cli", "the command line")

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

if TYPE_CHECKING:
    from hornbeam.boosting.booster import Booster
    from hornbeam.data.dmatrix import DMatrix
    from hornbeam.data.sources.batches import Source

__all__ = ["app"]

#: Names of columns by argument of a matrix, such as {"label": "price"}.
MetaColumns: TypeAlias = dict[str, Any]

#: Parameters that must not change the bytes of a model file.
NOT_SAVED = {"nthread", "device", "verbosity"}

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
        help="A Parquet, CSV, libsvm or Arrow file, or a folder or glob of them, with "
        "optional options: data.txt?format=csv. With --database a query: SELECT ...",
        metavar="DATA",
    ),
]
Database = Annotated[
    Path | None,
    typer.Option(help="A DuckDB file; DATA and --valid are then queries of it."),
]
Unseen = Annotated[
    str | None,
    typer.Option(help="How to treat unseen categories: error or missing."),
]
ModelIn = Annotated[Path, typer.Option("--model", help="A model, .ubj or .json.")]
Target = Annotated[
    str | None,
    typer.Option(help="The label column; not for libsvm files, which have labels."),
]
Weight = Annotated[str | None, typer.Option(help="The column of weights.")]
Group = Annotated[
    str | None,
    typer.Option(
        "--group",
        "--qid",
        help="The column of query ids, for ranking: non-decreasing integers.",
    ),
]
LowerBound = Annotated[
    str | None,
    typer.Option(
        "--label-lower-bound",
        help="The column of lower bounds of labels, for survival:aft.",
    ),
]
UpperBound = Annotated[
    str | None,
    typer.Option(
        "--label-upper-bound",
        help="The column of upper bounds of labels; inf if right-censored.",
    ),
]
BaseMargin = Annotated[
    str | None,
    typer.Option(help="The column of base margins, to which trees add."),
]


def _parameters_help() -> str:
    """Return the table of parameters, as lines that typer does not wrap."""
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
    rounds: Annotated[int, typer.Option(help="The number of boosting rounds.")] = 100,
    early_stopping: Annotated[
        int | None,
        typer.Option(help="Stop after this many rounds without a better --valid."),
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
            help="A folder for external memory: bin indices are stored there instead "
            "of in memory. May be repeated, best with a folder on each disk."
        ),
    ] = None,
    memory_limit: Annotated[
        str | None,
        typer.Option(help="The memory limit with --cache, such as 2GB."),
    ] = None,
) -> None:
    """Train a model on DATA and save it."""
    parameters = Parameters.resolve(_settings([*(params or ()), *(settings or ())]))
    _check_destination(model, (".ubj", ".json"))
    if early_stopping is not None and valid is None:
        raise ParameterError(
            "--early-stopping needs data to evaluate on; pass --valid",
            code=ErrorCode.MISSING_PARAMETER,
        )
    if memory_limit is not None and not cache:
        raise ParameterError(
            "--memory-limit needs a folder on disk; pass --cache",
            code=ErrorCode.MISSING_PARAMETER,
        )

    columns = _meta_columns(
        label=target,
        weight=weight,
        qid=group,
        label_lower_bound=label_lower_bound,
        label_upper_bound=label_upper_bound,
        base_margin=base_margin,
    )
    start = perf_counter()
    source = _open(data, database)
    features = _features(source, columns, drop or ())

    def matrix_of(rows: Source, name: str, **options: Any) -> DMatrix:
        if not cache:
            return _matrix(rows, columns)
        matrix = hornbeam.ExtMemQuantileDMatrix(
            rows,
            cache=[folder / name for folder in cache],
            memory_limit=memory_limit,
            max_bin=parameters.max_bin,
            nthread=parameters.nthread,
            **columns,
            **options,
        )
        return _check_labels(matrix, rows)

    dtrain = matrix_of(features, "train")
    evals = []
    if valid is not None:
        names = dtrain.feature_names
        valid_source = _select(_open(valid, database), names, columns)
        dvalid = matrix_of(valid_source, "valid", ref=dtrain, unseen=parameters.unseen)
        if dvalid.table.is_stream:
            # It is evaluated in every round, so its bins are kept in memory.
            dvalid = hornbeam.QuantileDMatrix(
                valid_source,
                ref=dtrain,
                max_bin=parameters.max_bin,
                unseen=parameters.unseen,
                **columns,
            )
        evals = [(dvalid, "valid")]
    booster = hornbeam.train(
        parameters.changed(),
        dtrain,
        rounds,
        evals=evals,
        early_stopping_rounds=early_stopping,
        verbose_eval=False,
        callbacks=[hornbeam.ProgressBar(rounds)],
    )
    saved = {k: v for k, v in parameters.changed().items() if k not in NOT_SAVED}
    booster.set_attr(**{ATTRIBUTE: json.dumps(saved)})
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
        bool,
        typer.Option("--margin", help="Leave out the objective's transformation."),
    ] = False,
    base_margin: BaseMargin = None,
    database: Database = None,
    unseen: Unseen = None,
) -> None:
    """Predict the rows of DATA with a saved model."""
    if output is not None:
        _check_destination(output, (".csv", ".parquet"))
    booster = _load(model, unseen)
    columns = _meta_columns(base_margin=base_margin)
    source = _select(_open(data, database), _feature_columns(booster), columns)
    tables = _predictions(booster, source, columns, margin)
    if output is None:
        _write_csv(tables, sys.stdout.buffer)
        return
    write = _write_parquet if output.suffix == ".parquet" else _write_csv
    # An existing file is replaced only after all predictions are written.
    with replacing(output) as sink:
        write(tables, sink)


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
        typer.Option(help="A metric; may be repeated. Default: the objective's."),
    ] = None,
) -> None:
    """Print the metrics of a saved model on DATA, one per line."""
    booster = _load(model, unseen)
    if metric:
        booster.set_param("eval_metric", metric)
    columns = _meta_columns(
        label=target,
        weight=weight,
        qid=group,
        label_lower_bound=label_lower_bound,
        label_upper_bound=label_upper_bound,
        base_margin=base_margin,
    )
    source = _select(_open(data, database), _feature_columns(booster), columns)
    matrix = _matrix(source, columns)
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
        typer.Option(help="The training data, to compare DATA with."),
    ] = None,
    valid: Annotated[
        str | None,
        typer.Option(help="The data to evaluate on; DATA is then the training data."),
    ] = None,
    database: Annotated[
        Path | None,
        typer.Option(
            help="A DuckDB file; DATA, --train and --valid are then queries of it."
        ),
    ] = None,
    class_names: Annotated[
        list[str] | None,
        typer.Option("--class", help="A class name; repeat it for each, in order."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="The title of the page.")] = None,
    rows: Annotated[
        int | None,
        typer.Option(help="The maximum rows of each data set. Default: 400,000."),
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed.")] = 0,
) -> None:
    """Write a report of a saved model on DATA: one self-contained HTML page."""
    if train is not None and valid is not None:
        raise ParameterError(
            "--train and --valid cannot be combined; with --train, DATA is the data to "
            "evaluate on, and with --valid, DATA is the training data",
            code=ErrorCode.CONFLICTING_PARAMETERS,
        )
    _check_destination(output, (".html", ".htm"))

    columns = _meta_columns(
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
        return _matrix(_select(source, _feature_columns(booster), columns), columns)

    evaluated, trained_on = (data, train) if valid is None else (valid, data)
    with Console(stderr=True).status("reading") as status:
        hornbeam.explain.report.report(
            booster,
            matrix_of(evaluated),
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
    top: Annotated[int, typer.Option(help="The number of features to list.")] = 20,
) -> None:
    """Print a summary of a model: size, parameters and importances."""
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
        bool,
        typer.Option("--margin", help="Leave out the objective's transformation."),
    ] = False,
) -> None:
    """Export a model to ONNX, C or Python source, or XGBoost's format."""
    _check_destination(output, (".onnx", ".c", ".py", ".json", ".ubj"))
    booster = _load(model)
    options = {"output_margin": True} if margin else {}
    if _has_class_labels(booster):
        classifier = hornbeam.HornbeamClassifier()
        classifier.load_model(model)
        classifier.export(output, **options)
    else:
        booster.export(output, iteration_range=_best_rounds(booster), **options)
    _say(f"{booster.digest()[:12]} exported to {output}")


@app.command()
def warmup() -> None:
    """Compile the kernels now, so that the first training starts at once."""

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


@app.command()
def info() -> None:
    """Print what a report of a fault needs: versions, kernels, threads, extras."""
    for name, value in describe():
        typer.echo(f"{name + ':':15}{value}")


# --- Parameters -----------------------------------------------------------------------


def _settings(items: Sequence[str]) -> list[tuple[str, Any]]:
    """Return the parameters of ``key=value`` items and parameter files, in order."""
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
    with naming(path):
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
    """Return the source of a file, or of a query of the database."""
    if database is None:
        return hornbeam.read(data)
    duckdb = require("duckdb", "files", "--database")
    if not database.is_file():
        raise DataError(
            f"the database {database} does not exist",
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


def _meta_columns(**options: str | None) -> MetaColumns:
    """Return the columns of labels, weights and so on, without those that are None."""
    columns = {field: name for field, name in options.items() if name is not None}
    fields: dict[str, str] = {}
    for field, name in columns.items():
        if fields.setdefault(name, field) != field:
            raise ParameterError(
                f"the column {name!r} cannot be both {fields[name]} and {field}; name "
                "another column for one of them",
                code=ErrorCode.CONFLICTING_PARAMETERS,
            )
    return columns


def _features(source: Source, columns: MetaColumns, drop: Sequence[str]) -> Source:
    """Return the source without the columns to drop."""
    names = source.column_names
    if names is None:
        return _select(source, drop or None, columns)
    _check_columns(source, [*columns.values()], drop)
    return _select(source, [name for name in names if name not in drop], columns)


def _select(
    source: Source, features: Sequence[str] | None, columns: MetaColumns
) -> Source:
    """Return the source with these features and columns; with all if None."""
    added = [*columns.values()]
    _check_columns(source, added, features or ())
    if features is None or not source.named:
        return source
    return hornbeam.read(
        source, columns=[*features, *(n for n in added if n not in features)]
    )


def _check_columns(source: Source, *groups: Sequence[str]) -> None:
    names = source.column_names
    for name in (name for group in groups for name in group):
        if names is not None and name not in names:
            raise DataError(
                f"{source.name} has no column {name!r}; it has {', '.join(names)}",
                code=ErrorCode.COLUMN_NOT_FOUND,
            )


def _matrix(source: Source, columns: MetaColumns) -> DMatrix:
    return _check_labels(hornbeam.DMatrix(source, **columns), source)


def _check_labels(matrix: DMatrix, source: Source) -> DMatrix:
    """Return the matrix, or raise an error if it has no labels."""
    bounds = matrix.get_float_info("label_lower_bound")
    if len(matrix.get_label()) == len(bounds) == 0:
        raise ParameterError(
            f"{source.name} has no labels; name their column with --target, or for "
            "survival:aft with --label-lower-bound",
            code=ErrorCode.MISSING_PARAMETER,
        )
    return matrix


def _predictions(
    booster: Booster, source: Source, columns: MetaColumns, margin: bool
) -> Iterator[pa.Table]:
    """Yield the predictions of each batch, in one pass over the source.

    The message of an error contains the batch and the row.
    """
    rounds = _best_rounds(booster)
    row = 0
    for number, batch in enumerate(source.batches()):
        with Place(number, row, source.name, batch.origin).named():
            matrix = hornbeam.DMatrix(batch.data, **columns)
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
    # pa.array would import pandas, which takes half a second.
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
    """Raise an error if the result could not be saved, before it is computed."""
    if path.suffix not in endings:
        raise ParameterError(
            f"{path} must end in {' or '.join(endings)}",
            code=ErrorCode.UNKNOWN_FILE_FORMAT,
        )
    if not path.parent.is_dir():
        raise ParameterError(
            f"the folder of {path} does not exist; create it first",
            code=ErrorCode.FOLDER_NOT_FOUND,
        )


# --- Models ---------------------------------------------------------------------------


def _load(path: Path, unseen: str | None = None) -> Booster:
    if not path.exists():
        raise DataError(
            f"the model {path} does not exist; save one with hornbeam train --model",
            code=ErrorCode.FILE_NOT_FOUND,
            path=path,
        )
    booster = hornbeam.Booster(model_file=path)
    if unseen is not None:
        booster.set_param("unseen", unseen)
    return booster


def _feature_columns(booster: Booster) -> list[str] | None:
    """Return the feature names of the model; None for all columns in order."""
    return booster.model.raw_schema.names


def _has_class_labels(booster: Booster) -> bool:
    """Return whether the model file was saved by a classifier with its labels."""
    metadata = json.loads(booster.attr("scikit_learn") or "{}")
    return isinstance(metadata, dict) and "classes" in metadata


def _best_rounds(booster: Booster) -> tuple[int, int]:
    """Return the rounds up to the best iteration of early stopping; else all."""
    best = booster.attr("best_iteration")
    # A linear model cannot be split into rounds.
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
