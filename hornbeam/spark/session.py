"""Spark as Hornbeam needs it: a session of its own process, on Java."""

from __future__ import annotations

import os
import shutil
from typing import Any

from pyspark.errors import PySparkRuntimeError
from pyspark.ml.util import MLReader
from pyspark.sql import DataFrame

from hornbeam.data.containers.dispatch import words
from hornbeam.errors import ClusterError, DataError, ErrorCode

__all__ = ["check_frame", "session_of"]


def check_frame(dataset: Any) -> None:
    """Raise an error unless this is a DataFrame whose session is in this process.

    A session of Spark Connect has neither barrier stages that report to the driver nor
    broadcast variables.
    """
    if any(
        kind.__module__.startswith("pyspark.sql.connect.")
        for kind in type(dataset).__mro__
    ):
        raise ClusterError(
            "this DataFrame is of a Spark Connect session, whose driver is on a server "
            "that Hornbeam cannot reach; run the program where the driver is, with "
            "SparkSession.builder.master(...) instead of remote(...)",
            code=ErrorCode.SPARK_CONNECT,
        )
    if not isinstance(dataset, DataFrame):
        raise DataError(
            f"the data is {words(dataset)}; pass a DataFrame of Spark, such as "
            "spark.createDataFrame(data), or use hornbeam.HornbeamClassifier and the "
            "other estimators for one machine",
            code=ErrorCode.UNSUPPORTED_COLLECTION,
        )


def session_of(reader: MLReader[Any]) -> Any:
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
