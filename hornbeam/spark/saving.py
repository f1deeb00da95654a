"""Saves estimators and models through Spark, to any file system that it knows.

In the folder are ``metadata``, as Spark ML writes it, and boosters as Parquet files of
one row.
"""

from __future__ import annotations

import base64
import os
import shutil
from dataclasses import asdict
from importlib import import_module
from typing import Any

from pyspark import cloudpickle
from pyspark.errors import PySparkRuntimeError
from pyspark.ml.util import (
    DefaultParamsReader,
    DefaultParamsWriter,
    MLReader,
    MLWriter,
)

from hornbeam.errors import ClusterError, ErrorCode, ModelFileError
from hornbeam.spark.params import SparkParams
from hornbeam.spark.stage import connections

__all__ = ["Reader", "Writer"]

#: Parameters that JSON cannot hold.
_APART = ("callbacks", "xgb_model", "coll_cfg")


class Writer(MLWriter):
    """Writes an estimator or a model.

    Parameters
    ----------
    instance
        What to write.
    """

    def __init__(self, instance: SparkParams) -> None:
        super().__init__()
        self._instance = instance

    def saveImpl(self, path: str) -> None:  # noqa: N802  as in Spark ML
        """Write to a folder that does not exist, or was removed."""
        instance, spark = self._instance, self.sparkSession
        given = {
            param.name: value
            for param, value in instance._paramMap.items()
            if param.name not in _APART
        }
        more: dict[str, Any] = {}
        callbacks, coll_cfg = instance.given("callbacks"), instance.given("coll_cfg")
        if callbacks is not None:
            pickled = cloudpickle.dumps(callbacks)
            more["callbacks"] = base64.b64encode(pickled).decode()
        if coll_cfg is not None:
            more["coll_cfg"] = connections(coll_cfg)
        more["has_xgb_model"] = instance.given("xgb_model") is not None
        summary = getattr(instance, "training_summary", None)
        if summary is not None:
            more["training_summary"] = asdict(summary)
        DefaultParamsWriter.saveMetadata(
            instance, path, spark, extraMetadata=more, paramMap=given
        )
        boosters = {
            "xgb_model": instance.given("xgb_model"),
            "model": getattr(instance, "_booster", None),
        }
        for name, booster in boosters.items():
            if booster is not None:
                rows = [(bytearray(booster.save_raw("ubj")),)]
                frame = spark.createDataFrame(rows, "booster binary").coalesce(1)
                frame.write.parquet(f"{path}/{name}")


class Reader(MLReader[Any]):
    """Reads an estimator or a model.

    Parameters
    ----------
    kind
        Its class.
    """

    def __init__(self, kind: type[Any]) -> None:
        super().__init__()
        self._kind = kind

    def load(self, path: str) -> Any:
        """Return what was written to this folder."""
        spark = _session_of(self)
        metadata = DefaultParamsReader.loadMetadata(path, spark)
        found = metadata["class"].rpartition(".")[2]
        if found != self._kind.__name__:
            raise ModelFileError(
                f"{path} holds a {found}; load it with {found}.load",
                code=ErrorCode.MODEL_FILE_ESTIMATOR_MISMATCH,
            )
        instance = self._kind()
        instance._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(instance, metadata)
        if "callbacks" in metadata:
            pickled = base64.b64decode(metadata["callbacks"])
            instance.set(instance.getParam("callbacks"), cloudpickle.loads(pickled))
        if "coll_cfg" in metadata:
            instance.set(instance.getParam("coll_cfg"), metadata["coll_cfg"])
        library = import_module(instance.library)

        def booster(name: str) -> Any:
            (row,) = spark.read.parquet(f"{path}/{name}").collect()
            return library.Booster(model_file=bytearray(row["booster"]))

        if metadata["has_xgb_model"]:
            instance.set(instance.getParam("xgb_model"), booster("xgb_model"))
        if hasattr(instance, "_booster"):
            instance._fill(booster("model"), metadata.get("training_summary"))
        return instance


def _session_of(reader: MLReader[Any]) -> Any:
    """Return the session that reads; raise a `ClusterError` if there is no Java."""
    try:
        return reader.sparkSession
    except PySparkRuntimeError as error:
        home = os.environ.get("JAVA_HOME")
        found = shutil.which("java") or (home and shutil.which(f"{home}/bin/java"))
        if found:
            raise
        raise ClusterError(
            "Spark cannot start, since there is no Java: neither java on the PATH nor "
            f"JAVA_HOME ({home!r}) has it; install Java 17 or 21, such as Debian's "
            "openjdk-17-jre-headless, or read the model without Spark: it is in the "
            "column booster of the Parquet file model",
            code=ErrorCode.JAVA_MISSING,
        ) from error
