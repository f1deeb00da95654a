"""Export to ONNX: a TreeEnsembleRegressor, followed by operators of the link function.

The names are those of skl2onnx without its ZipMap: the input ``X``, and the outputs
``variable``, or ``label`` and ``probabilities`` of a classifier.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam import __version__
from hornbeam.errors import ErrorCode, ParameterError, require
from hornbeam.export.derived_features import onnx_features
from hornbeam.export.exported_model import ExportedModel, Nodes
from hornbeam.export.links import MAX_LOG, MIN_STEP

__all__ = ["onnx_model"]

#: Versions of 2021, which onnxruntime supports since 1.10.
_OPSET, _OPSET_OF_TREES, _IR_VERSION = 15, 3, 8
_TREES = "ai.onnx.ml"
#: A value that equals no category code.
_NO_CODE = -0.5


def onnx_model(model: ExportedModel, input_type: str) -> Any:
    """Return a model as an ``onnx.ModelProto``."""
    onnx = require("onnx", "onnx", "an export to ONNX")
    if input_type not in ("float32", "float64"):
        raise ParameterError(
            f"input_type must be 'float32' or 'float64', not {input_type!r}",
            code=ErrorCode.UNKNOWN_OPTION,
        )
    graph = _Graph(onnx, np.dtype(input_type))
    score_type = np.dtype(np.float64 if model.double_scores else np.float32)
    features = "X"
    if not model.exact_features:
        features = graph.as_type(features, np.dtype(input_type), np.dtype(np.float32))
    if model.derived is not None:
        kind = np.dtype(input_type if model.exact_features else np.float32)
        features = onnx_features(graph, model.derived, features, kind)
    if model.nodes is None:
        margins = _linear_margins(graph, model, features, score_type)
    else:
        margins = _tree_margins(graph, model, model.nodes, features, score_type)
    if model.classes is None:
        values = _predictions(graph, model, margins, score_type)
        n_values = 1 if model.link.name == "most_likely" else model.n_outputs
        graph.output("variable", values, score_type, n_values)
    else:
        label, shares = _class_predictions(
            graph, model, model.classes, margins, score_type
        )
        graph.output("label", label, model.classes.dtype)
        graph.output("probabilities", shares, score_type, len(model.classes))
    return graph.to_model(model)


class _Graph:
    """Builder of an ONNX graph; methods return the names of results."""

    def __init__(self, onnx: Any, input_type: np.dtype[Any]) -> None:
        self._onnx = onnx
        self.input_type = input_type
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._outputs: list[Any] = []

    def add(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add an operator, and return the name of its result."""
        name = f"{kind}_{len(self._nodes)}"
        self._nodes.append(
            self._onnx.helper.make_node(
                kind, list(inputs), [name], name=name, domain=domain, **attributes
            )
        )
        return name

    def constant(self, value: Any, dtype: Any) -> str:
        """Add a constant of numbers or strings, and return its name."""
        name = f"constant_{len(self._constants)}"
        tensor = self._onnx.numpy_helper.from_array(np.asarray(value, dtype), name)
        self._constants.append(tensor)
        return name

    def sorted(self, name: str, columns: int) -> str:
        """Add an ascending sort of each row, and return the name of its result."""
        values = f"TopK_{len(self._nodes)}"
        self._nodes.append(
            self._onnx.helper.make_node(
                "TopK",
                [name, self.constant([columns], np.int64)],
                [values, f"{values}_places"],
                name=values,
                axis=1,
                largest=0,
            )
        )
        return values

    def tensor(self, name: str, values: NDArray[np.float64]) -> Any:
        """Return doubles as an attribute of a node."""
        return self._onnx.numpy_helper.from_array(values, name)

    def as_type(self, name: str, have: np.dtype[Any], want: np.dtype[Any]) -> str:
        """Add a cast if the types differ, and return the name of its result."""
        if have == want:
            return name
        return self.add("Cast", name, to=self.kind(want))

    def output(
        self, name: str, source: str, dtype: np.dtype[Any], columns: int | None = None
    ) -> None:
        """Add an output of the shape (rows, columns), or (rows,)."""
        self._nodes.append(
            self._onnx.helper.make_node("Identity", [source], [name], name=name)
        )
        shape = [None] if columns is None else [None, columns]
        self._outputs.append(
            self._onnx.helper.make_tensor_value_info(name, self.kind(dtype), shape)
        )

    def to_model(self, exported: ExportedModel) -> Any:
        """Return the checked ``onnx.ModelProto`` of all operators."""
        helper = self._onnx.helper
        entry = helper.make_tensor_value_info(
            "X", self.kind(self.input_type), [None, exported.n_features]
        )
        graph = helper.make_graph(
            self._nodes, "hornbeam", [entry], self._outputs, self._constants
        )
        model = helper.make_model(
            graph,
            producer_name="hornbeam",
            producer_version=__version__,
            ir_version=_IR_VERSION,
            opset_imports=[
                helper.make_opsetid("", _OPSET),
                helper.make_opsetid(_TREES, _OPSET_OF_TREES),
            ],
        )
        names = zip(exported.feature_names, exported.categories, strict=True)
        metadata = {
            "objective": exported.objective,
            "feature_names": json.dumps(exported.feature_names),
            "categories": json.dumps(
                {name: levels for name, levels in names if levels is not None}
            ),
        }
        helper.set_model_props(model, metadata)
        self._onnx.checker.check_model(model, full_check=True)
        return model

    def kind(self, dtype: np.dtype[Any]) -> int:
        """Return the ONNX element type of a dtype."""
        kind: int = self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return kind


# --- Margins --------------------------------------------------------------------------


def _linear_margins(
    graph: _Graph, model: ExportedModel, features: str, score_type: np.dtype[Any]
) -> str:
    """Return the name of the margins of a linear model, summed in double precision."""
    assert model.weights is not None
    double = np.dtype(np.float64)
    known = graph.add("Cast", features, to=graph.kind(double))
    zero = graph.constant(0.0, double)
    filled = graph.add("Where", graph.add("IsNaN", known), zero, known)
    weights = graph.constant(model.weights[:-1], double)
    bias = graph.constant(model.weights[-1] + model.base, double)
    sums = graph.add("Add", graph.add("MatMul", filled, weights), bias)
    return graph.as_type(sums, double, score_type)


def _tree_margins(
    graph: _Graph,
    model: ExportedModel,
    nodes: Nodes,
    features: str,
    score_type: np.dtype[Any],
) -> str:
    """Return the name of the margins of trees."""
    columns = _columns(nodes)
    double_input = model.exact_features and graph.input_type == np.float64
    base = None if model.double_scores else model.base
    numbers = {
        "nodes_values": columns.pop("nodes_values"),
        "target_weights": columns.pop("target_weights"),
        **({} if base is None else {"base_values": base}),
    }
    attributes = {name: column.tolist() for name, column in columns.items()}
    modes = np.array(["BRANCH_LT", "BRANCH_EQ", "LEAF"])
    attributes["nodes_modes"] = modes[columns["nodes_modes"]].tolist()
    for name, values in numbers.items():
        if double_input:
            name = f"{name}_as_tensor"
            attributes[name] = graph.tensor(name, values.astype(np.float64))
        else:
            attributes[name] = values.astype(np.float32).tolist()
    sums = graph.add(
        "TreeEnsembleRegressor",
        features,
        domain=_TREES,
        n_targets=model.n_outputs,
        **attributes,
    )
    if base is not None:
        return sums
    # float32 holds neither the base score exactly, nor differences of labels from it.
    exact = graph.as_type(sums, np.dtype(np.float32), score_type)
    return graph.add("Add", exact, graph.constant(model.base, score_type))


def _columns(nodes: Nodes) -> dict[str, NDArray[Any]]:
    """Return the attributes of a TreeEnsembleRegressor; modes as 0: <, 1: ==, 2: leaf.

    A categorical split becomes a chain of nodes that compare with one category each and
    have the same true child, as in LightGBM's converter.
    """
    n = nodes.left.size
    tree = np.searchsorted(nodes.roots, np.arange(n), side="right") - 1
    number = np.arange(n) - nodes.roots[tree]
    is_leaf, by_category = nodes.is_leaf, nodes.by_category
    left = np.where(is_leaf, 0, nodes.left - nodes.roots[tree])
    right = np.where(is_leaf, 0, left + 1)
    first = nodes.category_starts[:-1]
    count = np.diff(nodes.category_starts)
    codes = np.append(nodes.categories, _NO_CODE)
    first_code = codes[np.where(count > 0, first, -1)]
    threshold = np.where(by_category, first_code, nodes.threshold)
    columns = {
        "nodes_treeids": tree,
        "nodes_nodeids": number,
        "nodes_featureids": nodes.feature,
        "nodes_modes": np.where(is_leaf, 2, by_category.astype(int)),
        "nodes_values": np.where(is_leaf, 0.0, threshold),
        "nodes_truenodeids": np.where(by_category, right, left),
        "nodes_falsenodeids": np.where(by_category, left, right),
        "nodes_missing_value_tracks_true": (
            ~is_leaf & (nodes.missing_right == by_category)
        ).astype(int),
    }
    # The further nodes of each chain come after the nodes of its tree.
    more = np.maximum(np.where(by_category, count - 1, 0), 0)
    of_node = np.repeat(np.arange(n), more)
    if of_node.size:
        step = np.arange(of_node.size) - np.repeat(np.cumsum(more) - more, more)
        in_tree = np.bincount(tree[of_node], minlength=nodes.roots.size)
        before = (np.cumsum(in_tree) - in_tree)[tree[of_node]]
        sizes = np.diff(np.append(nodes.roots, n))[tree[of_node]]
        ids = sizes + np.arange(of_node.size) - before
        is_last = step == more[of_node] - 1
        chain = {
            "nodes_treeids": tree[of_node],
            "nodes_nodeids": ids,
            "nodes_featureids": nodes.feature[of_node],
            "nodes_modes": np.ones(of_node.size, int),
            "nodes_values": codes[first[of_node] + 1 + step],
            "nodes_truenodeids": right[of_node],
            "nodes_falsenodeids": np.where(is_last, left[of_node], ids + 1),
            "nodes_missing_value_tracks_true": np.zeros(of_node.size, int),
        }
        is_long = more > 0
        columns["nodes_falsenodeids"][is_long] = ids[step == 0]
        columns = {
            name: np.concatenate([column, chain[name]])
            for name, column in columns.items()
        }
        order = np.argsort(columns["nodes_treeids"], kind="stable")
        columns = {name: column[order] for name, column in columns.items()}
    leaves = np.flatnonzero(is_leaf)
    values = nodes.values[leaves]
    outputs = np.arange(values.shape[1]) + np.zeros((leaves.size, 1), int)
    if not nodes.has_vector_leaves:
        outputs += nodes.outputs[tree[leaves]][:, np.newaxis]
    return columns | {
        "target_treeids": np.repeat(tree[leaves], values.shape[1]),
        "target_nodeids": np.repeat(number[leaves], values.shape[1]),
        "target_ids": outputs.ravel(),
        "target_weights": values.ravel(),
    }


# --- Predictions ----------------------------------------------------------------------


def _class_predictions(
    graph: _Graph,
    model: ExportedModel,
    classes: NDArray[Any],
    margins: str,
    score_type: np.dtype[Any],
) -> tuple[str, str]:
    """Return the names of the most likely class and of the class probabilities."""
    if model.link.name == "most_likely":
        shares = graph.add("Softmax", margins, axis=1)
    else:
        shares = _predictions(graph, model, margins, score_type)
    if model.n_outputs == 1:
        # As in `predict` of an estimator: compares the margin, or the probability.
        middle = 0.5 if model.link.name == "shares" else 0.0
        above = graph.add("Greater", margins, graph.constant(middle, score_type))
        code = graph.add("Cast", above, to=graph.kind(np.dtype(np.int64)))
        code = graph.add("Reshape", code, graph.constant([-1], np.int64))
        rest = graph.add("Sub", graph.constant(1.0, score_type), shares)
        shares = graph.add("Concat", rest, shares, axis=1)
    else:
        by_margin = model.link.name != "cumulative"
        scores = margins if by_margin else shares
        code = graph.add("ArgMax", scores, axis=1, keepdims=0)
    names = graph.constant(classes, classes.dtype)
    return graph.add("Gather", names, code, axis=0), shares


def _predictions(
    graph: _Graph, model: ExportedModel, margins: str, dtype: np.dtype[Any]
) -> str:
    """Return the name of the predictions computed from margins."""
    link, add = model.link, graph.add

    def number(value: float) -> str:
        return graph.constant(value, dtype)

    def columns(begin: int, end: int) -> str:
        ends = (graph.constant([place], np.int64) for place in (begin, end, 1))
        return add("Slice", margins, *ends)

    if link.name == "sigmoid":
        return add("Sigmoid", margins)
    if link.name == "exponential":
        return add("Exp", margins)
    if link.name == "step":
        above = add("Greater", margins, number(0.0))
        return add("Cast", above, to=graph.kind(dtype))
    if link.name == "softmax":
        return add("Softmax", margins, axis=1)
    if link.name == "most_likely":
        code = add("ArgMax", margins, axis=1, keepdims=1)
        return add("Cast", code, to=graph.kind(dtype))
    if link.name == "rising" and model.n_outputs > 1:
        return graph.sorted(margins, model.n_outputs)
    if link.name == "climbing" and model.n_outputs > 1:
        steps = columns(1, model.n_outputs)
        up = add("Add", _softplus(graph, steps, dtype), number(MIN_STEP))
        climbed = add("Concat", columns(0, 1), up, axis=1)
        return add("CumSum", climbed, graph.constant(1, np.int64))
    if link.name == "distribution":
        first = int(link.number)
        logarithms = columns(first, model.n_outputs)
        ends = number(-MAX_LOG), number(MAX_LOG)
        positive = add("Exp", add("Clip", logarithms, *ends))
        if first == 0:
            return positive
        return add("Concat", columns(0, first), positive, axis=1)
    if link.name == "focal":
        return _focal_share(graph, margins, link.number, dtype)
    if link.name == "cumulative":
        return _cumulative(graph, columns, model.n_outputs, dtype)
    if link.name == "shares" and model.n_outputs > 1:
        return add("Div", margins, add("ReduceSum", margins, _axis(graph)))
    return margins


def _axis(graph: _Graph) -> str:
    return graph.constant([1], np.int64)


def _cumulative(
    graph: _Graph,
    columns: Callable[[int, int], str],
    classes: int,
    dtype: np.dtype[Any],
) -> str:
    """Return the name of the probabilities of ordered classes.

    `columns` returns the name of some columns of the margins.
    """
    add = graph.add
    place = add("Sub", columns(1, 2), columns(0, 1))
    if classes > 2:
        steps = _softplus(graph, columns(2, classes), dtype)
        gaps = add("Add", steps, graph.constant(MIN_STEP, dtype))
        # How far each gap moves each threshold.
        moves = np.tri(classes - 1, classes - 2, -1).T - 0.5
        place = add("Add", place, add("MatMul", gaps, graph.constant(moves, dtype)))
    above = add("Sigmoid", add("Neg", place))
    none = add("Mul", columns(0, 1), graph.constant(0.0, dtype))
    every = add("Add", none, graph.constant(1.0, dtype))
    from_class = add("Concat", every, above, axis=1)
    return add("Sub", from_class, add("Concat", above, none, axis=1))


def _softplus(graph: _Graph, x: str, dtype: np.dtype[Any]) -> str:
    """Return the name of log(1 + exp(x))."""
    add, one = graph.add, graph.constant(1.0, dtype)
    small = add("Exp", add("Neg", add("Abs", x)))
    above = add("Max", x, graph.constant(0.0, dtype))
    return add("Add", above, add("Log", add("Add", small, one)))


def _focal_share(
    graph: _Graph, margins: str, gamma: float, dtype: np.dtype[Any]
) -> str:
    """Return the name of the probability of the second class under focal loss.

    The formula is that of `hornbeam.kernels.maths.focal_share`.
    """
    add, double = graph.add, np.dtype(np.float64)
    margins = graph.as_type(margins, dtype, double)
    one, power = graph.constant(1.0, double), graph.constant(gamma, double)

    def pull(t: str) -> str:
        odds_against = add("Exp", add("Neg", t))
        p = add("Div", one, add("Add", odds_against, one))
        q = add("Mul", odds_against, p)
        log_p = add("Neg", _softplus(graph, add("Neg", t), double))
        factor = add("Exp", add("Mul", power, add("Sub", log_p, t)))
        slope = add("Mul", power, add("Mul", p, log_p))
        return add("Mul", factor, add("Sub", q, slope))

    up, down = pull(margins), pull(add("Neg", margins))
    share = add("Div", down, add("Add", up, down))
    return graph.as_type(share, double, dtype)
