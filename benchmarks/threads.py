"""Measure the speed-up of fits by threads, and the time that one thread works alone.

    python -m benchmarks.threads

Fits with 1, 2, 4, 8 and 16 threads, as many as the machine has, beside XGBoost's and
LightGBM's: wall seconds, data preparation included, each fit in a new process, as the
minimum of the repeats. Prints a table of each set, and writes JSON, and a plot of the
speed-up if matplotlib is installed, to benchmarks/results/.

The serial share is the time in which only one thread works, as a share of the time of
a fit with one thread. It has two parts:

- Outside shared work, which is Python and the kernels too small to share: the CPU time
  of the calling thread of a fit with many threads. It does not depend on other load.
- Inside shared kernels, where the others wait: the CPU time that a fit with n threads
  takes more than one with one thread, divided by n - 1, because threads that wait at a
  barrier spin. It is an upper bound, because lost caches and other load are in it too.

Neither has the time in which threads are woken, 30 to 90 µs a dispatch; the number of
dispatches is printed. A check is the share by Amdahl's law from the wall times of one
thread and of n. It has all of this, uneven shares and the limits of memory and clock
as well; on a machine with other load it is far too large.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from rich.console import Console
from rich.table import Table

from benchmarks.data import SETS, Split
from benchmarks.libraries import LIBRARIES, PACKAGES, Task
from benchmarks.machine import add_output_option, clock, core_count, describe, write
from benchmarks.runs import Run, count, least_of, run_all, values_of
from hornbeam.kernels.team import Team

__all__ = ["amdahl_share", "sharing", "waiting_share"]

#: The serial share that is asked for at most, by set.
ASKED = {"made-1m": 0.01, "made-50k": 0.05}
#: Numbers of threads, as far as the machine has cores.
THREADS = (1, 2, 4, 8, 16)
#: Rows and rounds of a fit before the measurement, which loads the kernels.
WARM_ROWS, WARM_ROUNDS = 20_000, 3


class Sharing:
    """What `sharing` measured of a block of code.

    Attributes
    ----------
    alone
        CPU seconds of the calling thread outside shared work.
    dispatches
        How often work was handed to several threads.
    """

    def __init__(self) -> None:
        self.alone = 0.0
        self.dispatches = 0


@contextmanager
def sharing() -> Iterator[Sharing]:
    """Measure how long the calling thread works alone, and count the dispatches.

    Replaces the ways in which threads share work: `Team.run` and `Team.repeat` with
    more than one thread, and the thread pools of binning.
    """
    found = Sharing()
    shared = 0.0
    run, repeat = Team.run, Team.repeat

    def timed_run(
        team: Team, kernel: Any, n_threads: int, *args: Any, **options: Any
    ) -> None:
        nonlocal shared
        if n_threads == 1:
            run(team, kernel, n_threads, *args, **options)
            return
        start = time.thread_time()
        run(team, kernel, n_threads, *args, **options)
        shared += time.thread_time() - start
        found.dispatches += 1

    def timed_repeat(team: Team, calls: Any, *args: Any) -> int:
        nonlocal shared
        if max(threads for _, threads, *_ in calls) == 1:
            return repeat(team, calls, *args)
        # Without the binary it makes each call by `run`.
        before, start = shared, time.thread_time()
        done = repeat(team, calls, *args)
        if shared == before:
            shared += time.thread_time() - start
            found.dispatches += 1
        return done

    class CountedPool(concurrent.futures.ThreadPoolExecutor):
        """A pool whose work is shared: the calling thread waits meanwhile."""

        def __enter__(self) -> CountedPool:
            found.dispatches += 1
            super().__enter__()
            return self

    with (
        mock.patch.object(Team, "run", timed_run),
        mock.patch.object(Team, "repeat", timed_repeat),
        mock.patch.object(concurrent.futures, "ThreadPoolExecutor", CountedPool),
    ):
        start = time.thread_time()
        yield found
        found.alone = time.thread_time() - start - shared


class SerialTimes(NamedTuple):
    """CPU seconds of fits with one thread and with several, as minima.

    Attributes
    ----------
    one, several
        Of all threads of the fit.
    alone
        Of the calling thread of the fit with several, outside shared work.
    dispatches
        How often one fit handed work to several threads.
    """

    one: float
    several: float
    alone: float
    dispatches: int


def time_serial(split: Split, task: Task, repeats: int) -> SerialTimes:
    """Measure Hornbeam's fits with one thread and with `task.threads`, in turn."""
    fit = LIBRARIES["hornbeam"]
    x, y = split.x_train, split.y_train
    alone_task = replace(task, threads=1)
    fit(x[:WARM_ROWS], y[:WARM_ROWS], replace(task, rounds=WARM_ROUNDS))
    least = [float("inf")] * 3
    for _ in range(repeats):
        with clock() as one:
            fit(x, y, alone_task)
        with clock() as several, sharing() as shared:
            fit(x, y, task)
        least = [*map(min, least, (one.cpu, several.cpu, shared.alone))]
    return SerialTimes(*least, shared.dispatches)


def waiting_share(one: float, several: float, threads: int) -> float:
    """Return the share in which threads wait, from the CPU times of 1 and `threads`."""
    return max(several / one - 1, 0.0) / (threads - 1)


def amdahl_share(one: float, several: float, threads: int) -> float:
    """Return the serial share by Amdahl's law, from the times of 1 and of `threads`."""
    return (threads * several / one - 1) / (threads - 1)


def measure_serial(
    set_name: str, runs: list[Run], arguments: argparse.Namespace
) -> dict[str, Any]:
    """Return the serial share of Hornbeam's fits on a set, and its parts."""
    chosen = SETS[set_name]
    rounds = arguments.rounds or chosen.rounds
    threads = max(2, *arguments.threads)
    task = Task(chosen.n_classes, rounds, threads)
    times = time_serial(chosen.load(0, arguments.rows), task, arguments.repeats)
    where = {"set": set_name, "library": "hornbeam"}
    wall = {
        n: min(values_of(runs, "wall_seconds", **where, threads=n))
        for n in arguments.threads
    }
    return {
        "set": set_name,
        "threads": threads,
        **times._asdict(),
        "outside": times.alone / times.one,
        "waiting": waiting_share(times.one, times.several, threads),
        "by_amdahl": {n: amdahl_share(wall[1], wall[n], n) for n in wall if n > 1},
        "dispatches_per_round": times.dispatches / rounds,
    }


def print_table(
    set_name: str, runs: list[Run], arguments: argparse.Namespace, console: Console
) -> None:
    """Print wall seconds and speed-ups of each library."""
    console.print(f"{set_name}: wall s, and speed-up", highlight=False)
    table = Table()
    table.add_column("threads", justify="right")
    for library in arguments.libraries:
        table.add_column(library, justify="right", no_wrap=True)
    for threads in arguments.threads:
        cells = [str(threads)]
        for library in arguments.libraries:
            where = {"set": set_name, "library": library}
            one = least_of(runs, "wall_seconds", **where, threads=1)
            many = least_of(runs, "wall_seconds", **where, threads=threads)
            cells.append(f"{many:.3g}  x{one / many:.2f}" if one and many else "-")
        table.add_row(*cells)
    console.print(table)


def print_serial(serial: dict[str, Any], console: Console) -> None:
    """Print the serial share of one set."""
    outside, waiting = serial["outside"], serial["waiting"]
    limit = ASKED.get(serial["set"])
    asked = "" if limit is None else f" (asked: at most {limit:.0%})"
    lines = [
        f"One thread works alone for {outside + waiting:.1%}{asked} of the "
        f"{serial['one']:.2f} s of one thread:",
        f"  outside shared work {outside:.1%}, inside at most {waiting:.1%}, "
        f"with {count(serial['threads'])}",
        f"  {serial['dispatches_per_round']:.1f} dispatches a round",
    ]
    for threads, share in serial["by_amdahl"].items():
        lines.append(f"  by Amdahl's law from 1 and {count(threads)}: {share:.1%}")
    console.print("\n".join(lines), highlight=False)


def draw(runs: list[Run], arguments: argparse.Namespace, path: Path) -> bool:
    """Write a plot of the speed-ups; return whether matplotlib is installed."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        return False
    figure, row = plt.subplots(
        1,
        len(arguments.sets),
        figsize=(5 * len(arguments.sets), 4),
        squeeze=False,
        layout="constrained",
    )
    for set_name, axes in zip(arguments.sets, row[0], strict=True):
        axes.plot(arguments.threads, arguments.threads, ":", color="grey")
        for library in arguments.libraries:
            where = {"set": set_name, "library": library}
            one = least_of(runs, "wall_seconds", **where, threads=1)
            points = [
                (n, one / many)
                for n in arguments.threads
                if one and (many := least_of(runs, "wall_seconds", **where, threads=n))
            ]
            if points:
                axes.plot(*zip(*points, strict=True), "o-", label=library)
        axes.set_title(set_name)
        axes.set_xlabel("threads")
        axes.set_ylabel("times as fast as one thread")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xticks(arguments.threads, arguments.threads)
        axes.yaxis.set_major_formatter("{x:g}")
        axes.legend()
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return True


def parse_arguments() -> argparse.Namespace:
    """Return the command line arguments."""
    parser = argparse.ArgumentParser(description="Measure the speed-up by threads.")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(ASKED))
    parser.add_argument("--rows", type=int, help="train on this many rows of each set")
    parser.add_argument("--rounds", type=int, help="boosting rounds, for every set")
    parser.add_argument("--repeats", type=int, default=3, help="default: 3")
    parser.add_argument(
        "--libraries",
        nargs="+",
        choices=LIBRARIES,
        default=["hornbeam", "xgboost", "lightgbm"],
        help="default: hornbeam, xgboost and lightgbm",
    )
    parser.add_argument(
        "--threads",
        nargs="+",
        type=int,
        default=[n for n in THREADS if n <= core_count()],
        help="thread counts to run at, 1 among them; default: 1, 2, 4, 8 and 16",
    )
    add_output_option(parser)
    arguments = parser.parse_args()
    if 1 not in arguments.threads:
        parser.error("--threads needs 1, with which the others are compared")
    if "hornbeam" not in arguments.libraries:
        parser.error("--libraries needs hornbeam, whose serial share is measured")
    return arguments


def main() -> None:
    """Run, print, write."""
    arguments = parse_arguments()
    console = Console(width=100)
    machine = describe(PACKAGES)
    runs = list(run_all(SETS, arguments, console))
    serial = []
    for set_name in arguments.sets:
        print_table(set_name, runs, arguments, console)
        serial.append(measure_serial(set_name, runs, arguments))
        print_serial(serial[-1], console)
    result = {"machine": machine, "options": vars(arguments)}
    result |= {"runs": runs, "serial": serial}
    path = write("threads", result, arguments.output)
    console.print(str(path), highlight=False)
    if draw(runs, arguments, path.with_suffix(".png")):
        console.print(str(path.with_suffix(".png")), highlight=False)


if __name__ == "__main__":
    main()
