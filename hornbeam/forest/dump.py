"""Dumps of a model as text, JSON and dot, byte for byte those of XGBoost.

Dumps cannot be loaded. They differ from XGBoost for two kinds of leaves. Of a vector
leaf Hornbeam writes all values and the statistics, where XGBoost writes three values,
which makes its JSON invalid. XGBoost has no linear leaves, whose terms are written
after the value.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from hornbeam.data.floats import nearest
from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.forest.feature_map import FeatureMap
from hornbeam.forest.model import LinearModel, Model
from hornbeam.forest.tree import LeafTerms, Tree

__all__ = [
    "FormattedTree",
    "GraphStyle",
    "dump_model",
    "join_dumps",
]

_FORMATS = ("text", "json", "dot")


def dump_model(
    model: Model, features: FeatureMap, with_stats: bool, dump_format: str
) -> list[str]:
    """Return the dump of each tree, or a list with the one dump of a linear model.

    Parameters
    ----------
    model
        A trained model.
    features
        Names and types of its features.
    with_stats
        Whether to include the gain of splits and the cover of all nodes.
    dump_format
        ``"text"``, ``"json"`` or ``"dot"``; dot may be followed by ``:`` and the JSON
        of a `GraphStyle`.

    Raises
    ------
    ParameterError
        If the format or the style is unknown, or a linear model is dumped as dot.
    """
    kind, _, style = dump_format.partition(":")
    if kind not in _FORMATS or (style and kind != "dot"):
        raise ParameterError(
            f"dump_format must be one of {', '.join(_FORMATS)}, not {dump_format!r}; "
            'only dot may be followed by a style, as in dot:{"graph_attrs": {...}}',
            code=ErrorCode.UNKNOWN_DUMP_FORMAT,
            format=dump_format,
        )
    if model.linear is not None:
        return [_linear(model.linear, kind)]
    trees = (FormattedTree(tree, features) for tree in model.trees)
    if kind == "dot":
        dot_style = GraphStyle.parse(style)
        return [_dot(tree, dot_style, with_stats) for tree in trees]
    write = _text if kind == "text" else _json
    return [write(tree, with_stats) for tree in trees]


def join_dumps(dumps: Sequence[str], dump_format: str) -> Iterable[str]:
    """Yield the parts of the text of a dump file with all trees."""
    if dump_format == "json":
        yield "[\n"
        yield ",\n".join(dumps)
        yield "\n]"
        return
    for number, text in enumerate(dumps):
        yield f"booster[{number}]:\n{text}"


def _linear(linear: LinearModel, kind: str) -> str:
    if kind == "dot":
        raise ParameterError(
            "a model of booster='gblinear' has no trees to draw as dot; "
            "dump it as text or json",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )
    biases = [f"{bias:.6g}" for bias in linear.weights[-1].tolist()]
    weights = [f"{weight:.6g}" for weight in linear.weights[:-1].ravel().tolist()]
    if kind == "text":
        return "\n".join(["bias:", *biases, "weight:", *weights, ""])
    bias, weight = (",\n      ".join(numbers) for numbers in (biases, weights))
    return (
        f'  {{ "bias": [\n      {bias}\n    ],\n'
        f'    "weight": [\n      {weight}\n    ]\n  }}'
    )


def _text(tree: FormattedTree, with_stats: bool) -> str:
    lines = []
    for node, depth in tree.walk():
        tabs, gain = depth, ""
        if tree.is_leaf(node):
            line = f"{node}:leaf={_leaf_values(tree, node)}"
            line += "".join(tree.terms(node))
        else:
            line = f"{node}:{_condition(tree, node)}"
            if tree.kind(node) == "i":
                tabs = 0  # XGBoost does not indent splits on indicators
            if with_stats:
                gain = f",gain={tree.gain(node)}"
        stats = f"{gain},cover={tree.cover(node)}" if with_stats else ""
        lines.append("\t" * tabs + line + stats)
    return "\n".join([*lines, ""])


def _condition(tree: FormattedTree, node: int) -> str:
    name, kind = tree.escaped_name(node), tree.kind(node)
    yes, no, missing = tree.children(node)
    if kind == "i":
        return f"[{name}] yes={yes},no={no}"
    condition = f":{{{','.join(tree.categories(node))}}}"
    if kind != "c":
        condition = f"<{tree.split_condition(node)}"
    return f"[{name}{condition}] yes={yes},no={no},missing={missing}"


def _json(tree: FormattedTree, with_stats: bool) -> str:
    parts = []
    nodes = [*tree.walk(), (-1, 0)]  # -1 marks the end
    for (node, depth), (after, depth_after) in pairwise(nodes):
        parts.append("\n" * (depth > 0) + _indent(depth))
        if not tree.is_leaf(node):
            members, stats = _json_split(tree, node, depth), ""
            if with_stats:
                stats = f', "gain": {tree.gain(node)}, "cover": {tree.cover(node)}'
            parts.append(f'{{ {members} {stats}, "children": [')
            continue
        stats = f', "cover": {tree.cover(node)} ' if with_stats else ""
        leaf = f'"leaf": {_leaf_values(tree, node)} {stats}'
        if tree.terms(node):
            leaf += f', "terms": {json.dumps(tree.terms(node), ensure_ascii=False)}'
        parts.append(f'{{ "nodeid": {node}, {leaf}}}')
        ends = reversed(range(depth_after, depth))
        parts += [f"\n{_indent(level)}]}}" for level in ends]
        parts.append(", " if after >= 0 else "")
    return "".join(parts)


def _indent(depth: int) -> str:
    return "  " * (depth + 1)


def _json_split(tree: FormattedTree, node: int, depth: int) -> str:
    kind = tree.kind(node)
    yes, no, missing = tree.children(node)
    start = f'"nodeid": {node}, "depth": {depth}, "split": "{tree.escaped_name(node)}"'
    if kind == "i":
        return f'{start}, "yes": {yes}, "no": {no}'
    split_condition = (
        f"[{', '.join(tree.categories(node))}]"
        if kind == "c"
        else tree.split_condition(node)
    )
    children = f'"yes": {yes}, "no": {no}, "missing": {missing}'
    return f'{start}, "split_condition": {split_condition}, {children}'


def _leaf_values(tree: FormattedTree, node: int) -> str:
    values = tree.values(node)
    return values[0] if len(values) == 1 else f"[{', '.join(values)}]"


@lru_cache(maxsize=1024)
def _escaped(text: str) -> str:
    """Return a text escaped for JSON, without the quotation marks."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def format_float(number: float) -> str:
    """Return a float32 with 9 significant digits, which identify it."""
    return f"{number:.9g}"


class FormattedTree:
    """The nodes of a tree, with numbers and names formatted as in XGBoost's dumps.

    Parameters
    ----------
    tree
        A tree. Thresholds are rounded to float32, as in model files.
    features
        Names and types of the features.
    """

    def __init__(self, tree: Tree, features: FeatureMap) -> None:
        features.check(tree)
        self._features = features
        self._feature = tree.feature.tolist()
        self._left, self._right = tree.left.tolist(), tree.right.tolist()
        self._missing_left = tree.default_left.tolist()
        self._thresholds = nearest(tree.threshold, np.float32).tolist()
        self._categories = tree.categories
        self._starts = tree.category_starts
        self._dot_values = tree.value.reshape(tree.n_nodes, -1).tolist()
        terms = tree.terms or LeafTerms.none(tree.n_nodes)
        self._terms, self._term_starts = terms.terms, terms.starts
        self._gains, self._covers = tree.gain.tolist(), tree.cover.tolist()

    def walk(self) -> Iterator[tuple[int, int]]:
        """Yield each node and its depth in depth-first order, left before right."""
        pending = [(0, 0)]
        while pending:
            node, depth = pending.pop()
            yield node, depth
            if not self.is_leaf(node):
                pending += [
                    (self._right[node], depth + 1),
                    (self._left[node], depth + 1),
                ]

    def is_leaf(self, node: int) -> bool:
        return self._left[node] < 0

    def kind(self, node: int) -> str:
        """Return the type of the feature that an internal node splits on."""
        return self._features.types[self._feature[node]]

    def name(self, node: int) -> str:
        """Return the name of the feature that an internal node splits on."""
        return self._features.names[self._feature[node]]

    def escaped_name(self, node: int) -> str:
        """Return the name escaped for JSON, without the quotation marks."""
        return _escaped(self.name(node))

    def categories(self, node: int) -> list[str]:
        """Return the codes of the categories of a split, which go right."""
        start, stop = self._starts[node : node + 2]
        return [str(code) for code in self._categories[start:stop].tolist()]

    def threshold(self, node: int) -> str:
        return format_float(self._thresholds[node])

    def split_condition(self, node: int) -> str:
        """Return the threshold; for integer features rounded up to an integer."""
        if self.kind(node) == "int":
            return str(math.ceil(self._thresholds[node]))
        return self.threshold(node)

    def children(self, node: int) -> tuple[int, int, int]:
        """Return the "yes", the "no" and the "missing" child.

        The condition of an indicator is that the value is not missing.
        """
        left, right = self._left[node], self._right[node]
        missing, other = (left, right) if self._missing_left[node] else (right, left)
        if self.kind(node) == "c":
            return right, left, missing
        if self.kind(node) == "i":
            return other, missing, missing
        return left, right, missing

    def edges(self, node: int) -> list[tuple[int, str, bool]]:
        """Return each child, its label, and whether missing values go there."""
        left, right = self._left[node], self._right[node]
        words = ("no", "yes") if self.kind(node) == "c" else ("yes", "no")
        missing_left = bool(self._missing_left[node])
        return [(left, words[0], missing_left), (right, words[1], not missing_left)]

    def values(self, node: int) -> list[str]:
        """Return the values of a leaf, one per output of the tree."""
        return [format_float(value) for value in self._dot_values[node]]

    def terms(self, node: int) -> list[str]:
        """Return the terms of a linear leaf, such as ``+0.5*(clip(f1,0,2)-1)``."""
        names = self._features.names
        if not self._terms.size:
            return []
        start, stop = self._term_starts[node : node + 2]
        return [
            f"{slope:+.9g}*(clip({names[feature]},{low:.9g},{high:.9g}){-centre:+.9g})"
            for feature, slope, centre, low, high in self._terms[start:stop].tolist()
        ]

    def gain(self, node: int) -> str:
        return format_float(self._gains[node])

    def cover(self, node: int) -> str:
        return format_float(self._covers[node])


#: Leaves with more values show the first two and the last.
_MAX_DOT_VALUES = 3


@dataclass(frozen=True, slots=True)
class GraphStyle:
    """Graphviz attributes of the parts of a tree.

    Parameters
    ----------
    condition_node_params, leaf_node_params
        Attributes of internal nodes and of leaves.
    edge
        ``yes_color`` of the edge that missing values follow, ``no_color`` of the other.
    graph_attrs
        Attributes of the graph, such as ``rankdir``.
    """

    condition_node_params: Mapping[str, str] = field(default_factory=dict)
    leaf_node_params: Mapping[str, str] = field(default_factory=dict)
    edge: Mapping[str, str] = field(default_factory=dict)
    graph_attrs: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> GraphStyle:
        """Return the style in a JSON text, which may have ' instead of ".

        Raises
        ------
        ParameterError
            If the text is not a JSON object of such attributes.
        """
        try:
            known: Any = json.loads(text.replace("'", '"')) if text else {}
        except json.JSONDecodeError as error:
            raise ParameterError(
                f"the style of dot is not JSON at character {error.pos}: {error.msg}",
                code=ErrorCode.INVALID_DOT_STYLE,
            ) from None
        names = list(cls.__dataclass_fields__)
        if not isinstance(known, dict) or set(known) - set(names):
            raise ParameterError(
                f"the style of dot must be an object with {', '.join(names)}, "
                f"not {text}",
                code=ErrorCode.INVALID_DOT_STYLE,
            )
        for name, attributes in known.items():
            if not isinstance(attributes, dict) or not all(
                isinstance(value, str) for value in attributes.values()
            ):
                raise ParameterError(
                    f"{name} of the style of dot must be an object of strings, "
                    f"not {json.dumps(attributes)}",
                    code=ErrorCode.INVALID_DOT_STYLE,
                )
        strange = set(known.get("edge", {})) - {"yes_color", "no_color"}
        if strange:
            raise ParameterError(
                f"edge of the style of dot has {', '.join(sorted(strange))}; "
                "it may have yes_color and no_color",
                code=ErrorCode.INVALID_DOT_STYLE,
            )
        return cls(**known)


def _dot(tree: FormattedTree, style: GraphStyle, with_stats: bool) -> str:
    """Return the dump of a tree in the dot language of Graphviz."""
    attributes = "".join(
        f'    graph [ {name}="{value}" ]\n'
        for name, value in sorted(style.graph_attrs.items())
    )
    nodes = "\n".join(
        _dot_lines(tree, node, style, with_stats) for node, _ in tree.walk()
    )
    return f"digraph {{\n    graph [ rankdir=TB ]\n{attributes}\n{nodes}}}"


def _dot_lines(
    tree: FormattedTree, node: int, style: GraphStyle, with_stats: bool
) -> str:
    if tree.is_leaf(node):
        cover = f"\ncover={tree.cover(node)}" * with_stats
        terms = "".join(f"\n{_escaped(term)}" for term in tree.terms(node))
        return _dot_node(
            node,
            f"leaf={_dot_values(tree, node)}{terms}{cover}",
            style.leaf_node_params,
        )
    label, kind = tree.escaped_name(node), tree.kind(node)
    if kind == "c":
        label += f":{{{','.join(tree.categories(node))}}}"
    elif kind != "i":
        label += f"<{tree.threshold(node)}"
    if with_stats or kind == "c":  # as XGBoost does
        label += f"\ngain={tree.gain(node)}\ncover={tree.cover(node)}"
    lines = [_dot_node(node, label, style.condition_node_params)]
    for child, answer, takes_missing in tree.edges(node):
        label = f"{answer}, missing" if takes_missing else answer
        colour = (
            style.edge.get("yes_color", "#0000FF")
            if takes_missing
            else style.edge.get("no_color", "#FF0000")
        )
        lines.append(f'    {node} -> {child} [label="{label}" color="{colour}"]\n')
    return "".join(lines)


def _dot_node(node: int, label: str, attributes: Mapping[str, str]) -> str:
    listed = "".join(f'{name}="{value}" ' for name, value in sorted(attributes.items()))
    return f'    {node} [ label="{label}" {listed}]\n'


def _dot_values(tree: FormattedTree, node: int) -> str:
    values = tree.values(node)
    if len(values) > _MAX_DOT_VALUES:
        values = [*values[: _MAX_DOT_VALUES - 1], "...", values[-1]]
    return values[0] if len(values) == 1 else f"[{', '.join(values)}]"
