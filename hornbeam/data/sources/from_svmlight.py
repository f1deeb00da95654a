"""Files of libsvm: a label and the filled cells of a row in each line."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import ClassVar

from hornbeam.data.sources.batches import Batch
from hornbeam.data.sources.files import FileFormat
from hornbeam.errors import DataError, require

__all__ = ["Svmlight"]


class Svmlight(FileFormat):
    """libsvm: one sparse table a file, with labels, and with qid where it has them.

    Features are numbered from 0, as XGBoost numbers them.

    Parameters
    ----------
    n_features
        The number of columns; one more than the largest number in the file if None.
    """

    name = "libsvm"
    endings = (".libsvm", ".svm", ".svmlight")
    options = ("n_features",)
    parts: ClassVar[dict[str, str]] = {}
    projects = False

    def __init__(self, n_features: str | None = None) -> None:
        if n_features is not None and not n_features.isdecimal():
            raise DataError(f"n_features must be a number, not {n_features!r}")
        self._n_features = None if n_features is None else int(n_features)

    def column_names(self, path: str) -> list[str] | None:
        return None

    def batches(
        self, path: str, columns: Sequence[str] | None
    ) -> Generator[Batch, None, None]:
        datasets = require("sklearn.datasets", "files", "reading libsvm files")
        rows, labels, qid = datasets.load_svmlight_file(
            path, n_features=self._n_features, zero_based=True, query_id=True
        )
        yield Batch(rows, {"label": labels} | ({"qid": qid} if len(qid) else {}))
