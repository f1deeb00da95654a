"""A real session of Spark Connect, whose frames are refused by one clear error."""

import subprocess
import sys

import pytest

# What `pip install "pyspark[connect]"` brings.
for package in ("grpc", "grpc_status", "google.rpc", "zstandard"):
    pytest.importorskip(package)

SCRIPT = """
import hornbeam
from hornbeam.spark import HornbeamRegressor
from pyspark.sql import SparkSession

# Starts a server in a process of its own.
builder = SparkSession.builder.remote("local[1]")
spark = builder.config("spark.ui.enabled", "false").getOrCreate()
assert type(spark).__module__ == "pyspark.sql.connect.session"
frame = spark.range(10).selectExpr("double(id) AS a", "double(id) AS y")
assert frame.count() == 10
estimator = HornbeamRegressor(features_col=["a"], label_col="y")
try:
    estimator.fit(frame)
except hornbeam.HornbeamError as error:
    print(error.code, error)
spark.stop()
"""


def test_a_frame_of_a_session_of_connect():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT],
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "spark_connect" in done.stdout
    assert "SparkSession.builder.master(...) instead of remote" in done.stdout
