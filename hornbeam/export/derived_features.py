"""Code that computes derived features in exported models, in each language."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.features.dates import PARTS
from hornbeam.features.derived import DerivedFeatures
from hornbeam.features.formulas import Arithmetic, DatePart, Deviation
from hornbeam.features.level_means import LevelMeans

__all__ = ["c_lines", "onnx_features", "python_block"]

#: Numbers per line.
_EACH = 8


def _numbers(values: NDArray[np.float64], indent: str) -> str:
    """Return numbers as lines of literals, each with a comma."""
    texts = [repr(value) for value in values.tolist()]
    lines = (texts[start : start + _EACH] for start in range(0, len(texts), _EACH))
    return "".join(f"{indent}{', '.join(line)},\n" for line in lines)


def _levels(means: LevelMeans, level: Callable[[int, int], str]) -> str:
    """Return the expression of a row's level, of that of each of its categories."""
    pairs = zip(means.categories, means.sizes, strict=True)
    first, *others = ((level(category, size), size) for category, size in pairs)
    text = first[0]
    for other, size in others:
        text = f"({text}) * {size} + {other}"
    return text


def _expressions(
    features: DerivedFeatures,
    names: list[str],
    number: Callable[[int], str],
    level: Callable[[int, int], str],
) -> Iterator[tuple[str, str, LevelMeans | None]]:
    """Yield how a person reads each formula, its expression, and its means."""
    for place, formula in enumerate(features.formulas):
        told = formula.text(names)
        if isinstance(formula, Arithmetic):
            left, right = number(formula.left), number(formula.right)
            yield told, f"{left} {formula.sign} {right}", None
            continue
        if isinstance(formula, DatePart):
            yield told, _date_part(formula, number(formula.time)), None
            continue
        means = f"means_{place}[{_levels(formula.means, level)}]"
        if isinstance(formula, Deviation):
            means = f"{number(formula.number)} - {means}"
        yield told, means, formula.means


def _date_part(formula: DatePart, seconds: str) -> str:
    """Return the expression of a part of a time, the same in C and Python."""
    if formula.part == "seconds":
        return seconds
    return f"date_part({seconds}, {PARTS.index(formula.part)})"


def _has_dates(features: DerivedFeatures) -> bool:
    return any(isinstance(f, DatePart) for f in features.formulas)


# --- C --------------------------------------------------------------------------------

_C_LEVEL = """\
/* The place of a category code among means: codes, missing, codes that are new. */
static int level_of(double code, int size)
{
    if (isnan(code))
        return size - 2;
    return code >= 0 && code < size - 2 ? (int)code : size - 1;
}
"""
_C_DATES = """\
/* A part of a time, in seconds since 1970 on the clock of its time zone: 0 year,
   1 month, 2 day, 3 weekday from Monday on, 4 hour, 5 days since 1970. Years begin in
   March here, so that leap days are at their ends. */
static double date_part(double seconds, int part)
{
    const double days = floor(seconds / 86400.0);
    const double since = days + 719468.0; /* days since the first of March, 0 */
    const double era = floor(since / 146097.0); /* 400 years each */
    const double day = since - era * 146097.0;
    const double year = floor((day - floor(day / 1460.0) + floor(day / 36524.0)
        - floor(day / 146096.0)) / 365.0);
    const double of_year = day
        - (365.0 * year + floor(year / 4.0) - floor(year / 100.0));
    const double month = floor((5.0 * of_year + 2.0) / 153.0);
    switch (part) {
    case 0:
        return year + era * 400.0 + (month >= 10.0 ? 1.0 : 0.0);
    case 1:
        return month < 10.0 ? month + 3.0 : month - 9.0;
    case 2:
        return of_year - floor((153.0 * month + 2.0) / 5.0) + 1.0;
    case 3:
        return days + 3.0 - 7.0 * floor((days + 3.0) / 7.0);
    case 4:
        return floor((seconds - days * 86400.0) / 3600.0);
    default:
        return seconds / 86400.0;
    }
}
"""
_C_FINITE = """\
/* A derived feature, which is missing where it is not finite. */
static double finite(double value)
{
    const float rounded = (float)value;
    return isfinite(rounded) ? rounded : NAN;
}
"""


def c_lines(
    features: DerivedFeatures,
    names: list[str],
    single: bool,
    comment: Callable[[str], str],
) -> Iterator[str]:
    """Yield the lines of a C function that writes all features of a row.

    `single` rounds numbers to float32 first.
    """
    kind = "(float)" if single else ""
    found = list(
        _expressions(
            features,
            names,
            lambda place: (
                f"given[{place}]"
                if place in features.times
                else f"(double){kind}given[{place}]"
            ),
            lambda place, size: f"level_of(given[{place}], {size})",
        )
    )
    if any(means is not None for _, _, means in found):
        yield _C_LEVEL
    if _has_dates(features):
        yield _C_DATES
    yield _C_FINITE
    for place, (_, _, means) in enumerate(found):
        if means is not None:
            yield f"static const double means_{place}[] = {{"
            yield _numbers(means.values, "    ").rstrip("\n")
            yield "};"
    count = len(names)
    yield "/* The given features of a row, and then those that formulas derive. */"
    yield "static void derive(const double *given, double *features)"
    yield "{"
    yield "    int k;"
    yield f"    for (k = 0; k < {count}; k++)"
    yield "        features[k] = given[k];"
    for place, (told, text, _) in enumerate(found):
        yield f"    features[{count + place}] = finite({text}); /* {comment(told)} */"
    yield from ("}", "")


# --- Python ---------------------------------------------------------------------------

_PYTHON = '''
{tables}def _level(code, size):
    """Return the place of a category code among means."""
    if code != code:
        return size - 2
    return int(code) if 0 <= code < size - 2 else size - 1


def _ratio(left, right):
    return left / right if right else math.nan


def _features(given):
    """Return the values of a row, and then those that formulas derive from them."""
    derived = array(
        "f",
        [
{lines}        ],
    )
    finite = [x if math.isfinite(x) else math.nan for x in derived]
    return given + array(given.typecode, finite)
'''


_PYTHON_DATES = '''
def date_part(seconds, part):
    """Return a part of a time: year, month, day, weekday, hour, days since 1970.

    Seconds since 1970 are those on the clock of its time zone; weekdays are counted
    from Monday on.
    """
    if seconds != seconds:
        return math.nan
    if part == 5:
        return seconds / 86400.0
    days = math.floor(seconds / 86400.0)
    if part == 4:
        return math.floor((seconds - days * 86400.0) / 3600.0)
    if part == 3:
        return (days + 3) % 7
    date = datetime.date.fromordinal(719163 + days)
    return (date.year, date.month, date.day)[part]


'''


def python_block(features: DerivedFeatures, names: list[str]) -> str:
    """Return a Python function that appends the derived features of a row."""
    tables, lines = "", ""
    found = _expressions(
        features,
        names,
        lambda place: f"given[{place}]",
        lambda place, size: f"_level(given[{place}], {size})",
    )
    for place, (told, text, means) in enumerate(found):
        formula = features.formulas[place]
        if isinstance(formula, Arithmetic) and formula.sign == "/":
            text = f"_ratio(given[{formula.left}], given[{formula.right}])"
        lines += f"            {text},  # {told!a}\n"
        if means is not None:
            tables += f"means_{place} = (\n{_numbers(means.values, '    ')})\n"
    block = _PYTHON.format(tables=f"{tables}\n\n" if tables else "", lines=lines)
    return f"{_PYTHON_DATES}{block.lstrip()}" if _has_dates(features) else block


# --- ONNX -----------------------------------------------------------------------------


class Graph(Protocol):
    """The builder of a graph of operators, whose methods return names of results."""

    def add(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add an operator."""

    def constant(self, value: Any, dtype: Any) -> str:
        """Add a constant."""

    def as_type(self, name: str, have: np.dtype[Any], want: np.dtype[Any]) -> str:
        """Add a cast if the types differ."""


def onnx_features(
    graph: Graph, features: DerivedFeatures, given: str, dtype: np.dtype[Any]
) -> str:
    """Return the name of the given features, (rows, given), and the derived ones.

    Raises a `ParameterError` if one is a part of a time.
    """
    if _has_dates(features):
        raise ParameterError(
            "ONNX has no calendar, and the model computes parts of dates; export it as "
            "C or Python, or train it on the parts as columns",
            code=ErrorCode.NOT_EXPORTABLE,
        )
    double, single = np.dtype(np.float64), np.dtype(np.float32)
    known = graph.as_type(given, dtype, double)

    def column(place: int) -> str:
        return graph.add("Gather", known, graph.constant([place], np.int64), axis=1)

    def level(place: int, size: int) -> str:
        code, number = column(place), lambda value: graph.constant(value, double)
        is_known = graph.add(
            "And",
            graph.add("Not", graph.add("Less", code, number(0.0))),
            graph.add("Less", code, number(size - 2.0)),
        )
        place_of = graph.add("Where", is_known, code, number(size - 1.0))
        is_missing = graph.add("IsNaN", code)
        return graph.add("Where", is_missing, number(size - 2.0), place_of)

    def means_of(means: LevelMeans) -> str:
        levels = ""
        for place, size in zip(means.categories, means.sizes, strict=True):
            own = level(place, size)
            if levels:
                scaled = graph.add("Mul", levels, graph.constant(float(size), double))
                own = graph.add("Add", scaled, own)
            levels = own
        places = graph.as_type(levels, double, np.dtype(np.int64))
        return graph.add("Gather", graph.constant(means.values, double), places, axis=0)

    operators = {"-": "Sub", "*": "Mul", "/": "Div"}
    columns = []
    for formula in features.formulas:
        if isinstance(formula, Arithmetic):
            pair = column(formula.left), column(formula.right)
            columns.append(graph.add(operators[formula.sign], *pair))
            continue
        assert not isinstance(formula, DatePart)
        means = means_of(formula.means)
        if isinstance(formula, Deviation):
            means = graph.add("Sub", column(formula.number), means)
        columns.append(means)
    derived = graph.as_type(graph.add("Concat", *columns, axis=1), double, single)
    infinite = graph.add("IsInf", derived)
    derived = graph.add("Where", infinite, graph.constant(np.nan, single), derived)
    return graph.add("Concat", given, graph.as_type(derived, single, dtype), axis=1)
