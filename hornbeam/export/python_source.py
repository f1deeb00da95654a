"""Export to Python source: tables of the trees, and functions that traverse them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from hornbeam import __version__
from hornbeam.export.derived_features import python_block
from hornbeam.export.exported_model import ExportedModel
from hornbeam.export.links import FORMULAS, MAX_LOG, MIN_STEP
from hornbeam.export.packed_trees import (
    BY_CATEGORY,
    FLAGS,
    MISSING_RIGHT,
    PackedTrees,
    join_in_lines,
    shortest_decimals,
)
from hornbeam.forest.tree import LeafTerms

__all__ = ["python_source"]

#: Numbers per line.
_EACH = 8


def python_source(model: ExportedModel) -> str:
    """Return a model as the text of a module."""
    score = "d" if model.double_scores else "f"
    known = {
        feature: levels
        for feature, levels in enumerate(model.categories)
        if levels is not None
    }
    blocks = [
        _header(model),
        f"{_imports(model)}\n" + "\n".join(_constants(model, known)),
        _WITH_CODES.format(unseen=_UNSEEN[model.unseen_missing]) if known else _PLAIN,
        _row(model),
    ]
    values = "_values(row)"
    if model.derived is not None:
        blocks.append(python_block(model.derived, model.feature_names))
        values = "_features(_values(row))"
    if model.nodes is None:
        blocks += _linear(model, score, values)
    else:
        blocks += _trees(model, PackedTrees.of(model), score, values)
    blocks += _prediction(model, score)
    about, *others = (block.strip("\n") for block in blocks)
    return "\n\n".join([about, "\n\n\n".join(others)]) + "\n"


def _row(model: ExportedModel) -> str:
    """Return the functions that read a row, in the precision of the model."""
    if model.exact_features:
        return _ROW.format(kind="d", number="float(value)")
    if not model.times:
        return _ROW.format(kind="f", number="float(value)")
    number = (
        f'float(value if feature in {_tuple(model.times)} else array("f", [value])[0])'
    )
    return _ROW.format(kind="d", number=number)


def _imports(model: ExportedModel) -> str:
    plain = "import math\nfrom array import array\n"
    return f"import datetime\n{plain}" if model.times else plain


def _header(model: ExportedModel) -> str:
    meaning = FORMULAS[model.link.name]
    if model.classes is not None and model.link.name != "most_likely":
        which = "the second of CLASSES" if model.n_outputs == 1 else "each of CLASSES"
        meaning += f": the probability of {which}"
    of_row = (
        "a float" if model.n_outputs == 1 else f"a list of {model.n_outputs} floats"
    )
    names = ", and categories go by their names" if any(model.categories) else ""
    text = (
        "predict(row) returns what the model predicts of one row, and margins(row) "
        f"what comes before the objective's transformation, {of_row}. A row is a "
        "mapping that has all the names of FEATURES, or a sequence in their order. "
        f"What is missing is None or NaN{names}. "
        + "".join(
            f"{model.feature_names[time]} is given in {clock}. "
            for time, clock in model.times.items()
        )
        + f"Predictions are {meaning}."
    )
    head = f'"""A model of Hornbeam {__version__}, objective {model.objective}.'
    return f'{head}\n\n{textwrap.fill(text, 88)}\n"""'


def _constants(model: ExportedModel, known: dict[int, list[Any]]) -> Iterator[str]:
    yield f"FEATURES = {_tuple(model.feature_names)}"
    if known:
        yield "# Of the features of these numbers, in the order of their codes."
        levels = "".join(
            f"    {feature}: {_tuple(own, '    ')},\n" for feature, own in known.items()
        )
        yield f"CATEGORIES = {{\n{levels}}}"
    if model.classes is not None:
        yield f"CLASSES = {_tuple(model.classes.tolist())}"


def _tuple(items: Iterable[Any], indent: str = "") -> str:
    """Return names or numbers as a tuple literal in ASCII."""
    literals = [f"{_literal(item)}," for item in items]
    if len(literals) <= _EACH:
        return f"({' '.join(literals)})"
    lines = "".join(f"{indent}    {x}\n" for x in join_in_lines(literals, " ", _EACH))
    return f"(\n{lines}{indent})"


def _literal(item: Any) -> str:
    return f"float('{item}')" if item in (np.inf, -np.inf) else ascii(item)


def _table(name: str, kind: str, texts: Sequence[str]) -> str:
    lines = "\n".join(join_in_lines(texts, " ", _EACH))
    return f'{name} = _numbers("{kind}", """\n{lines}\n""")'


def _integers(values: Any) -> list[str]:
    return list(map(str, values.tolist()))


# --- Code of all models ---------------------------------------------------------------

_UNSEEN = {
    False: (
        "raise ValueError(\n"
        '            f"{FEATURES[feature]!r} holds {value!r}, new after training"\n'
        "        )"
    ),
    True: "return math.nan",
}
_WITH_CODES = '''
_CODES = {{
    feature: {{level: code for code, level in enumerate(levels)}}
    for feature, levels in CATEGORIES.items()
}}


def _value(feature, value):
    """Return a value as a number: a category as its code."""
    if value is None or value != value:
        return math.nan
    codes = _CODES.get(feature)
    if codes is None:
        return _number(feature, value)
    if value not in codes:
        {unseen}
    return codes[value]
'''
_PLAIN = '''
def _value(feature, value):
    """Return a value as a number."""
    if value is None or value != value:
        return math.nan
    return _number(feature, value)
'''
_ROW = '''
def _number(feature, value):
    if isinstance(value, (str, bytes)):
        raise ValueError(f"{{FEATURES[feature]!r}} holds {{value!r}}, no number")
    return {number}


def _values(row):
    """Return the features of a row, NaN where they are missing."""
    if hasattr(row, "keys"):
        for name in FEATURES:
            if name not in row:
                raise ValueError(f"the row has no {{name!r}}; give None for missing")
        row = [row[name] for name in FEATURES]
    if len(row) != len(FEATURES):
        raise ValueError(f"the row has {{len(row)}} values, not {{len(FEATURES)}}")
    return array("{kind}", [_value(*item) for item in enumerate(row)])


def _numbers(kind, text):
    of = float if kind in "fd" else int
    return array(kind, [of(number) for number in text.split()])

'''

# --- Margins --------------------------------------------------------------------------

_WALK = '''
def _leaf(place, values):
    """Return the place of the leaf that a row comes to."""
    while _NEXT[place]:
        value = values[_FEATURE[place]]
        if value != value:
            right = _NEXT[place] & {missing_right}
        {by_category}else:
            right = value >= _SPLIT[place]
        place = (_NEXT[place] >> {flags}) + right
    return place
'''
_BY_CATEGORY = """\
elif _NEXT[place] & {by_category}:
            right = int(value) in _SETS[int(_SPLIT[place])]
        """
_SUM = '''
def _margins(row):
    """Return the margins of a row, summed in the order of the trees."""
    values = {values}
    sums = array("{score}", _BASE)
    for tree, root in enumerate(_ROOTS):
        {add}
    return sums
'''
_ADD_ONE = "sums[{output}] += _SPLIT[_leaf(root, values)]"
_ADD_WORTH = "sums[{output}] += _worth(_leaf(root, values), values)"
_WORTH = '''
def _worth(place, values):
    """Return what the leaf at this place is worth to a row."""
    total = _SPLIT[place]
    leaf = _FEATURE[place]
    for k in range(_FIRST_TERMS[leaf], _FIRST_TERMS[leaf + 1]):
        value = values[_TERM_FEATURE[k]]
        if value == value:
            inside = min(max(value, _LOW[k]), _HIGH[k])
            total += _SLOPE[k] * (inside - _CENTRE[k])
    return array("f", [total])[0]
'''
_ADD_ALL = """\
first = {outputs} * _FEATURE[_leaf(root, values)]
        for k in range({outputs}):
            sums[k] += _LEAVES[first + k]"""
_LINEAR = '''
def _margins(row):
    """Return the margins of a row."""
    values = {values}
    sums = array("d", _BASE)
    for k in range({outputs}):
        for feature, value in enumerate(values):
            if value == value:
                sums[k] += value * _WEIGHTS[{outputs} * feature + k]
    return array("{score}", sums)
'''


def _trees(
    model: ExportedModel, packed: PackedTrees, score: str, values: str
) -> Iterator[str]:
    kind = "f" if packed.split.dtype == np.float32 else "d"
    tables = [
        "# A split sends to the left what is below it, and the right child follows",
        "# the left one. At leaves next is 0, and split is what the leaf is worth.",
        _table("_SPLIT", kind, shortest_decimals(packed.split)),
        _table("_NEXT", "q", _integers(packed.next)),
        _table("_FEATURE", "q", _integers(packed.feature)),
        _table("_ROOTS", "q", _integers(packed.roots)),
    ]
    add = _ADD_ONE
    if packed.leaves is not None:
        add = _ADD_ALL
        tables.append(_table("_LEAVES", "f", shortest_decimals(packed.leaves)))
    elif model.n_outputs > 1:
        tables.append(_table("_OUTPUTS", "q", _integers(packed.outputs)))
    if packed.terms is not None:
        add = _ADD_WORTH
        tables += _term_tables(packed.terms)
    output = "0" if model.n_outputs == 1 else "_OUTPUTS[tree]"
    by_category = ""
    if packed.sets:
        by_category = _BY_CATEGORY.format(by_category=BY_CATEGORY)
        sets = (f"    frozenset({_tuple(codes, '    ')}),\n" for codes in packed.sets)
        tables.append("# The codes that go right at splits by category.")
        tables.append(f"_SETS = (\n{''.join(sets)})")
    yield "\n".join([*tables, f"_BASE = {_tuple(model.base.tolist())}"])
    yield _WALK.format(
        missing_right=MISSING_RIGHT, by_category=by_category, flags=FLAGS
    )
    if packed.terms is not None:
        yield _WORTH
    yield _SUM.format(
        score=score,
        values=values,
        add=add.format(output=output, outputs=model.n_outputs),
    )


def _term_tables(terms: LeafTerms) -> Iterator[str]:
    yield "# The terms of leaves: slope * (value - centre), of a value that is held"
    yield "# between low and high. At leaves feature is the number of the leaf."
    yield _table("_FIRST_TERMS", "q", _integers(terms.starts))
    yield _table("_TERM_FEATURE", "q", _integers(terms.terms["feature"]))
    for name in ("slope", "centre", "low", "high"):
        yield _table(f"_{name.upper()}", "d", shortest_decimals(terms.terms[name]))


def _linear(model: ExportedModel, score: str, values: str) -> Iterator[str]:
    assert model.weights is not None
    bias = model.weights[-1].astype(np.float64)
    yield "\n".join(
        [
            "# One for each feature and output.",
            _table("_WEIGHTS", "f", shortest_decimals(model.weights[:-1])),
            f"_BASE = {_tuple((model.base + bias).tolist())}",
        ]
    )
    yield _LINEAR.format(score=score, outputs=model.n_outputs, values=values)


# --- Predictions ----------------------------------------------------------------------

#: The code of each link function, from the margins m to the predictions p.
_LINKS = {
    "identity": "p = m",
    "sigmoid": "p = [1 / (1 + _exp(-x)) for x in m]",
    "exponential": "p = [_exp(x) for x in m]",
    "step": "p = [float(x > 0) for x in m]",
    "softmax": """\
highest = max(m)
    odds = [_exp(x - highest) for x in m]
    total = sum(odds)
    p = [x / total for x in odds]""",
    "most_likely": "p = [float(m.index(max(m)))]",
    "rising": "p = sorted(m)",
    "climbing": """\
p = [m[0]]
    up = m[0]
    for x in m[1:]:
        up = up + {step} + (max(x, 0) + math.log1p(_exp(-abs(x))))
        p.append(up)""",
    "distribution": """\
p = [
        x if k < {first} else _exp(min(max(x, -{highest}), {highest}))
        for k, x in enumerate(m)
    ]""",
    "focal": "p = [_pull(-x) / (_pull(x) + _pull(-x)) for x in m]",
    "cumulative": """\
gaps = [{step} + max(x, 0) + math.log1p(_exp(-abs(x))) for x in m[2:]]
    places = [m[1] - sum(gaps) / 2 + sum(gaps[:k]) for k in range(len(m) - 1)]
    above = [1.0] + [1 / (1 + _exp(t - m[0])) for t in places] + [0.0]
    p = [above[k] - above[k + 1] for k in range(len(m))]""",
    "shares": """\
total = sum(m) if len(m) > 1 else 1
    p = [x / total for x in m]""",
}
_EXP = '''
def _exp(x):
    """Return e**x, of an x that is held where it is a number."""
    return math.exp(min(max(x, -708.0), 709.0))
'''
_PULL = '''
def _pull(margin):
    """Return how strongly the focal loss pulls up a row of the second class."""
    t = min(max(margin, -700.0), 700.0)
    odds = _exp(-t)
    p = 1 / (1 + odds)
    q = odds * p
    log_p = -math.log1p(odds)
    return _exp({gamma} * (log_p - t)) * (q - {gamma} * p * log_p)
'''
_MARGINS = '''
def margins(row):
    """Return the margins of a row."""
    return _margins(row){give}
'''
_PREDICT = '''
def predict(row):
    """Return what the model predicts of a row."""
    m = _margins(row)
    {link}
    return array("{score}", p){give}
'''


def _prediction(model: ExportedModel, score: str) -> Iterator[str]:
    """Yield the public functions, after the functions that they call."""
    link = _LINKS[model.link.name].format(
        first=int(model.link.number), highest=MAX_LOG, step=MIN_STEP
    )
    if "_exp" in link or "_pull" in link:
        yield _EXP
    if "_pull" in link:
        yield _PULL.format(gamma=model.link.number)
    one = model.n_outputs == 1
    yield _MARGINS.format(give="[0]" if one else ".tolist()")
    one |= model.link.name == "most_likely"
    yield _PREDICT.format(link=link, score=score, give="[0]" if one else ".tolist()")
