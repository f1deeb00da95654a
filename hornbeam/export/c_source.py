"""Export to C99 source: tables of the trees, and functions that traverse them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam import __version__
from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.export.derived_features import c_lines
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

__all__ = ["c_source"]

#: The length of a string literal that every C99 compiler supports, less the quotes.
_MAX_STRING = 4000
_PLAIN = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-+.,:;=()<>#@%&'"
)


def c_source(model: ExportedModel, name: str) -> str:
    """Return a model as the text of a source file; `name` prefixes its public names."""
    if not (name.isascii() and name.isidentifier()):
        raise ParameterError(
            f"name={name!r} is not a C identifier; use letters, digits and _, such as "
            "'model'",
            code=ErrorCode.INVALID_NAME,
        )
    score = "double" if model.double_scores else "float"
    n_predictions = 1 if model.link.name == "most_likely" else model.n_outputs
    lines = [
        *_header(model, name, score, n_predictions),
        "#include <math.h>",
        "#include <stdint.h>",
        "",
        f"#define {name.upper()}_FEATURES {model.n_features}",
        f"#define {name.upper()}_OUTPUTS {model.n_outputs}",
        f"#define {name.upper()}_PREDICTIONS {n_predictions}",
        "",
        *_declarations(model, name, score),
        "",
        *_names(model, name),
    ]
    if model.derived is not None:
        lines += c_lines(
            model.derived, model.feature_names, not model.exact_features, _comment
        )
    if model.nodes is None:
        lines += _linear(model, name, score)
    else:
        lines += _trees(model, PackedTrees.of(model), name, score)
    lines += _prediction(model, name, score)
    return "\n".join([*lines, ""])


def _header(
    model: ExportedModel, name: str, score: str, n_predictions: int
) -> list[str]:
    meaning = FORMULAS[model.link.name]
    if model.classes is not None and model.link.name != "most_likely":
        which = "the second class" if model.n_outputs == 1 else "each class"
        meaning += f", the probability of {which}"
    return [
        f"/* A model of Hornbeam {__version__}, objective {model.objective}.",
        "",
        "   To call it from another file, declare there what is declared below.",
        "",
        f"   {name}_predict writes what the model predicts of one row, and",
        f"   {name}_margins what comes before the objective's transformation.",
        "",
        f"   features:    {model.n_features}, in the order of {name}_feature_names;",
        "                a missing value is NaN, a category is its code",
        *(
            f"{'':16}{_comment(model.feature_names[time])} in {_comment(clock)}"
            for time, clock in model.times.items()
        ),
        f"   margins m:   {model.n_outputs}",
        f"   predictions: {n_predictions};",
        f"                {meaning}",
        "",
        "   Compile without -ffast-math, which takes NaN away. Margins have the bits",
        "   of Hornbeam's if nothing is fused: -std=c99, or -ffp-contract=off. */",
    ]


def _declarations(model: ExportedModel, name: str, score: str) -> list[str]:
    upper = name.upper()
    lines = [
        f"void {name}_predict(const double features[{upper}_FEATURES],",
        f"    {score} predictions[{upper}_PREDICTIONS]);",
        f"void {name}_margins(const double features[{upper}_FEATURES],",
        f"    {score} margins[{upper}_OUTPUTS]);",
        f"extern const char *const {name}_feature_names[{upper}_FEATURES];",
    ]
    if any(model.categories):
        lines.append(
            f"extern const char *const *const {name}_categories[{upper}_FEATURES];"
        )
    if model.classes is not None:
        lines.append(f"extern const char *const {name}_classes[{len(model.classes)}];")
    return lines


# --- Names ----------------------------------------------------------------------------


def _string(text: str) -> str:
    """Return a C string literal, in which other than plain characters are escaped.

    Other bytes of UTF-8 are octal escapes, so that the literal contains no quotes, line
    continuations or trigraphs.
    """
    data = text.encode("utf-8", "surrogatepass")
    if len(data) > _MAX_STRING:
        raise ParameterError(
            f"the name {text[:40]!r}... has {len(data):,} bytes, and C compilers need "
            f"to support string literals of only {_MAX_STRING:,}; shorten it",
            code=ErrorCode.NOT_EXPORTABLE,
        )
    letters = (chr(byte) if chr(byte) in _PLAIN else f"\\{byte:03o}" for byte in data)
    return f'"{"".join(letters)}"'


def _names(model: ExportedModel, name: str) -> Iterator[str]:
    upper = name.upper()
    known = [
        (feature, levels)
        for feature, levels in enumerate(model.categories)
        if levels is not None
    ]
    yield f"const char *const {name}_feature_names[{upper}_FEATURES] = {{"
    of_codes = model.is_categorical
    for feature, column in enumerate(model.feature_names):
        kind = "a category" if of_codes[feature] else "a number"
        yield f"    {_string(column)}, /* {feature}: {kind} */"
    yield from ("};", "")
    if known:
        yield "/* Categories by their codes 0, 1, 2, ...; a list ends with 0. */"
        for feature, levels in known:
            yield f"static const char *const categories_{feature}[] = {{"
            for code, level in enumerate(levels):
                yield f"    {_string(str(level))}, /* {code} */"
            yield "    0};"
        lists = {feature: f"categories_{feature}" for feature, _ in known}
        every = [lists.get(feature, "0") for feature in range(model.n_features)]
        yield f"const char *const *const {name}_categories[{upper}_FEATURES] = {{"
        yield from _rows(every)
        yield from ("};", "")
    if model.classes is not None:
        yield "/* The labels of the classes. */"
        yield f"const char *const {name}_classes[{len(model.classes)}] = {{"
        for label in model.classes.tolist():
            yield f"    {_string(str(label))},"
        yield from ("};", "")


# --- Tables ---------------------------------------------------------------------------


def _rows(items: Sequence[str]) -> Iterator[str]:
    for line in join_in_lines(items, ", "):
        yield f"    {line},"


def _table(kind: str, name: str, items: Sequence[str]) -> Iterator[str]:
    yield f"static const {kind} {name}[] = {{"
    yield from _rows(items)
    yield from ("};", "")


def _numbers(values: NDArray[Any]) -> list[str]:
    """Return numbers as C literals of their type."""
    if values.dtype.kind == "f":
        suffix = "f" if values.dtype == np.float32 else ""
        return [text + suffix for text in shortest_decimals(values)]
    return list(map(str, values.tolist()))


def _type_of(values: NDArray[Any]) -> str:
    """Return the C type of an array."""
    if values.dtype.kind == "f":
        return "float" if values.dtype == np.float32 else "double"
    return "uint16_t" if values.max(initial=0) < 1 << 16 else "uint32_t"


def _bits(sets: Iterable[Sequence[int]]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return category sets as bitmasks of 32-bit words, and the start of each set."""
    words: list[int] = []
    starts = [0]
    for codes in sets:
        own = [0] * ((max(codes, default=-1) >> 5) + 1)
        for code in codes:
            own[code >> 5] |= 1 << (code & 31)
        words += own
        starts.append(len(words))
    return np.array(words, np.int64), np.array(starts, np.int64)


# --- Margins --------------------------------------------------------------------------


def _trees(
    model: ExportedModel, packed: PackedTrees, name: str, score: str
) -> Iterator[str]:
    columns = (packed.split, packed.next, packed.feature)
    yield "/* A split sends to the left what is below it; the right child follows the"
    yield "   left one. At leaves next is 0, and split is what the leaf is worth. */"
    yield (
        f"static const struct {{ {_type_of(packed.split)} split; uint32_t next; "
        f"{_type_of(packed.feature)} feature; }} nodes[] = {{"
    )
    cells = zip(*map(_numbers, columns), strict=True)
    items = [f"{{{split}, {next_}u, {feature}}}" for split, next_, feature in cells]
    yield from (f"    {line}," for line in join_in_lines(items, ", ", 4))
    yield from ("};", "")
    yield from _table(_type_of(packed.roots), "roots", _numbers(packed.roots))
    if packed.sets:
        words, starts = _bits(packed.sets)
        yield "/* The codes that go right at a split by category, as bits. */"
        yield from _table(
            "uint32_t", "words", [f"{w}u" for w in words.tolist()] or ["0"]
        )
        yield from _table("uint32_t", "starts", _numbers(starts))
    yield from _tree_traversal(model, bool(packed.sets))
    upper = name.upper()
    start = model.base.astype(np.float64 if model.double_scores else np.float32)
    if packed.leaves is not None:
        yield from _table("float", "leaves", _numbers(packed.leaves))
    elif model.n_outputs > 1:
        yield from _table(_type_of(packed.outputs), "outputs", _numbers(packed.outputs))
    yield from _table(score, "base", _numbers(start))
    if packed.terms is not None:
        yield from _terms(model, packed.terms)
    yield from _margins_head(model, name, score)
    yield "    int tree, k;"
    yield from _derivation(model)
    yield f"    for (k = 0; k < {upper}_OUTPUTS; k++)"
    yield "        margins[k] = base[k];"
    yield f"    for (tree = 0; tree < {packed.roots.size}; tree++) {{"
    yield "        const uint32_t leaf = leaf_of(roots[tree], features);"
    if packed.leaves is not None:
        yield f"        for (k = 0; k < {upper}_OUTPUTS; k++)"
        yield (
            "            margins[k] += "
            f"leaves[(uint32_t)nodes[leaf].feature * {upper}_OUTPUTS + k];"
        )
    else:
        place = "outputs[tree]" if model.n_outputs > 1 else "0"
        worth = "(float)nodes[leaf].split"
        if packed.terms is not None:
            worth = "worth_of(leaf, features)"
        yield f"        margins[{place}] += {worth};"
    yield from ("    }", "}", "")


def _margins_head(model: ExportedModel, name: str, score: str) -> Iterator[str]:
    given = "features" if model.derived is None else "given"
    yield f"void {name}_margins(const double {given}[{name.upper()}_FEATURES],"
    yield f"    {score} margins[{name.upper()}_OUTPUTS])"
    yield "{"


def _derivation(model: ExportedModel) -> Iterator[str]:
    """Yield the lines that compute derived features."""
    if model.derived is not None:
        yield f"    double features[{model.n_values}];"
        yield "    derive(given, features);"


def _comment(text: str) -> str:
    """Return a text in plain characters, which cannot begin or end a comment."""
    plain = _PLAIN | {*"*/|"}
    told = "".join(letter if letter in plain else "?" for letter in text)
    return told.replace("*/", "* /").replace("/*", "/ *")


def _tree_traversal(model: ExportedModel, with_sets: bool) -> Iterator[str]:
    value = "features[nodes[place].feature]"
    if not model.exact_features:
        value = f"(float){value}"
    yield from (
        "static uint32_t leaf_of(uint32_t place, const double *features)",
        "{",
        "    while (nodes[place].next != 0) {",
        "        const uint32_t next = nodes[place].next;",
        f"        const double value = {value};",
        "        uint32_t right;",
        "        if (isnan(value))",
        f"            right = next & {MISSING_RIGHT};",
    )
    if with_sets:
        yield from (
            f"        else if (next & {BY_CATEGORY}) {{",
            "            const uint32_t set = (uint32_t)nodes[place].split;",
            "            const uint32_t size = starts[set + 1] - starts[set];",
            "            right = 0;",
            "            if (value >= 0 && value < 32.0 * size) {",
            "                const uint32_t code = (uint32_t)value;",
            "                right = words[starts[set] + code / 32] >> code % 32 & 1;",
            "            }",
            "        }",
        )
    yield from (
        "        else",
        "            right = value >= nodes[place].split;",
        f"        place = (next >> {FLAGS}) + right;",
        "    }",
        "    return place;",
        "}",
        "",
    )


def _terms(model: ExportedModel, terms: LeafTerms) -> Iterator[str]:
    columns = [terms.terms["feature"]]
    columns += [terms.terms[name] for name in ("slope", "centre", "low", "high")]
    value = "features[terms[k].feature]"
    if not model.exact_features:
        value = f"(float){value}"
    yield "/* The terms of leaves: slope * (value - centre), of a value that is held"
    yield "   between low and high. At leaves feature is the number of the leaf. */"
    yield "static const struct {"
    yield f"    {_type_of(columns[0])} feature;"
    yield "    double slope, centre, low, high;"
    yield "} terms[] = {"
    for cells in zip(*map(_numbers, columns), strict=True):
        yield f"    {{{', '.join(cells)}}},"
    if terms.terms.size == 0:
        yield "    {0, 0.0, 0.0, 0.0, 0.0},"
    yield from ("};", "")
    yield from _table(_type_of(terms.starts), "first_terms", _numbers(terms.starts))
    yield from (
        "static float worth_of(uint32_t place, const double *features)",
        "{",
        "    const uint32_t leaf = (uint32_t)nodes[place].feature;",
        "    double total = (float)nodes[place].split;",
        "    uint32_t k;",
        "    for (k = first_terms[leaf]; k < first_terms[leaf + 1]; k++) {",
        f"        const double value = {value};",
        "        double inside = value;",
        "        if (isnan(value))",
        "            continue;",
        "        if (inside < terms[k].low)",
        "            inside = terms[k].low;",
        "        if (inside > terms[k].high)",
        "            inside = terms[k].high;",
        "        total += terms[k].slope * (inside - terms[k].centre);",
        "    }",
        "    return (float)total;",
        "}",
        "",
    )


def _linear(model: ExportedModel, name: str, score: str) -> Iterator[str]:
    assert model.weights is not None
    upper = name.upper()
    value = "features[feature]" if model.exact_features else "(float)features[feature]"
    yield "/* One for each feature and output; the last are added to the base. */"
    yield from _table("float", "weights", _numbers(model.weights))
    yield from _table("double", "base", _numbers(model.base))
    yield from _margins_head(model, name, score)
    yield "    int feature, k;"
    yield from _derivation(model)
    yield from (
        f"    for (k = 0; k < {upper}_OUTPUTS; k++) {{",
        "        double sum = base[k];",
        f"        sum += weights[{model.n_values} * {upper}_OUTPUTS + k];",
        f"        for (feature = 0; feature < {model.n_values}; feature++) {{",
        f"            const double value = {value};",
        "            if (!isnan(value))",
        f"                sum += value * weights[feature * {upper}_OUTPUTS + k];",
        "        }",
        f"        margins[k] = ({score})sum;",
        "    }",
        "}",
        "",
    )


# --- Predictions ----------------------------------------------------------------------

#: The code of link functions of a single margin, and of all margins.
_OF_ONE = {
    "identity": "margins[k]",
    "sigmoid": "1 / (1 + exp(-(double)margins[k]))",
    "exponential": "exp(margins[k])",
    "step": "margins[k] > 0",
    "distribution": (
        "k < {first} ? margins[k] : exp(fmin(fmax(margins[k], -{highest}), {highest}))"
    ),
    "focal": "pull(-margins[k]) / (pull(margins[k]) + pull(-margins[k]))",
}
_OF_ALL = {
    "softmax": """\
    double highest = margins[0], sum = 0;
    for (k = 1; k < {outputs}; k++)
        highest = fmax(highest, margins[k]);
    for (k = 0; k < {outputs}; k++)
        sum += exp(margins[k] - highest);
    for (k = 0; k < {outputs}; k++)
        predictions[k] = ({score})(exp(margins[k] - highest) / sum);""",
    "most_likely": """\
    int best = 0;
    for (k = 1; k < {outputs}; k++)
        if (margins[k] > margins[best])
            best = k;
    predictions[0] = ({score})best;""",
    "rising": """\
    int place;
    for (k = 0; k < {outputs}; k++) {{
        for (place = k; place > 0 && predictions[place - 1] > margins[k]; place--)
            predictions[place] = predictions[place - 1];
        predictions[place] = margins[k];
    }}""",
    "climbing": """\
    double up = margins[0];
    predictions[0] = margins[0];
    for (k = 1; k < {outputs}; k++) {{
        const double x = margins[k];
        up = up + {step} + (fmax(x, 0) + log1p(exp(-fabs(x))));
        predictions[k] = ({score})up;
    }}""",
    "cumulative": """\
    double threshold = margins[1], above = 1, share;
    for (k = 2; k < {outputs}; k++)
        threshold -= ({step} + fmax(margins[k], 0) + log1p(exp(-fabs(margins[k])))) / 2;
    for (k = 0; k < {outputs}; k++) {{
        share = above;
        above = k < {outputs} - 1 ? 1 / (1 + exp(threshold - margins[0])) : 0;
        predictions[k] = ({score})(share - above);
        if (k + 2 < {outputs})
            threshold += {step} + fmax(margins[k + 2], 0)
                + log1p(exp(-fabs(margins[k + 2])));
    }}""",
    "shares": """\
    double sum = 0;
    for (k = 0; k < {outputs}; k++)
        sum += margins[k];
    for (k = 0; k < {outputs}; k++)
        predictions[k] = ({score})(margins[k] / sum);""",
}
_PULL = """\
/* How strongly the focal loss pulls up the margin of a row of the second class. */
static double pull(double margin)
{{
    const double gamma = {gamma}, t = fmin(fmax(margin, -700), 700);
    const double odds = exp(-t), p = 1 / (1 + odds), q = odds * p;
    const double log_p = -log1p(odds);
    return exp(gamma * (log_p - t)) * (q - gamma * p * log_p);
}}
"""


def _prediction(model: ExportedModel, name: str, score: str) -> Iterator[str]:
    """Yield the lines of the function that predicts."""
    upper, link = name.upper(), model.link.name
    if model.n_outputs == 1 and link in ("rising", "climbing", "shares"):
        link = "identity"
    if link == "focal":
        yield _PULL.format(gamma=model.link.number)
    body = _OF_ALL.get(link)
    if body is None:
        body = (
            "    for (k = 0; k < {outputs}; k++)\n"
            f"        predictions[k] = ({{score}})({_OF_ONE[link]});"
        )
    yield f"void {name}_predict(const double features[{upper}_FEATURES],"
    yield f"    {score} predictions[{upper}_PREDICTIONS])"
    yield "{"
    yield f"    {score} margins[{upper}_OUTPUTS];"
    yield "    int k;"
    yield f"    {name}_margins(features, margins);"
    yield body.format(
        score=score,
        outputs=f"{upper}_OUTPUTS",
        first=int(model.link.number),
        highest=MAX_LOG,
        step=MIN_STEP,
    )
    yield "}"
