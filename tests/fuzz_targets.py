"""What reads bytes that others may have written, as functions of these bytes.

Each target returns if the bytes are valid, and raises a `HornbeamError` if not; any
other exception is a fault, and so is a value that is not the one that was read. They
are run on the corpus and on changed seeds by test_fuzz_targets.py, and by a fuzzer that
is guided by coverage, fuzz.py.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import socket
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import hornbeam
import hornbeam.xgboost as xgb
from hornbeam.data.saved import KIND
from hornbeam.distributed.connection import GREETING, Connection, HandshakeError
from hornbeam.distributed.messages import Message
from hornbeam.errors import HornbeamError
from hornbeam.external_memory.codecs import Encoding, decode, encode, stored_sizes
from hornbeam.external_memory.folders import MANIFEST
from hornbeam.external_memory.manifest import FORMAT, read_manifest

#: Found by fuzz.py: for each target a file, in which a line is an input in base64.
CORPUS = Path(__file__).parent / "corpus"
#: Most bytes that a target may take: far more than models of this size need.
MAX_BYTES = 256 << 20

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3)).astype(np.float32)
X[:, 2] = rng.integers(0, 4, 60)
Y = (X[:, 0] > 0).astype(np.float32)
TYPES = ["q", "q", "c"]
DATA = hornbeam.DMatrix(X, Y, feature_types=TYPES, nthread=1)
FOLDER = tempfile.TemporaryDirectory()
FILE = Path(FOLDER.name) / "data"
QUICK = {"nthread": 1}
SMALL = {"max_depth": 2, "nthread": 1}
CLASSES = {"objective": "multi:softprob", "num_class": 2}
PARAMS: list[dict[str, Any]] = [
    {**SMALL, "max_cat_to_onehot": 1},
    {"booster": "gblinear"},
    {**SMALL, "booster": "dart", "rate_drop": 0.5},
    {**SMALL, **CLASSES, "num_parallel_tree": 2},
    {**SMALL, **CLASSES, "multi_strategy": "multi_output_tree"},
    {**SMALL, "objective": "reg:quantileerror", "quantile_alpha": [0.2, 0.8]},
]


def models() -> Iterator[hornbeam.Booster]:
    for params in PARAMS:
        data = DATA
        if params.get("booster") == "gblinear":
            data = hornbeam.DMatrix(X, Y, nthread=1)
        yield hornbeam.train({**QUICK, **params}, data, 2)


def model(data: bytes) -> None:
    """Load a model of either format, and predict with it."""
    booster = hornbeam.Booster(QUICK, model_file=bytearray(data))
    digest = booster.digest()
    for form in ("ubj", "json"):
        saved = booster.save_raw(form)
        assert hornbeam.Booster(model_file=saved).digest() == digest
    if booster.num_features() <= 100:
        rows = np.zeros((2, booster.num_features()), np.float32)
        rows[1] = np.nan
        booster.inplace_predict(rows, predict_type="margin", validate_features=False)
    booster.get_dump()


def drop_in_model(data: bytes) -> None:
    """Load a model as XGBoost does, also one that was edited."""
    booster = xgb.Booster(model_file=bytearray(data))
    saved = booster.save_raw("json")
    assert xgb.Booster(model_file=saved).save_raw("json") == saved


def model_seeds() -> Iterator[bytes]:
    for booster in models():
        yield bytes(booster.save_raw("ubj"))
        yield bytes(booster.save_raw("json"))
        yield bytes(hornbeam.export.to_xgboost(booster, raw_format="json"))
        yield bytes(hornbeam.export.to_xgboost(booster, raw_format="ubj"))


def config(data: bytes) -> None:
    """Load a configuration."""
    booster = xgb.Booster({"nthread": 1})
    booster.load_config(data.decode("utf-8", "replace"))
    booster.save_config()


def config_seeds() -> Iterator[bytes]:
    for params in PARAMS:
        matrix = xgb.DMatrix(X[:, :2], Y, nthread=1)
        yield xgb.train({**QUICK, **params}, matrix, 1).save_config().encode()


def matrix(data: bytes) -> None:
    """Load a saved matrix; the checksum is set right, or else nothing else is read."""
    content = KIND + data
    FILE.write_bytes(content + hashlib.sha256(content).digest())
    loaded = hornbeam.DMatrix(FILE, nthread=1)
    loaded.rows(0, loaded.n_rows)


def matrix_seeds() -> Iterator[bytes]:
    import pandas as pd
    import scipy.sparse as sp

    frame = pd.DataFrame({"a": X[:, 0], "b": pd.Categorical(list("xyz") * 20)})
    sparse = sp.csr_matrix(np.where(X > 1, X, 0))
    for data in (
        DATA,
        hornbeam.DMatrix(frame, Y, weight=Y + 1),
        hornbeam.DMatrix(sparse, Y, group=[20, 40]),
    ):
        data.save_binary(FILE)
        yield FILE.read_bytes()[len(KIND) : -32]


def manifest(data: bytes) -> None:
    """Read the manifest of a cache, whose checksum is set right."""
    digest = hashlib.sha256(data).hexdigest()
    head = FORMAT + f', "version": 1, "sha256": "{digest}"}}\n'.encode()
    (Path(FOLDER.name) / MANIFEST).write_bytes(head + data + b"\n")
    found = read_manifest([Path(FOLDER.name)])
    assert found is not None
    assert sum(entry.end - entry.begin for entry in found.blocks) == found.n_rows


def manifest_seeds() -> Iterator[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        matrix = hornbeam.ExtMemQuantileDMatrix(X, Y, cache=folder, nthread=1)
        hornbeam.train(QUICK, matrix, 1)
        yield (Path(folder) / MANIFEST).read_bytes().split(b"\n")[1]


def page(data: bytes) -> None:
    """Decode a compressed segment of a block, of a length that the manifest allows."""
    dtype = (np.uint8, np.uint16)[data[0] % 2 if data else 0]
    out = np.zeros(64, dtype)
    least, most = stored_sizes("lz4", out.size, out.itemsize)
    if not least <= len(data) - 1 <= most:
        return
    try:
        decode("lz4", np.frombuffer(data[1:], np.uint8), out)
    except (ValueError, RuntimeError) as error:  # as `BlockReader` expects
        raise HornbeamError(str(error)) from error


def page_seeds() -> Iterator[bytes]:
    bins = np.arange(64) // 16
    yield b"\0" + bytes(encode(Encoding("lz4", 1), bins.astype(np.uint8)))
    yield b"\1" + bytes(encode(Encoding("lz4", 2), bins.astype(np.uint16)))


def feature_map(data: bytes) -> None:
    """Read the names of features from a file."""
    FILE.write_bytes(data)
    TREES.get_dump(FILE)


def feature_map_seeds() -> Iterator[bytes]:
    yield b"0 age q\n1 has_child i\n2 kind c\n"


def csv(data: bytes) -> None:
    """Read a CSV file."""
    path = FILE.with_suffix(".csv")
    path.write_bytes(data)
    hornbeam.DMatrix(path, nthread=1)


def csv_seeds() -> Iterator[bytes]:
    yield b"a,b\n1,2.5\n,NA\n3,x\n"


def libsvm(data: bytes) -> None:
    """Read a libsvm file."""
    path = FILE.with_suffix(".libsvm")
    path.write_bytes(data)
    matrix = hornbeam.DMatrix(path, nthread=1)
    assert matrix.num_nonmissing() <= len(data)


def libsvm_seeds() -> Iterator[bytes]:
    yield b"1 0:1 5:2.5\n0 1:1e3 7:-3 # text\n"
    yield b"1 qid:1 0:1 2:2\n0 qid:1 1:1\n0.5 qid:2 2:0\n"


@functools.cache
def onnx_models() -> list[tuple[hornbeam.Booster, Any]]:
    """Return models of two numbers, and sessions of onnxruntime that predict them."""
    import onnxruntime

    found = []
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    for params in PARAMS:
        matrix = hornbeam.DMatrix(X[:, :2], Y, nthread=1)
        numeric = {k: v for k, v in params.items() if "cat" not in k}
        booster = hornbeam.train({**QUICK, **numeric}, matrix, 2)
        file = hornbeam.export.to_onnx(booster).SerializeToString()
        found.append((booster, onnxruntime.InferenceSession(file, options)))
    return found


def onnx(data: bytes) -> None:
    """Predict rows of float32 by a model, and by the ONNX model exported from it."""
    count = len(data) // 8
    if count == 0:
        return
    rows = np.frombuffer(data[: 8 * count], "<f4").reshape(count, 2)
    for booster, session in onnx_models():
        expected = booster.inplace_predict(rows)
        kind = session.get_inputs()[0].type
        found = session.run(
            None, {"X": rows.astype("f8" if "double" in kind else "f4")}
        )
        np.testing.assert_allclose(
            found[-1].reshape(expected.shape), expected, rtol=1e-4, atol=1e-5
        )


def onnx_seeds() -> Iterator[bytes]:
    yield X[:3, :2].tobytes()
    yield np.array([[np.nan, 0], [-0.0, 1e30], [1e-40, -1e30]], np.float32).tobytes()


def stranger(data: bytes) -> None:
    """Connect to a group of processes without its token, and send bytes."""
    ours, theirs = pair_of_sockets()
    with ours, theirs:
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        with contextlib.suppress(HandshakeError):
            Connection(ours).accept("secret")
            raise AssertionError("a stranger was accepted")


def stranger_seeds() -> Iterator[bytes]:
    yield GREETING + bytes(64)


def text(data: bytes) -> None:
    """Receive a message of the tracker; its checksums are set right."""
    ours, theirs = pair_of_sockets()
    with ours, theirs:
        Connection(theirs).send_message(Message.of_frames([data]))
        try:
            message = Connection(ours).receive_text()
        except OSError as error:
            raise HornbeamError(str(error)) from error
        assert isinstance(message, dict)


def text_seeds() -> Iterator[bytes]:
    yield b'{"rank": 3, "addresses": [["127.0.0.1", 1]], "names": ["a", "b"]}'


def pair_of_sockets() -> tuple[socket.socket, socket.socket]:
    """Return both ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        return listener.accept()[0], one


TREES = next(models())
#: By name: the target and its seeds.
TARGETS: dict[str, tuple[Callable[[bytes], None], Callable[[], Iterator[bytes]]]] = {
    "model": (model, model_seeds),
    "drop_in_model": (drop_in_model, model_seeds),
    "config": (config, config_seeds),
    "matrix": (matrix, matrix_seeds),
    "manifest": (manifest, manifest_seeds),
    "page": (page, page_seeds),
    "feature_map": (feature_map, feature_map_seeds),
    "csv": (csv, csv_seeds),
    "libsvm": (libsvm, libsvm_seeds),
    "onnx": (onnx, onnx_seeds),
    "stranger": (stranger, stranger_seeds),
    "text": (text, text_seeds),
}


def corpus(name: str) -> list[bytes]:
    """Return the inputs that were found for a target."""
    lines = (CORPUS / f"{name}.txt").read_text().split()
    return [base64.b64decode(line) for line in lines]


def run(name: str, data: bytes) -> bool:
    """Return whether the bytes are valid; warnings are not looked at."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            TARGETS[name][0](data)
        except HornbeamError:
            return False
    return True
