"""Compare fits on sparse matrices with XGBoost's.

    python -m benchmarks.sparse

Every fit runs in a new process, data preparation included, the libraries alternate, and
repeat r samples its rows with seed r. Seconds are the minimum of the repeats; the loss
is their mean with its standard deviation.
"""

from __future__ import annotations

import argparse
import statistics

from rich.console import Console
from rich.table import Table

from benchmarks.data import SPARSE_SETS
from benchmarks.libraries import LIBRARIES, PACKAGES
from benchmarks.machine import add_output_option, describe, write
from benchmarks.runs import run_all, values_of


def parse_arguments() -> argparse.Namespace:
    """Return the command line arguments."""
    parser = argparse.ArgumentParser(description="Compare fits on sparse matrices.")
    parser.add_argument(
        "--sets", nargs="+", choices=SPARSE_SETS, default=list(SPARSE_SETS)
    )
    parser.add_argument("--rows", type=int, help="train on this many rows of each set")
    parser.add_argument("--rounds", type=int, help="boosting rounds, for every set")
    parser.add_argument("--repeats", type=int, default=5, help="default: 5")
    parser.add_argument(
        "--libraries",
        nargs="+",
        choices=LIBRARIES,
        default=["hornbeam", "xgboost"],
        help="default: hornbeam and xgboost",
    )
    parser.add_argument(
        "--threads", nargs="+", type=int, default=[1], help="default: 1"
    )
    add_output_option(parser)
    return parser.parse_args()


def main() -> None:
    """Measure, print, write."""
    arguments = parse_arguments()
    console = Console()
    machine = describe(PACKAGES)
    runs = list(run_all(SPARSE_SETS, arguments, console))
    table = Table(title="Sparse matrices")
    for heading in ("set", "library", "threads", "CPU s", "wall s", "MB", "loss"):
        table.add_column(heading)
    for set_name in arguments.sets:
        for threads in arguments.threads:
            for library in arguments.libraries:
                where = {"set": set_name, "threads": threads, "library": library}
                losses = values_of(runs, "loss", **where)
                if not losses:
                    continue
                spread = statistics.stdev(losses) if len(losses) > 1 else 0.0
                table.add_row(
                    set_name,
                    library,
                    str(threads),
                    f"{min(values_of(runs, 'cpu_seconds', **where)):.3g}",
                    f"{min(values_of(runs, 'wall_seconds', **where)):.3g}",
                    f"{min(values_of(runs, 'megabytes_peak', **where)):.0f}",
                    f"{statistics.mean(losses):.5f} ± {spread:.5f}",
                )
    console.print(table)
    result = {"machine": machine, "options": vars(arguments), "runs": runs}
    print(write("sparse", result, arguments.output))


if __name__ == "__main__":
    main()
