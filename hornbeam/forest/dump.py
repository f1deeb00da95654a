"""A model as text for people and programs: XGBoost's dumps, to the character.

They cannot be read back. Where XGBoost says nothing, or nothing of use, Hornbeam goes
its own way: leaves of many outputs have all their values, which XGBoost leaves out but
for three, so that its JSON is none; and they have their statistics.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from hornbeam.data.floats import nearest
from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.forest.feature_map import FeatureMap
from hornbeam.forest.model import Linear, Model
from hornbeam.forest.tree import Tree

__all__ = [
    "FormattedTree",
    "GraphStyle",
    "dump",
    "graph_of",
    "in_one_file",
    "spelled",
]

_FORMATS = ("text", "json", "dot")


def dump(
    model: Model, features: FeatureMap, with_stats: bool, dump_format: str
) -> list[str]:
    """Return each tree as text, or the one text of a linear model.

    Parameters
    ----------
    model
        A trained model.
    features
        Names and types of its features.
    with_stats
        Whether to tell the gain of splits, and the cover of all nodes.
    dump_format
        ``"text"``, ``"json"``, or ``"dot"``, after which ``:`` and a `GraphStyle` may
        stand.
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
        look = GraphStyle.parse(style)
        return [graph_of(tree, look, with_stats) for tree in trees]
    write = _text if kind == "text" else _json
    return [write(tree, with_stats) for tree in trees]


def in_one_file(dumps: Sequence[str], dump_format: str) -> Iterable[str]:
    """Yield the pieces of one text of all dumps."""
    if dump_format == "json":
        yield "[\n"
        yield ",\n".join(dumps)
        yield "\n]"
        return
    for number, text in enumerate(dumps):
        yield f"booster[{number}]:\n{text}"


def _linear(linear: Linear, kind: str) -> str:
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
        if tree.is_leaf(node):
            line = f"{node}:leaf={_of_leaf(tree, node)}"
            stats = f",cover={tree.cover(node)}"
        else:
            line = f"{node}:{_asked(tree, node)}"
            stats = f",gain={tree.gain(node)},cover={tree.cover(node)}"
        # XGBoost does not indent what it asks of an indicator.
        tabs = 0 if not tree.is_leaf(node) and tree.kind(node) == "i" else depth
        lines.append("\t" * tabs + line + stats * with_stats)
    return "\n".join([*lines, ""])


def _asked(tree: FormattedTree, node: int) -> str:
    name, kind = tree.escaped_name(node), tree.kind(node)
    yes, no, missing = tree.ways(node)
    if kind == "i":
        return f"[{name}] yes={yes},no={no}"
    asked = f":{{{','.join(tree.categories(node))}}}"
    if kind != "c":
        asked = f"<{tree.limit(node)}"
    return f"[{name}{asked}] yes={yes},no={no},missing={missing}"


def _json(tree: FormattedTree, with_stats: bool) -> str:
    parts = []
    nodes = [*tree.walk(), (-1, 0)]  # the last stands for the end
    for (node, depth), (after, depth_after) in pairwise(nodes):
        parts.append("\n" * (depth > 0) + _indent(depth))
        if not tree.is_leaf(node):
            stats = f', "gain": {tree.gain(node)}, "cover": {tree.cover(node)}'
            members = _members(tree, node, depth)
            parts.append(f'{{ {members} {stats * with_stats}, "children": [')
            continue
        stats = f', "cover": {tree.cover(node)} '
        leaf = f'"leaf": {_of_leaf(tree, node)} {stats * with_stats}'
        parts.append(f'{{ "nodeid": {node}, {leaf}}}')
        ends = reversed(range(depth_after, depth))
        parts += [f"\n{_indent(level)}]}}" for level in ends]
        parts.append(", " if after >= 0 else "")
    return "".join(parts)


def _indent(depth: int) -> str:
    return "  " * (depth + 1)


def _members(tree: FormattedTree, node: int, depth: int) -> str:
    kind = tree.kind(node)
    yes, no, missing = tree.ways(node)
    start = f'"nodeid": {node}, "depth": {depth}, "split": "{tree.escaped_name(node)}"'
    if kind == "i":
        return f'{start}, "yes": {yes}, "no": {no}'
    limit = f"[{', '.join(tree.categories(node))}]" if kind == "c" else tree.limit(node)
    ways = f'"yes": {yes}, "no": {no}, "missing": {missing}'
    return f'{start}, "split_condition": {limit}, {ways}'


def _of_leaf(tree: FormattedTree, node: int) -> str:
    values = tree.values(node)
    return values[0] if len(values) == 1 else f"[{', '.join(values)}]"


def spelled(number: float) -> str:
    """Return a float32 in as many digits as tell all of them apart."""
    return f"{number:.9g}"


class FormattedTree:
    """What a dump says of each node of a tree.

    Parameters
    ----------
    tree
        A tree; thresholds that float32 does not hold are told as in a model file, by
        the nearest float32.
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
        self._values = tree.value.reshape(tree.n_nodes, -1).tolist()
        self._gains, self._covers = tree.gain.tolist(), tree.cover.tolist()

    def walk(self) -> Iterator[tuple[int, int]]:
        """Yield each node and its depth: a split, all at its left, all at its right."""
        waiting = [(0, 0)]
        while waiting:
            node, depth = waiting.pop()
            yield node, depth
            if not self.is_leaf(node):
                waiting += [
                    (self._right[node], depth + 1),
                    (self._left[node], depth + 1),
                ]

    def is_leaf(self, node: int) -> bool:
        return self._left[node] < 0

    def kind(self, node: int) -> str:
        """Return the type of the feature that a node splits on."""
        return self._features.types[self._feature[node]]

    def name(self, node: int) -> str:
        """Return the name of the feature that a node splits on."""
        return self._features.names[self._feature[node]]

    def escaped_name(self, node: int) -> str:
        """Return the name as it stands between quotation marks, which are not there."""
        return json.dumps(self.name(node), ensure_ascii=False)[1:-1]

    def categories(self, node: int) -> list[str]:
        """Return the codes of the categories that go right."""
        start, stop = self._starts[node : node + 2]
        return [str(code) for code in self._categories[start:stop].tolist()]

    def threshold(self, node: int) -> str:
        return spelled(self._thresholds[node])

    def limit(self, node: int) -> str:
        """Return the threshold, of whole numbers the whole number that is no lower."""
        if self.kind(node) == "int":
            return str(math.ceil(self._thresholds[node]))
        return self.threshold(node)

    def ways(self, node: int) -> tuple[int, int, int]:
        """Return where rows go for which it is so, for which not, and missing ones.

        An indicator asks whether there is a value other than what is missing.
        """
        left, right = self._left[node], self._right[node]
        missing, other = (left, right) if self._missing_left[node] else (right, left)
        if self.kind(node) == "c":
            return right, left, missing
        if self.kind(node) == "i":
            return other, missing, missing
        return left, right, missing

    def branches(self, node: int) -> list[tuple[int, str, bool]]:
        """Return the children, which rows go there, and whether missing ones do."""
        left, right = self._left[node], self._right[node]
        words = ("no", "yes") if self.kind(node) == "c" else ("yes", "no")
        missing_left = bool(self._missing_left[node])
        return [(left, words[0], missing_left), (right, words[1], not missing_left)]

    def values(self, node: int) -> list[str]:
        """Return the values of a leaf."""
        return [spelled(value) for value in self._values[node]]

    def gain(self, node: int) -> str:
        return spelled(self._gains[node])

    def cover(self, node: int) -> str:
        return spelled(self._covers[node])


#: Leaves of more values show the first two and the last.
_MOST_VALUES = 3


@dataclass(frozen=True, slots=True)
class GraphStyle:
    """Attributes of Graphviz for the parts of a drawn tree.

    Parameters
    ----------
    condition_node_params, leaf_node_params
        Of splits and of leaves.
    edge
        ``yes_color`` of the way that missing values go, ``no_color`` of the other.
    graph_attrs
        Of the whole, such as ``rankdir``.
    """

    condition_node_params: Mapping[str, str] = field(default_factory=dict)
    leaf_node_params: Mapping[str, str] = field(default_factory=dict)
    edge: Mapping[str, str] = field(default_factory=dict)
    graph_attrs: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> GraphStyle:
        """Return the style that JSON spells, in which ' may stand for "."""
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


def graph_of(tree: FormattedTree, style: GraphStyle, with_stats: bool) -> str:
    """Return a tree as XGBoost writes it in dot."""
    attributes = "".join(
        f'    graph [ {name}="{value}" ]\n'
        for name, value in sorted(style.graph_attrs.items())
    )
    nodes = "\n".join(_node(tree, node, style, with_stats) for node, _ in tree.walk())
    return f"digraph {{\n    graph [ rankdir=TB ]\n{attributes}\n{nodes}}}"


def _node(tree: FormattedTree, node: int, style: GraphStyle, with_stats: bool) -> str:
    if tree.is_leaf(node):
        cover = f"\ncover={tree.cover(node)}" * with_stats
        return _box(node, f"leaf={_values(tree, node)}{cover}", style.leaf_node_params)
    label, kind = tree.escaped_name(node), tree.kind(node)
    if kind == "c":
        label += f":{{{','.join(tree.categories(node))}}}"
    elif kind != "i":
        label += f"<{tree.threshold(node)}"
    if with_stats or kind == "c":  # of categories XGBoost tells them always
        label += f"\ngain={tree.gain(node)}\ncover={tree.cover(node)}"
    lines = [_box(node, label, style.condition_node_params)]
    for child, answer, takes_missing in tree.branches(node):
        said = f"{answer}, missing" if takes_missing else answer
        colour = (
            style.edge.get("yes_color", "#0000FF")
            if takes_missing
            else style.edge.get("no_color", "#FF0000")
        )
        lines.append(f'    {node} -> {child} [label="{said}" color="{colour}"]\n')
    return "".join(lines)


def _box(node: int, label: str, attributes: Mapping[str, str]) -> str:
    listed = "".join(f'{name}="{value}" ' for name, value in sorted(attributes.items()))
    return f'    {node} [ label="{label}" {listed}]\n'


def _values(tree: FormattedTree, node: int) -> str:
    values = tree.values(node)
    if len(values) > _MOST_VALUES:
        values = [*values[: _MOST_VALUES - 1], "...", values[-1]]
    return values[0] if len(values) == 1 else f"[{', '.join(values)}]"
