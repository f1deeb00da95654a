"""One table, one model: on Dask, on Ray, on Spark and in a group of processes."""

import os
import shutil
import sys
from contextlib import chdir

import numpy as np
import pandas as pd
import pytest
from group_processes import call_in_threads

import hornbeam
from hornbeam.distributed.group import join, leave
from hornbeam.distributed.tracker import Tracker

pytestmark = [
    pytest.mark.slow,
    # The tests of each engine compare its models with those of one process.
    pytest.mark.whole,
    pytest.mark.filterwarnings("default"),
]

ROWS = 900
_random = np.random.default_rng(3)
_x = _random.normal(size=(ROWS, 4)).astype(np.float32)
FRAME = pd.DataFrame(_x, columns=list("abcd")).assign(
    level=pd.Categorical(np.where(_x[:, 0] > 0, "u", np.where(_x[:, 1] > 0, "v", "w"))),
    y=(_x[:, 0] * _x[:, 1] + _x[:, 2] > 0).astype(float),
    key=_random.permutation(ROWS),
)
PARAMS = {
    "objective": "binary:logistic",
    "max_depth": 4,
    "subsample": 0.5,
    "nthread": 1,
}
ROUNDS = 6


NUMBERS = list("abcd")


def fit(rows, has_keys=False):
    """Return the digest of one process; with keys, of a model of the numbers."""
    own = FRAME.iloc[rows]
    fields = {"row_key": own["key"]} if has_keys else {}
    names = NUMBERS if has_keys else [*NUMBERS, "level"]
    data = hornbeam.DMatrix(own[names], own["y"], **fields)
    return hornbeam.train(PARAMS, data, ROUNDS, verbose_eval=False).digest()


def in_group(number, address, bounds, has_keys):
    """Train on a part of the rows, with the other processes."""
    join(*address, task=str(number))
    try:
        return fit(slice(bounds[number], bounds[number + 1]), has_keys)
    finally:
        leave()


def of_group(n_workers, has_keys):
    tracker = Tracker(n_workers, "127.0.0.1", by_task=True)
    tracker.start()
    bounds = np.linspace(0, ROWS, n_workers + 1).astype(int).tolist()
    address = tracker.host, tracker.port, tracker.token
    found = call_in_threads(in_group, n_workers, address, bounds, has_keys)
    tracker.close("the test has ended")
    (digest,) = set(found)
    return digest


@pytest.fixture(scope="module")
def dask_clusters():
    distributed = pytest.importorskip("distributed")
    from clusters import start_cluster

    with start_cluster(3) as cluster, distributed.Client(cluster) as client:
        yield client


def of_dask(client, n_workers, has_keys):
    import dask.dataframe as dd

    import hornbeam.dask

    client.cluster.scale(n_workers)
    client.wait_for_workers(n_workers)
    frame, names, fields = FRAME, [*NUMBERS, "level"], {}
    if has_keys:  # in another order
        frame, names = FRAME.sample(frac=1, random_state=2), NUMBERS
    whole = dd.from_pandas(frame, npartitions=2 * n_workers, sort=False)
    if has_keys:
        fields = {"row_key": whole["key"]}
    data = hornbeam.dask.DaskDMatrix(client, whole[names], whole["y"], **fields)
    result = hornbeam.dask.train(client, PARAMS, data, ROUNDS, verbose_eval=False)
    return result["booster"].digest()


@pytest.fixture(scope="module")
def ray_cluster():
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    ray = pytest.importorskip("ray")
    if ray.is_initialized():
        yield ray
        return
    ray.init(
        num_cpus=3,
        object_store_memory=200_000_000,
        include_dashboard=False,
        logging_level="ERROR",
        runtime_env={"env_vars": {"PYTHONPATH": os.getcwd()}},
    )
    yield ray
    ray.shutdown()


def of_ray(ray, n_workers, has_keys):
    import hornbeam.ray

    frame, options = FRAME.drop(columns="key"), {}
    if has_keys:  # in another order
        frame = FRAME.drop(columns="level").sample(frac=1, random_state=0)
        options = {"row_key": "key"}
    data = ray.data.from_pandas([frame.iloc[:300], frame.iloc[300:]])
    booster = hornbeam.ray.train(
        PARAMS,
        data,
        ROUNDS,
        label="y",
        num_workers=n_workers,
        verbose_eval=False,
        **options,
    )
    return booster.digest()


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    sql = pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java: make java")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        sql.SparkSession.builder.master("local[3]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.log.level", "OFF")
    )
    # Java works in the folder where it starts, also for later tests of the process.
    with chdir(tmp_path_factory.mktemp("spark")):
        session = builder.getOrCreate()
    yield session
    session.stop()


def of_spark(session, n_workers):
    import hornbeam.spark

    shuffled = FRAME.drop(columns="level").sample(frac=1, random_state=1)
    rows = [tuple(row) for row in shuffled.astype(float).itertuples(index=False)]
    frame = session.createDataFrame(rows, list(shuffled.columns))
    estimator = hornbeam.spark.HornbeamClassifier(
        features_col=NUMBERS,
        label_col="y",
        row_key_col="key",
        num_workers=n_workers,
        n_estimators=ROUNDS,
        max_depth=PARAMS["max_depth"],
        subsample=PARAMS["subsample"],
        verbose=False,
    )
    model = estimator.fit(frame.withColumn("key", frame["key"].cast("long")))
    return model.get_booster().digest()


@pytest.mark.parametrize("n_workers", [1, 2, 3])
def test_all_engines_train_the_model_of_one_process(
    dask_clusters, ray_cluster, n_workers
):
    assert {
        fit(slice(ROWS)),
        of_group(n_workers, has_keys=False),
        of_dask(dask_clusters, n_workers, has_keys=False),
        of_ray(ray_cluster, n_workers, has_keys=False),
    } == {fit(slice(ROWS))}


@pytest.mark.parametrize("n_workers", [1, 2, 3])
def test_with_keys_the_order_of_rows_does_not_matter(
    dask_clusters, ray_cluster, spark, n_workers
):
    expected = fit(slice(ROWS), has_keys=True)
    assert {
        of_group(n_workers, has_keys=True),
        of_dask(dask_clusters, n_workers, has_keys=True),
        of_ray(ray_cluster, n_workers, has_keys=True),
        of_spark(spark, n_workers),
    } == {expected}


def test_keys_draw_other_rows():
    without = hornbeam.DMatrix(FRAME[NUMBERS], FRAME["y"])
    booster = hornbeam.train(PARAMS, without, ROUNDS, verbose_eval=False)
    assert booster.digest() != fit(slice(ROWS), has_keys=True)
