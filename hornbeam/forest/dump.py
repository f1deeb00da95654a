"""A model as text for people and programs: XGBoost's dumps, to the character.

They cannot be read back. Where XGBoost says nothing, or nothing of use, Hornbeam goes
its own way: leaves of many outputs have all their values, which XGBoost leaves out but
for three, so that its JSON is none; and they have their statistics.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.forest.feature_map import FeatureMap
from hornbeam.forest.graph import GraphStyle, graph_of
from hornbeam.forest.linear import Linear
from hornbeam.forest.model import Model
from hornbeam.forest.spelling import SpelledTree

__all__ = ["dump", "in_one_file"]

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
    trees = (SpelledTree(tree, features) for tree in model.trees)
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


def _text(tree: SpelledTree, with_stats: bool) -> str:
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


def _asked(tree: SpelledTree, node: int) -> str:
    name, kind = tree.escaped_name(node), tree.kind(node)
    yes, no, missing = tree.ways(node)
    if kind == "i":
        return f"[{name}] yes={yes},no={no}"
    asked = f":{{{','.join(tree.categories(node))}}}"
    if kind != "c":
        asked = f"<{tree.limit(node)}"
    return f"[{name}{asked}] yes={yes},no={no},missing={missing}"


def _json(tree: SpelledTree, with_stats: bool) -> str:
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


def _members(tree: SpelledTree, node: int, depth: int) -> str:
    kind = tree.kind(node)
    yes, no, missing = tree.ways(node)
    start = f'"nodeid": {node}, "depth": {depth}, "split": "{tree.escaped_name(node)}"'
    if kind == "i":
        return f'{start}, "yes": {yes}, "no": {no}'
    limit = f"[{', '.join(tree.categories(node))}]" if kind == "c" else tree.limit(node)
    ways = f'"yes": {yes}, "no": {no}, "missing": {missing}'
    return f'{start}, "split_condition": {limit}, {ways}'


def _of_leaf(tree: SpelledTree, node: int) -> str:
    values = tree.values(node)
    return values[0] if len(values) == 1 else f"[{', '.join(values)}]"
