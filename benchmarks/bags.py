"""What eight bags cost in fits of one model, and how much lower their losses are.

    python -m benchmarks.bags
    python -m benchmarks.bags --sets report --repeats 5

Each set is fitted with nothing given (`quality="auto"`) and with 100 rounds
(`quality=None`), in turn with bags and without. Seconds are of the CPU on one thread,
the least of several fits.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.machine import add_output_option, describe, write
from benchmarks.quality import chosen_sets, measure
from benchmarks.quality_data import DataSet

#: A fit without bags and its name in `benchmarks.quality`; bags have the other one.
_FITS = {
    "auto": ("hornbeam", "hornbeam-bags"),
    "100 rounds": ("hornbeam-none", "hornbeam-none-bags"),
}
#: Rows of the first fits, which load or compile kernels and are not measured.
_WARM_ROWS = 300


def compare(data: DataSet, repeats: int, rows: int | None) -> dict[str, Any]:
    """Return the cost of bags and the change of the loss on a set, by kind of fit."""
    found: dict[str, Any] = {"set": data.name}
    for kind, names in _FITS.items():
        runs = [[measure(name, data, rows) for name in names] for _ in range(repeats)]
        one, bags = (min(r["seconds"] for r in own) for own in zip(*runs, strict=True))
        single, bagged = runs[0]
        found["rows"] = single["rows"]
        found[kind] = {
            "seconds": one,
            "fits": bags / one,
            "loss": bagged["loss"] / single["loss"] - 1.0,
        }
    return found


def main() -> None:
    """Measure bags on the sets; print a line for each and the summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default="all", help="choose, report, all or names")
    parser.add_argument("--repeats", type=int, default=3, help="fits of each kind")
    parser.add_argument("--rows", type=int, help="at most so many training rows")
    add_output_option(parser)
    arguments = parser.parse_args()
    machine, console = describe(["numpy", "numba"]), Console()
    sets = chosen_sets(arguments.sets)
    for task in {data.task for data in sets}:
        first = next(data for data in sets if data.task == task)
        compare(first, 1, _WARM_ROWS)
    results = []
    for data in sets:
        found = compare(data, arguments.repeats, arguments.rows)
        results.append(found)
        kinds = "   ".join(
            f"{kind}: {own['fits']:5.2f} fits of {own['seconds']:6.3f} s, "
            f"loss {own['loss']:+6.1%}"
            for kind, own in found.items()
            if kind in _FITS
        )
        console.print(
            f"{data.name:30} {found['rows']:6} rows   {kinds}", soft_wrap=True
        )
    for kind in _FITS:
        fits = np.array([found[kind]["fits"] for found in results])
        losses = np.array([found[kind]["loss"] for found in results])
        console.print(
            f"{kind}: {np.median(fits):.2f} fits in the median of {len(fits)} sets, "
            f"at most {fits.max():.2f}; loss {np.median(losses):+.1%} in the median, "
            f"lower on {(losses < 0).sum()}"
        )
    result = {"machine": machine, "options": vars(arguments), "runs": results}
    print(write("bags", result, arguments.output))


if __name__ == "__main__":
    main()
