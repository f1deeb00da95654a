"""Compare the loss and the time of every objective with XGBoost's, on real data.

    python -m benchmarks.objectives --page docs/objectives-benchmark.md
    python -m benchmarks.objectives --measure times --page docs/objectives-benchmark.md

Losses are the default metric of each objective on a held-out third of the rows, after
the same number of rounds of both libraries. The seed determines the third and all
random draws. XGBoost's own metric evaluates the margins of both. Times are CPU seconds
of a round on one thread, compared with binary:logistic on the same rows, as the minimum
of alternating fits. Writes JSON, prints a table, and with --page writes the newest
results of both measures to the page.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xgboost
from rich.console import Console

import hornbeam
from benchmarks import libraries
from benchmarks.machine import add_output_option, clock, core_count, describe, write
from benchmarks.objectives_data import TASKS, Rows

LIBRARIES: dict[str, Any] = {"hornbeam": hornbeam, "xgboost": xgboost}
MEASURES = ("losses", "times")
#: Prefixes of metrics that are maximised.
HIGHER = ("ndcg", "map")
LEVELS = [0.1, 0.5, 0.9]
#: The objective that times are compared with.
LOGISTIC = "binary:logistic"
#: Options that must be equal for results in one table.
OPTIONS = ("rows", "rounds", "eta", "seeds", "repeats")
#: Start and end of the table in a page.
MARKS = ("<!-- table -->\n", "<!-- end of the table -->\n")

Run = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """An objective with its parameters and its task."""

    objective: str
    task: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The objective and its string parameters."""
        words = [word for word in self.parameters.values() if isinstance(word, str)]
        return ", ".join([self.objective, *words])

    @property
    def has_levels(self) -> bool:
        """Whether it has one output per level of LEVELS."""
        return LEVELS in self.parameters.values()

    @property
    def n_outputs(self) -> int:
        """Number of trees per round."""
        return len(LEVELS) if self.has_levels else self.parameters.get("num_class", 1)

    def arguments(self, threads: int, **more: Any) -> dict[str, Any]:
        """Return the parameters for both libraries."""
        shared = libraries.Task(2, 0, threads).xgboost_parameters()
        own = {"objective": self.objective, **self.parameters, **more}
        return {**shared, "verbosity": 0, **own}


def _cases() -> Iterator[Case]:
    for task in ("diamonds", "delays"):
        yield Case("reg:squarederror", task)
        yield Case("reg:pseudohubererror", task)
        yield Case("reg:absoluteerror", task)
        yield Case("reg:quantileerror", task, {"quantile_alpha": LEVELS})
        yield Case("reg:expectileerror", task, {"expectile_alpha": LEVELS})
    yield Case("reg:squaredlogerror", "diamonds")
    for objective in ("reg:logistic", LOGISTIC, "binary:logitraw", "binary:hinge"):
        yield Case(objective, "late")
    yield Case("count:poisson", "claims")
    yield Case("reg:gamma", "sizes")
    yield Case("reg:tweedie", "costs")
    yield Case("survival:cox", "hazards")
    for distribution in ("normal", "logistic", "extreme"):
        yield Case("survival:aft", "times", {"aft_loss_distribution": distribution})
    for objective in ("multi:softmax", "multi:softprob"):
        yield Case(objective, "forests", {"num_class": 7})
    for objective in ("rank:ndcg", "rank:map", "rank:pairwise"):
        task = "relevant" if objective == "rank:map" else "queries"
        for method in ("topk", "mean"):
            yield Case(objective, task, {"lambdarank_pair_method": method})


CASES = list(_cases())


def parse_arguments() -> argparse.Namespace:
    """Return the command line arguments."""
    parser = argparse.ArgumentParser(
        description="Compare every objective with XGBoost's on real data."
    )
    parser.add_argument("--measure", nargs="+", choices=MEASURES, default=["losses"])
    parser.add_argument(
        "--objectives", nargs="+", default=[case.objective for case in CASES]
    )
    parser.add_argument("--rows", type=int, default=30_000, help="at most, of each set")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--eta", type=float, default=libraries.LEARNING_RATE)
    parser.add_argument("--seeds", type=int, default=5, help="of the losses")
    parser.add_argument("--repeats", type=int, default=3, help="of the times")
    parser.add_argument(
        "--threads", type=int, default=core_count(), help="that losses are made on"
    )
    parser.add_argument("--page", type=Path, help="write the table into this page")
    add_output_option(parser)
    return parser.parse_args()


# --- Losses ---------------------------------------------------------------------------


def side_shares(residuals: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return the weights of squared errors of expectiles, by the sign of the error."""
    return np.where(residuals >= 0.0, 1.0 - levels, levels)


def loss_of(case: Case, margins: np.ndarray, rows: Rows) -> tuple[str, float]:
    """Return the name of a metric and its value by XGBoost's implementation."""
    if case.objective == "reg:expectileerror":  # not in XGBoost 3.2
        residuals = margins - rows.fields["label"][:, np.newaxis]
        shares = side_shares(residuals, np.array(LEVELS))
        return "expectile", float(np.mean(shares * residuals**2))
    # A model without trees returns the base margins.
    fields = {**rows.fields, "base_margin": margins}
    data = xgboost.DMatrix(np.zeros((len(margins), 1)), **fields)
    report = xgboost.Booster(case.arguments(1), [data]).eval(data)
    name, value = report.split("-", 1)[1].split(":")
    return name, float(value)


def xgboost_expectiles(
    train: Any, test: Any, parameters: Run, rounds: int
) -> np.ndarray:
    """Return expectiles of XGBoost 3.2: one model with a custom objective per level."""
    labels = train.get_label()
    own = {**parameters, "objective": "reg:squarederror"}
    columns = []
    for level in own.pop("expectile_alpha"):

        def loss(margins: Any, data: Any, level: float = level) -> Any:
            residuals = margins - labels
            shares = side_shares(residuals, level)
            return shares * residuals, shares

        booster = xgboost.train(own, train, rounds, obj=loss)
        columns.append(booster.predict(test))
    return np.stack(columns, axis=1)


def margins_of(
    library: str, case: Case, rows: tuple[Rows, Rows], parameters: Run, rounds: int
) -> np.ndarray:
    """Return the margins of the test rows by a model of the training rows."""
    module = LIBRARIES[library]
    train, test = (
        module.DMatrix(part.x, nthread=parameters["nthread"], **part.fields)
        for part in rows
    )
    if (library, case.objective) == ("xgboost", "reg:expectileerror"):
        return xgboost_expectiles(train, test, parameters, rounds)
    booster = module.train(parameters, train, rounds, verbose_eval=False)
    # The transform of margins sorts the levels.
    return booster.predict(test, output_margin=not case.has_levels)


def losses(case: Case, arguments: argparse.Namespace) -> Iterator[Run]:
    """Yield the loss of each fit of a case."""
    table = TASKS[case.task].load()
    for seed in range(arguments.seeds):
        rows = table.parts(seed, arguments.rows)
        parameters = case.arguments(
            arguments.threads, seed=seed, learning_rate=arguments.eta
        )
        for library in LIBRARIES:
            margins = margins_of(library, case, rows, parameters, arguments.rounds)
            metric, loss = loss_of(case, margins, rows[1])
            yield {"library": library, "seed": seed, "metric": metric, "loss": loss}


# --- Times ----------------------------------------------------------------------------


def times(case: Case, arguments: argparse.Namespace) -> Iterator[Run]:
    """Yield the CPU seconds of a round of each fit, alternating."""
    rows, _ = TASKS[case.task].load().parts(0, arguments.rows)
    first = next(iter(rows.fields.values()))
    halves = {"label": first > np.median(first)}
    halves |= {name: rows.fields[name] for name in ("weight",) if name in rows.fields}
    logistic = Case(LOGISTIC, case.task)
    fits = [
        ("hornbeam", case, rows.fields),
        ("hornbeam", logistic, halves),
        ("xgboost", case, rows.fields),
    ]
    if case.objective == "reg:expectileerror":
        fits.pop()
    ready = [
        (library, LIBRARIES[library].QuantileDMatrix(rows.x, **fields, nthread=1), of)
        for library, of, fields in fits
    ]
    for repeat in range(arguments.repeats + 1):
        for library, data, of in ready:
            parameters = of.arguments(1, learning_rate=arguments.eta)
            rounds = (
                arguments.rounds if repeat else 1
            )  # the first run compiles the kernels
            with clock() as seconds:
                LIBRARIES[library].train(parameters, data, rounds, verbose_eval=False)
            if repeat:
                run = {"library": library, "trained": of.objective, "repeat": repeat}
                yield run | {"round_seconds": seconds.cpu / rounds}


# --- The table ------------------------------------------------------------------------


def newest(
    measure: str, arguments: argparse.Namespace
) -> tuple[list[Run], list[dict[str, Any]]]:
    """Return the newest runs of each case, and their results.

    Only results with the same options as this command are used.
    """
    runs: dict[tuple[str, str], list[Run]] = {}
    results = []
    for path in sorted(arguments.output.glob("objectives-*.json"), reverse=True):
        result = json.loads(path.read_text())
        if any(result["options"][name] != getattr(arguments, name) for name in OPTIONS):
            continue
        found: dict[tuple[str, str], list[Run]] = {}
        for run in result["runs"]:
            case = run["objective"], run["task"]
            if run["measure"] == measure and case not in runs:
                found.setdefault(case, []).append(run)
        if found:
            results.append(result)
            runs |= found
    return [run for own in runs.values() for run in own], results


def runs_of(runs: list[Run], case: Case, **where: Any) -> list[Run]:
    """Return the runs of a case that match `where`."""
    where |= {"objective": case.name, "task": case.task}
    return [run for run in runs if where.items() <= run.items()]


def with_spread(values: np.ndarray, sign: str = "") -> str:
    """Return mean and standard deviation with significant digits."""
    spread = values.std(ddof=1) if values.size > 1 else 0.0
    digits = max(0, 1 - int(np.floor(np.log10(spread)))) if spread > 0 else 5
    return f"{values.mean():{sign}.{digits}f} ± {spread:.{digits}f}"


def compared_losses(runs: list[Run], case: Case) -> list[str]:
    """Return the cells of a table row about losses."""
    if not runs_of(runs, case):
        return ["-"] * 5
    metric = runs_of(runs, case)[0]["metric"]
    ours, theirs = (
        np.array([run["loss"] for run in runs_of(runs, case, library=library)])
        for library in LIBRARIES
    )
    worse = theirs - ours if metric.startswith(HIGHER) else ours - theirs
    if ours.size < 2:
        verdict = "-"
    elif worse.mean() <= worse.std(ddof=1):
        verdict = "yes"
    else:
        verdict = "within" if worse.mean() <= theirs.std(ddof=1) else "**no**"
    spreads = with_spread(ours), with_spread(theirs), with_spread(ours - theirs, "+")
    return [metric, *spreads, verdict]


def compared_times(runs: list[Run], case: Case) -> list[str]:
    """Return the cells of a table row about times."""
    least = {}
    for run in runs_of(runs, case):
        key = run["library"], run["trained"]
        least[key] = min(least.get(key, np.inf), run["round_seconds"])
    own = least.get(("hornbeam", case.objective))
    if own is None:
        return ["-"] * 3
    logistic = case.n_outputs * least["hornbeam", LOGISTIC]
    theirs = least.get(("xgboost", case.objective))
    ratio = f"{own / theirs:.2f}" if theirs else "-"
    return [f"{1000 * own:.2f}", f"{own / logistic:.2f}", ratio]


def table_of(loss_runs: list[Run], time_runs: list[Run]) -> str:
    """Return the table of both measures, in Markdown."""
    headings = ["objective", "data", "metric", "Hornbeam", "XGBoost", "difference"]
    headings += ["not worse", "ms a round", "times logistic's", "times XGBoost's"]
    lines = [headings, ["---"] * len(headings)]
    for case in CASES:
        cells = compared_losses(loss_runs, case) + compared_times(time_runs, case)
        if set(cells) != {"-"}:
            lines.append([f"`{case.name}`", TASKS[case.task].what, *cells])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def conditions_of(measure: str, result: dict[str, Any]) -> str:
    """Return a line about the conditions of a measurement."""
    machine, options = result["machine"], result["options"]
    versions = machine["versions"]
    libraries_used = ", ".join(
        f"{name} {versions[name]}" for name in ("xgboost-cpu", "numpy", "numba")
    )
    return (
        f"{measure.capitalize()}: {machine['date'][:10]}, {machine['processor']}, "
        f"{machine['cores']} cores, load {machine['load_average'][0]:.1f}; "
        f"Python {versions['python']}, {libraries_used}; at most {options['rows']:,} "
        f"rows, {options['rounds']} rounds, eta {options['eta']}.\n"
    )


def report(arguments: argparse.Namespace) -> str:
    """Return the newest runs of both measures as Markdown."""
    (loss_runs, loss_results), (time_runs, time_results) = (
        newest(measure, arguments) for measure in MEASURES
    )
    lines = [conditions_of("losses", result) for result in loss_results]
    lines += [conditions_of("times", result) for result in time_results]
    return "\n".join([*dict.fromkeys(lines), table_of(loss_runs, time_runs)])


def main() -> None:
    """Measure, print, write."""
    arguments = parse_arguments()
    console = Console()
    machine = describe(libraries.PACKAGES)
    ways = {"losses": losses, "times": times}
    runs: list[Run] = []
    for measure in arguments.measure:
        for case in CASES:
            if case.objective not in arguments.objectives:
                continue
            about = {"measure": measure, "objective": case.name, "task": case.task}
            own = [about | run for run in ways[measure](case, arguments)]
            cells = {"losses": compared_losses, "times": compared_times}[measure]
            line = " | ".join([case.name, case.task, *cells(own, case)])
            console.print(line, highlight=False, soft_wrap=True)
            runs += own
    result = {"machine": machine, "options": vars(arguments), "runs": runs}
    print(write("objectives", result, arguments.output))
    if arguments.page is not None:
        page = arguments.page.read_text()
        before, after = page.split(MARKS[0])[0], page.split(MARKS[1])[1]
        table = f"{MARKS[0]}\n{report(arguments)}\n{MARKS[1]}"
        arguments.page.write_text(before + table + after)


if __name__ == "__main__":
    main()
