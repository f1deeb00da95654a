"""Draw the picture of the README: fit times beside other libraries, at four sizes.

    python -m benchmarks.picture
    python -m benchmarks.picture --result benchmarks/results/picture-....json

Takes about five minutes on an idle machine. Every fit runs in a new process on one
thread, data preparation included and kernels loaded before. The libraries alternate; a
bar is the least CPU time of the repeats, because other processes can only increase it.
Writes JSON to benchmarks/results/, the picture for light and for dark pages to docs/,
and its caption to the pages that show it. `--result` only draws.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import textwrap
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from rich.console import Console

from benchmarks.data import SETS
from benchmarks.libraries import PACKAGES
from benchmarks.machine import add_output_option, describe, write
from benchmarks.runs import Run, least_of, run_all

#: The panels from left to right, and how often each fit is repeated.
PANELS = {
    "made-1k": ("1,000 x 10", 5),
    "made-30k": ("30,000 x 28", 3),
    "made-300k": ("300,000 x 28", 2),
    "made-1m": ("1,000,000 x 28", 2),
}
#: Libraries, their names in the picture, and the packages that have their versions.
NAMES = {
    "hornbeam": ("Hornbeam", "hornbeam"),
    "hessboost": ("hessboost", "hessboost"),
    "xgboost": ("XGBoost", "xgboost-cpu"),
    "lightgbm": ("LightGBM", "lightgbm"),
    "catboost": ("CatBoost", "catboost"),
    "sklearn": ("scikit-learn", "scikit-learn"),
}
ROUNDS = 100
ROOT = Path(__file__).parent.parent
#: The pages that show the picture. The caption is between two comments.
PAGES = [ROOT / "README.md", ROOT / "docs" / "benchmarks.md"]
CAPTION = re.compile(r"(?<=<!-- fit times -->\n).*(?=\n<!-- end -->)", re.DOTALL)
#: A load average at the start from which the caption gives it.
BUSY = 1.0
#: Colours of text, of Hornbeam's bars and of the others, for each kind of page.
COLOURS = {
    "light": ("#1f2328", "#1a7f37", "#c4cad1"),
    "dark": ("#e6edf3", "#3fb950", "#4b535d"),
}


def parse_arguments() -> argparse.Namespace:
    """Return the command line arguments."""
    parser = argparse.ArgumentParser(description="Draw the fit times of the README.")
    parser.add_argument("--result", type=Path, help="draw this result, measure nothing")
    parser.add_argument("--rows", type=int, help="train on this many rows of each set")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--repeats", type=int, help="of each fit; default: by size")
    parser.add_argument(
        "--libraries",
        nargs="+",
        choices=NAMES,
        default=list(NAMES),
        help="default: all",
    )
    parser.add_argument(
        "--pictures", type=Path, default=ROOT / "docs", help="folder of the pictures"
    )
    parser.add_argument(
        "--pages",
        type=Path,
        nargs="*",
        default=PAGES,
        help="pages that get the caption",
    )
    add_output_option(parser)
    return parser.parse_args()


def measure(arguments: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Return the runs of all panels, with the machine they ran on."""
    machine = describe(PACKAGES)
    runs: list[Run] = []
    for name, (_, repeats) in PANELS.items():
        options = argparse.Namespace(
            sets=[name],
            rows=arguments.rows,
            rounds=arguments.rounds,
            repeats=arguments.repeats or repeats,
            libraries=arguments.libraries,
            threads=[1],
        )
        runs += run_all(SETS, options, console)
    machine["load_average_after"] = os.getloadavg()
    return {"machine": machine, "options": vars(arguments), "runs": runs}


def draw(runs: list[Run], theme: str, path: Path) -> None:
    """Write an SVG with a panel for each size and a bar for each library."""
    text, ours, theirs = COLOURS[theme]
    libraries = [name for name in NAMES if any(run["library"] == name for run in runs)]
    figure = Figure(figsize=(10, 2.5), layout="constrained")
    grid = figure.subplots(1, len(PANELS), sharey=True)
    for axes, (set_name, (title, _)) in zip(grid, PANELS.items(), strict=True):
        for place, library in enumerate(libraries):
            seconds = least_of(runs, "cpu_seconds", set=set_name, library=library)
            if seconds is None:
                continue
            first = library == libraries[0]
            axes.barh(place, seconds, height=0.7, color=ours if first else theirs)
            axes.annotate(
                f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s",
                (seconds, place),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                color=text,
                fontweight="bold" if first else "normal",
            )
        axes.set_title(title, color=text, fontsize=11)
        axes.set_yticks(
            range(len(libraries)), [NAMES[library][0] for library in libraries]
        )
        axes.set_ylim(len(libraries) - 0.5, -0.5)
        axes.set_xlim(0, axes.get_xlim()[1] * 1.25)
        axes.tick_params(left=False, bottom=False, labelbottom=False, colors=text)
        axes.spines[:].set_visible(False)
    # Letters as outlines look the same everywhere; a fixed salt and no date keep the
    # file the same for the same runs.
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "hornbeam"}):
        figure.savefig(path, transparent=True, metadata={"Date": None})


def caption(result: dict[str, Any]) -> str:
    """Return the sentence below the picture: what was measured, on what, with what."""
    machine, runs = result["machine"], result["runs"]
    versions = machine["versions"]
    libraries = dict.fromkeys(run["library"] for run in runs)
    load = machine["load_average"][0]
    busy = f" with a load average of {load:.0f}" if load > BUSY else ""
    named = ", ".join(f"{NAMES[key][0]} {versions[NAMES[key][1]]}" for key in libraries)
    return (
        f"CPU seconds of a whole fit on one thread, data preparation included: "
        f"{runs[0]['rounds']} trees of depth 6, 256 bins, two classes, generated rows; "
        f"the least of several fits that ran in turn. {machine['processor']}{busy}, "
        f"Python {versions['python']}; {named}."
    )


def main() -> None:
    """Measure or read, draw, print."""
    arguments = parse_arguments()
    console = Console(width=100)
    if arguments.result:
        result = json.loads(arguments.result.read_text())
    else:
        result = measure(arguments, console)
        console.print(write("picture", result, arguments.output), highlight=False)
    arguments.pictures.mkdir(parents=True, exist_ok=True)
    for theme in COLOURS:
        path = arguments.pictures / f"fit-times-{theme}.svg"
        draw(result["runs"], theme, path)
        console.print(path, highlight=False)
    text = textwrap.fill(caption(result), width=140)
    for page in arguments.pages:
        page.write_text(CAPTION.sub(lambda _: text, page.read_text()))
    console.print(caption(result), highlight=False)


if __name__ == "__main__":
    main()
