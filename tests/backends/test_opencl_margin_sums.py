"""Prediction and evaluation on a device: the margins of the CPU, byte for byte."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from opencl_device import NAME, SHAPES, device_of

import hornbeam
from hornbeam.backends.opencl import devices
from hornbeam.backends.opencl.devices import opencl
from hornbeam.backends.opencl.margin_sums import MarginSums
from hornbeam.kernels.jit import COMPILED

pytestmark = pytest.mark.skipif(
    not COMPILED, reason="thousands of rows take plain Python minutes"
)
ROWS = 3000


def features(columns=6, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(ROWS, columns)).astype(dtype)
    x[rng.random(x.shape) < 0.1] = np.nan
    return x


def target(x, classes=2):
    signal = np.nan_to_num(x[:, 0]) * np.nan_to_num(x[:, 1]) + np.nan_to_num(x[:, 2])
    return np.clip(np.floor(signal + 1), 0, classes - 1)


def with_categories(x):
    x = x.copy()
    x[:, 4] = np.random.default_rng(1).integers(70, size=len(x))
    x[:, 5] = np.random.default_rng(2).integers(3, size=len(x))
    return x


KINDS = ["q"] * 4 + ["c", "c"]
VECTORS = {
    "multi_strategy": "multi_output_tree",
    "objective": "multi:softprob",
    "num_class": 3,
}
CASES = {
    "float64": {},
    "float32": {"dtype": np.float32},
    "classes": {"params": {"objective": "multi:softprob", "num_class": 3}},
    "vectors": {"params": VECTORS},
    "dart": {"params": {"booster": "dart", "rate_drop": 0.3}},
    "deep": {"params": {"max_depth": 0, "max_leaves": 200, "grow_policy": "lossguide"}},
    "stump": {"params": {"max_depth": 1}},
    "no split": {"params": {"gamma": 1e9}},
    "selected features": {"columns": 100, "params": {"max_depth": 3}},
    "categories": {"params": {"max_cat_to_onehot": 4}, "kinds": KINDS},
    "float64 margins": {"params": {"objective": "reg:squarederror"}, "shift": 1e9},
}


def case(params=None, columns=6, dtype=np.float64, kinds=None, shift=0.0):
    """Return parameters, rows, labels and options of a matrix."""
    x = features(columns, dtype)
    if kinds is not None:
        x = with_categories(x)
    params = {"objective": "binary:logistic", "max_depth": 5, **(params or {})}
    y = target(x, params.get("num_class", 2)) + shift
    return params, x, y, {} if kinds is None else {"feature_types": kinds}


def cases(first, second, few):
    """Return each case with the first value, a few with the second; others are slow."""
    return [
        *((name, first) for name in CASES),
        *(
            pytest.param(name, second, marks=() if name in few else pytest.mark.slow)
            for name in CASES
        ),
    ]


@pytest.fixture
def additions(monkeypatch):
    """Count the additions of trees on a device."""
    add, found = MarginSums.add, []

    def counted(self, trees, *rest):
        found.append(len(trees[0]))
        add(self, trees, *rest)

    monkeypatch.setattr(MarginSums, "add", counted)
    return found


def predictions(model, x, data):
    first = model.predict(data, iteration_range=(2, 5), output_margin=True)
    base = np.linspace(-1, 1, first.size).reshape(first.shape)
    return [
        found.tobytes()
        for found in (
            first,
            model.predict(data),
            model.predict(data, output_margin=True),
            model.inplace_predict(x),
            model.inplace_predict(x, predict_type="margin", base_margin=base),
        )
    ]


@pytest.mark.parametrize(
    ("name", "shape"), cases("one item", "64 items, 32 bits", few=("vectors", "deep"))
)
def test_predictions_are_those_of_the_cpu(name, shape, monkeypatch, additions):
    params, x, y, options = case(**CASES[name])
    data = hornbeam.DMatrix(x, y, **options)
    model = hornbeam.train(params, data, 6)
    expected = predictions(model, x, data)
    device = device_of(SHAPES[shape])
    monkeypatch.setattr(devices, "find_devices", lambda: (device,))
    model.set_param("device", NAME)
    assert predictions(model, x, data) == expected
    assert len(additions) == 5


@pytest.mark.parametrize(
    ("name", "keeps"), cases(True, False, few=("categories", "selected features"))
)
def test_margins_of_evaluation_data_are_those_of_the_cpu(
    name, keeps, monkeypatch, additions
):
    params, x, y, options = case(**CASES[name])
    monkeypatch.setattr(MarginSums, "may_keep", lambda self, n_bytes: keeps)
    data = hornbeam.DMatrix(x, y, **options)
    other = hornbeam.DMatrix(x[: ROWS // 2], y[: ROWS // 2], **options)

    def train(device):
        losses = {}
        model = hornbeam.train(
            {**params, "device": device},
            data,
            6,
            evals=[(other, "other"), (data, "train")],
            evals_result=losses,
            verbose_eval=False,
        )
        return model.digest(), losses

    expected = train("cpu")
    assert not additions
    assert train(NAME) == expected
    assert additions


def test_margins_are_summed_in_float32_where_they_are_on_the_cpu(additions):
    params, x, y, _ = case()
    data = hornbeam.DMatrix(x, y)
    other = hornbeam.DMatrix(x[::2], y[::2])

    def train(device):
        losses = {}
        given = {**params, "margin_type": "float32", "device": device}
        evals = {"evals": [(other, "other")], "evals_result": losses}
        model = hornbeam.train(given, data, 5, verbose_eval=False, **evals)
        return model.digest(), losses

    assert train(NAME) == train("cpu")
    assert additions


def test_quantile_matrices_are_evaluated_and_predicted(additions):
    params, x, y, _ = case(dtype=np.float32)
    data = hornbeam.QuantileDMatrix(x, y, max_bin=64)
    other = hornbeam.QuantileDMatrix(x[::2], y[::2], ref=data)

    def train(device):
        losses = {}
        evals = {"evals": [(other, "other")], "evals_result": losses}
        given = {**params, "device": device, "max_bin": 64}
        model = hornbeam.train(given, data, 5, verbose_eval=False, **evals)
        return model.digest(), losses, model.predict(other).tobytes()

    assert train(NAME) == train("cpu")
    assert additions


def test_margins_follow_the_booster_to_another_device(additions):
    params, x, y, _ = case()
    data, other = hornbeam.DMatrix(x, y), hornbeam.DMatrix(x[::2], y[::2])

    def scores(names):
        booster = hornbeam.Booster(params, [data, other])
        found = []
        for number, name in enumerate(names):
            booster.set_param("device", name)
            booster.update(data, number)
            found.append(booster.eval(other))
        return found

    assert scores([NAME, NAME, "cpu", NAME]) == scores(["cpu"] * 4)
    assert additions


def test_after_a_lost_device_evaluation_goes_on_with_the_cpu(monkeypatch):
    params, x, y, _ = case()
    data, other = hornbeam.DMatrix(x, y), hornbeam.DMatrix(x[::2], y[::2])
    booster = hornbeam.train({**params, "device": NAME}, data, 2)
    booster.eval(other)
    copy = opencl().enqueue_copy

    def lose(queue, target, source, **options):
        return copy(queue, target, source, **options, src_offset=1 << 60)

    with monkeypatch.context() as lost:
        lost.setattr(opencl(), "enqueue_copy", lose)
        with pytest.raises(hornbeam.DeviceError, match="device='cpu'"):
            booster.eval(other)
    booster.set_param("device", "cpu")
    expected = hornbeam.train(params, data, 2)
    assert booster.eval(other) == expected.eval(other)


def test_the_host_predicts_what_devices_do_not(additions):
    params, x, y, _ = case()
    data = hornbeam.DMatrix(x, y)
    linear = hornbeam.train({**params, "leaf_model": "linear"}, data, 3)
    model = hornbeam.train(params, data, 3)
    sparse = scipy.sparse.csr_matrix(np.nan_to_num(x))
    few = x[:1000]
    for booster, rows in ((linear, x), (model, sparse), (model, few)):
        expected = booster.inplace_predict(rows)
        booster.set_param("device", NAME)
        assert np.array_equal(booster.inplace_predict(rows), expected)
        booster.set_param("device", "cpu")
    assert not additions
    losses = {}
    hornbeam.train(
        {**params, "leaf_model": "linear", "device": NAME},
        data,
        3,
        evals=[(hornbeam.DMatrix(x[::2], y[::2]), "other")],
        evals_result=losses,
        verbose_eval=False,
    )
    assert losses["other"]["logloss"][-1] < losses["other"]["logloss"][0]


def test_a_device_without_denormals_does_not_predict(monkeypatch, additions):
    tiny = np.float32(1e-40) * np.arange(2000, dtype=np.float32)[:, None]
    data = hornbeam.DMatrix(tiny, np.arange(2000) % 1000 > 500)
    model = hornbeam.train({"objective": "binary:logistic"}, data, 3)
    expected = model.inplace_predict(tiny)
    model.set_param("device", NAME)
    assert np.array_equal(model.inplace_predict(tiny), expected)
    assert len(additions) == 1
    device = replace(device_of(SHAPES["one item"]), keeps_denormals=False)
    monkeypatch.setattr(devices, "find_devices", lambda: (device,))
    assert np.array_equal(model.inplace_predict(tiny), expected)
    assert len(additions) == 1


def test_where_the_device_is_not_there_predictions_are_made_on_the_cpu():
    params, x, y, _ = case()
    model = hornbeam.train(params, hornbeam.DMatrix(x, y), 3)
    expected = model.inplace_predict(x)
    model.set_param("device", "cuda:99")
    with pytest.warns(UserWarning, match="made on the CPU: device='cuda:99'"):
        assert np.array_equal(model.inplace_predict(x), expected)
