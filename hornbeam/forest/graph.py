"""A tree in the language of Graphviz, dot."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.forest.spelling import SpelledTree

__all__ = ["GraphStyle", "graph_of"]

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


def graph_of(tree: SpelledTree, style: GraphStyle, with_stats: bool) -> str:
    """Return a tree as XGBoost writes it in dot."""
    attributes = "".join(
        f'    graph [ {name}="{value}" ]\n'
        for name, value in sorted(style.graph_attrs.items())
    )
    nodes = "\n".join(_node(tree, node, style, with_stats) for node, _ in tree.walk())
    return f"digraph {{\n    graph [ rankdir=TB ]\n{attributes}\n{nodes}}}"


def _node(tree: SpelledTree, node: int, style: GraphStyle, with_stats: bool) -> str:
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


def _values(tree: SpelledTree, node: int) -> str:
    values = tree.values(node)
    if len(values) > _MOST_VALUES:
        values = [*values[: _MOST_VALUES - 1], "...", values[-1]]
    return values[0] if len(values) == 1 else f"[{', '.join(values)}]"
