"""Files of libsvm: a label and the filled cells of a row in each line."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import ClassVar

from hornbeam.data.sources.batches import Batch
from hornbeam.data.sources.files import FileFormat
from hornbeam.errors import DataError, ErrorCode, require

__all__ = ["Svmlight"]

#: What scikit-learn calls each `indexing_mode`.
_ZERO_BASED: dict[str, bool | str] = {"0": True, "1": False, "-1": "auto"}


class Svmlight(FileFormat):
    """libsvm: one sparse table a file, with labels, and with qid where it has them.

    Parameters
    ----------
    n_features
        The number of columns; as many as the largest number in the file says if None.
    indexing_mode
        What features are numbered from, as in XGBoost: ``"0"``, the default, or
        ``"1"``; ``"-1"`` takes them for numbered from 1 unless there is a 0.
    """

    name = "libsvm"
    endings = (".libsvm", ".svm", ".svmlight")
    options = ("n_features", "indexing_mode")
    parts: ClassVar[dict[str, str]] = {}
    projects = False

    def __init__(self, n_features: str | None = None, indexing_mode: str = "0") -> None:
        if n_features is not None and not n_features.isdecimal():
            raise DataError(
                f"n_features must be a number, not {n_features!r}",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
        if indexing_mode not in _ZERO_BASED:
            raise DataError(
                f"indexing_mode must be 0, 1 or -1, not {indexing_mode!r}",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
        self._n_features = None if n_features is None else int(n_features)
        self._zero_based = _ZERO_BASED[indexing_mode]

    def column_names(self, path: str) -> list[str] | None:
        return None

    def batches(
        self, path: str, columns: Sequence[str] | None
    ) -> Generator[Batch, None, None]:
        datasets = require("sklearn.datasets", "files", "reading libsvm files")
        rows, labels, qid = datasets.load_svmlight_file(
            path,
            n_features=self._n_features,
            zero_based=self._zero_based,
            query_id=True,
        )
        yield Batch(rows, {"label": labels} | ({"qid": qid} if len(qid) else {}))
