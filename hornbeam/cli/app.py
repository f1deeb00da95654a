"""The commands and their options."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

# The names of these packages are loaded on first use, so that --help stays fast.
import hornbeam
import hornbeam.cli.devices
import hornbeam.cli.plan
import hornbeam.explain.report
from hornbeam import __version__
from hornbeam.cli import completion
from hornbeam.cli.classes import classes_of, encode_label
from hornbeam.cli.column_options import BaseMargin, takes_columns
from hornbeam.cli.predictions import best_rounds, predictions, write
from hornbeam.cli.rows import (
    MetaColumns,
    Quality,
    Task,
    matrix_of,
    meta_columns,
    open_source,
    select,
)
from hornbeam.distributed.scale import ENGINES, Cluster, Job
from hornbeam.errors import DataError, DeviceError, ErrorCode, ParameterError
from hornbeam.files import naming
from hornbeam.installation import describe
from hornbeam.parameter_names import other_names
from hornbeam.params import ATTRIBUTE, Parameters, parameter_table

if TYPE_CHECKING:
    from hornbeam.boosting.booster import Booster
    from hornbeam.data.dmatrix import DMatrix

__all__ = ["app"]

app = typer.Typer(
    help="Gradient boosted trees, the same model on any number of threads.",
    epilog="Exit codes: 0 success, 2 bad input (one line on stderr says what to mend), "
    "130 interrupted, 1 a fault of Hornbeam.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version and exit; `hornbeam info` prints more.",
        ),
    ] = False,
) -> None: ...


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
    typer.Option(
        help="How to treat unseen categories: error or missing.",
        autocompletion=completion.words("error", "missing"),
    ),
]
ModelIn = Annotated[Path, typer.Option("--model", help="A model, .ubj or .json.")]


def _parameters_help() -> str:
    """Return the table of parameters, as lines that typer does not wrap."""
    lines = ["\b", "Parameters, with their defaults:"]
    for row in parameter_table():
        default = "" if row.default in (None, []) else f" [{row.default}]"
        names = ", ".join([row.name, *row.aliases])
        lines.append(f"  {names:28} {row.help}{default}")
    return "\n".join(lines)


@app.command(epilog=_parameters_help())
@takes_columns
def train(
    data: Data,
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            help="Parameters, such as max_depth=4.",
            metavar="KEY=VALUE",
            autocompletion=completion.parameters,
        ),
    ] = None,
    *,
    columns: MetaColumns,
    model: Annotated[
        Path,
        typer.Option("--model", "--output", "-o", help="Where to save: .ubj or .json."),
    ] = Path("model.ubj"),
    task: Annotated[
        Task | None, typer.Option(help="The task. Default: the target column tells.")
    ] = None,
    quality: Annotated[
        Quality,
        typer.Option(
            help="How much time to spend on finding parameters and rounds: fast, auto, "
            "best, or none for 100 rounds at XGBoost's learning rate. Nothing is "
            "sought if --rounds or learning_rate is given."
        ),
    ] = Quality.AUTO,
    valid: Annotated[str | None, typer.Option(help="Data to evaluate on.")] = None,
    database: Database = None,
    params: Annotated[
        list[str] | None,
        typer.Option(help="Parameters: a .json or .toml file, or key=value."),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="The number of boosting rounds.")
    ] = None,
    early_stopping: Annotated[
        int | None,
        typer.Option(help="Stop after this many rounds without a better --valid."),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(
            help="A column to leave out; may be repeated.",
            autocompletion=completion.columns,
        ),
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
    """Train a model on DATA and save it.

    The target column tells the task: text, booleans and few whole numbers are classes,
    other numbers are values.
    """
    params_given = _settings([*(params or ()), *(settings or ())])
    Parameters.resolve(params_given)
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
    hornbeam.cli.run(
        hornbeam.cli.Job(
            data,
            dict(params_given),
            columns,
            model,
            valid,
            database,
            task,
            None if quality is Quality.NONE else quality.value,
            rounds,
            early_stopping,
            drop or (),
            cache or (),
            memory_limit,
        )
    )


@app.command()
def predict(
    data: Data,
    *,
    model: ModelIn,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Where to write: .csv or .parquet; - is stdout, as CSV.",
        ),
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
    if output == Path("-"):
        output = None
    if output is not None:
        _check_destination(output, (".csv", ".parquet"))
    booster = _load(model, unseen)
    columns = meta_columns(base_margin=base_margin)
    source = select(open_source(data, database), _feature_columns(booster), columns)
    write(predictions(booster, source, columns, margin), output)


@app.command()
@takes_columns
def evaluate(
    data: Data,
    *,
    model: ModelIn,
    columns: MetaColumns,
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
    source = select(open_source(data, database), _feature_columns(booster), columns)
    matrix = matrix_of(*encode_label(source, columns, classes_of(booster)))
    begin, end = best_rounds(booster)
    if end:
        booster = booster[begin:end]
    for name, score in booster.measure([(matrix, "data")]):
        typer.echo(f"{name.removeprefix('data-')}\t{score:.6g}")


@app.command()
@takes_columns
def report(
    model: Annotated[Path, typer.Argument(help="A model, .ubj or .json.")],
    data: Data,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write the page, .html.")
    ] = Path("report.html"),
    columns: MetaColumns,
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

    start = perf_counter()
    booster = _load(model)

    classes = classes_of(booster)
    if class_names is None and classes is not None:
        class_names = [str(name) for name in classes]

    def read(data: str) -> DMatrix:
        source = open_source(data, database)
        rows = select(source, _feature_columns(booster), columns)
        return matrix_of(*encode_label(rows, columns, classes))

    evaluated, trained_on = (data, train) if valid is None else (valid, data)
    with Console(stderr=True).status("reading") as status:
        hornbeam.explain.report.report(
            booster,
            read(evaluated),
            None if trained_on is None else read(trained_on),
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
        str,
        typer.Option(
            help="gain, weight, cover, total_gain or total_cover.",
            autocompletion=completion.words(
                "gain", "weight", "cover", "total_gain", "total_cover"
            ),
        ),
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
    if classes_of(booster) is not None:
        classifier = hornbeam.HornbeamClassifier()
        classifier.load_model(model)
        classifier.export(output, **options)
    else:
        booster.export(output, iteration_range=best_rounds(booster), **options)
    _say(f"{booster.digest()[:12]} exported to {output}")


@app.command()
def params(
    word: Annotated[
        str | None, typer.Argument(help="A name, or a part of one or of its meaning.")
    ] = None,
) -> None:
    """List the parameters of training, or those that WORD finds.

    Names of LightGBM, CatBoost and scikit-learn find them, too.
    """
    rows = [
        row
        for row in parameter_table()
        if word is None
        or any(
            word.lower() in text.lower()
            for text in (row.name, *row.aliases, *other_names(row.name), row.help)
        )
    ]
    if not rows:
        raise ParameterError(
            f"no parameter has {word!r} in its names or its meaning; "
            "hornbeam params lists all",
            code=ErrorCode.UNKNOWN_PARAMETER,
        )
    for row in rows:
        typer.echo(", ".join([row.name, *row.aliases]))
        facts = [f"default {row.default}"] if row.default not in (None, []) else []
        typer.echo(f"    {'; '.join([row.help, *facts])}")
        if row.range:
            typer.echo(f"    {row.range}")


@app.command()
def warmup() -> None:
    """Compile the kernels now, so that the first training starts at once."""

    start = perf_counter()
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("compiling", total=None)
        hornbeam.warmup(
            lambda done, total: bar.update(task, completed=done, total=total),
            load=False,
        )
    _say(f"the kernels are ready after {perf_counter() - start:.1f} s")


@app.command()
def devices(
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Train a small model on each, and compare the digests."
        ),
    ] = False,
) -> None:
    """List the OpenCL devices that trees can be grown on."""
    found = hornbeam.cli.devices.describe()
    if not found:
        raise DeviceError(
            "OpenCL finds no device; install the driver of the GPU, or to try it "
            'without one: pip install "hornbeam[pocl]"',
            code=ErrorCode.DEVICE_NOT_FOUND,
        )
    _print_table("Devices", found)
    if not check:
        return
    results, all_right = hornbeam.cli.devices.check()
    _print_table("Models", results)
    if not all_right:
        raise DeviceError(
            "a device does not give the model of the CPU; report it with the output "
            "of hornbeam devices",
            code=ErrorCode.DEVICE_FAILED,
        )


@app.command()
def plan(
    rows: Annotated[float, typer.Option(help="Rows of the training data: 1e9.")],
    features: Annotated[int, typer.Option(help="Columns.")],
    workers: Annotated[int, typer.Option(help="Workers of the cluster.")],
    engine: Annotated[
        str,
        typer.Option(
            help="dask, ray, spark, or group (plain processes).",
            autocompletion=completion.words("dask", "ray", "spark", "group"),
        ),
    ] = "dask",
    rounds: Annotated[int, typer.Option(help="Rounds, of one tree each.")] = 100,
    depth: Annotated[int, typer.Option(help="max_depth of the trees.")] = 6,
    bins: Annotated[int, typer.Option(help="max_bin.")] = 256,
    threads: Annotated[int, typer.Option(help="Threads of a worker.")] = 16,
    memory: Annotated[float, typer.Option(help="GB of a worker.")] = 256,
    network: Annotated[float, typer.Option(help="Gbit/s of a link.")] = 10,
) -> None:
    """Estimate workers, memory, network and time of a training on a cluster.

    The model of docs/scale.md, with the rates measured there: for orientation.
    """
    numbers = {
        "--rows": rows,
        "--features": features,
        "--workers": workers,
        "--rounds": rounds,
        "--depth": depth,
        "--bins": bins,
        "--threads": threads,
        "--memory": memory,
        "--network": network,
    }
    for name, value in numbers.items():
        if not value > 0:
            raise ParameterError(
                f"{name} must be above 0, not {value:g}",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
    if engine not in ENGINES:
        raise ParameterError(
            f"--engine must be one of {', '.join(ENGINES)}, not {engine!r}",
            code=ErrorCode.UNKNOWN_OPTION,
        )
    job = Job(rows, features, bins, depth)
    cluster = Cluster(workers, threads, network=network * 1e9 / 8, memory=memory * 1e9)
    _print_table("Plan", hornbeam.cli.plan.describe(job, cluster, engine, rounds))


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
            pairs.append((_checked(name.strip()), value.strip()))
        else:
            pairs.extend(_read_parameters(Path(item)).items())
    return pairs


#: Options of the command that are arguments in Python.
_OPTIONS = {
    **dict.fromkeys(("n_estimators", "num_round", "num_boost_round"), "--rounds"),
    "early_stopping_rounds": "--early-stopping",
    "evals": "--valid",
    "eval_set": "--valid",
    "quality": "--quality",
}


def _checked(name: str) -> str:
    """Return the name of a parameter, or raise an error if it is that of an option."""
    if name in _OPTIONS:
        raise ParameterError(
            f"{name!r} is no parameter here; pass {_OPTIONS[name]}",
            code=ErrorCode.UNKNOWN_PARAMETER,
        )
    return name


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


# --- Output ---------------------------------------------------------------------------


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


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
