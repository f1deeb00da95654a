"""The table of docs/clusters.md is true for groups of processes and for Dask."""

import pytest
from engine_features import BEFORE, CASES, FRAME, ROWS, table, train
from group_processes import call_in_threads

import hornbeam
from hornbeam.distributed.group import join, leave
from hornbeam.distributed.tracker import Tracker
from hornbeam.errors import ErrorCode

TABLE = table()


def test_the_table_has_a_row_for_each_case():
    assert set(CASES) <= set(TABLE)


def in_group(name):
    """Return digests, or the code of the error, of a group of two processes."""
    tracker = Tracker(2, "127.0.0.1", by_task=True)
    tracker.start()

    def one(number):
        join(tracker.host, tracker.port, tracker.token, task=str(number))
        try:
            rows = slice(0, 250) if number == 0 else slice(250, ROWS)
            return train(name, rows).digest()
        except hornbeam.HornbeamError as error:
            return error.code
        finally:
            leave()

    found = call_in_threads(one, 2)
    tracker.close("the test has ended")
    return found


@pytest.mark.parametrize("name", CASES)
def test_groups_train_what_the_table_says(name):
    found = in_group(name)
    if TABLE[name]["processes"] == "no":
        assert found == [ErrorCode.UNSUPPORTED_ON_CLUSTER] * 2
    else:
        assert TABLE[name]["processes"] == "yes"
        assert found == [train(name, slice(ROWS)).digest()] * 2


@pytest.fixture(scope="module")
def client():
    """Two Dask workers."""
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0"
    )
    with cluster, distributed.Client(cluster) as client:
        yield client


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_dask_trains_what_the_table_says(name, client):
    import dask.dataframe as dd

    import hornbeam.dask

    params, label, features, options, fields = CASES[name]
    whole = dd.from_pandas(FRAME, npartitions=3)
    values = {field: whole[column] for field, column in fields.items()}
    if options.get("xgb_model"):
        options = {"xgb_model": BEFORE}

    def fit():
        data = hornbeam.dask.DaskDMatrix(
            client, whole[features], whole[label], **values
        )
        given = {"max_depth": 3} | params
        return hornbeam.dask.train(
            client, given, data, 3, verbose_eval=False, **options
        )

    if TABLE[name]["Dask"] == "no":
        with pytest.raises(hornbeam.HornbeamError) as caught:
            fit()
        assert caught.value.code == ErrorCode.UNSUPPORTED_ON_CLUSTER
    else:
        assert TABLE[name]["Dask"] == "yes"
        assert fit()["booster"].digest() == train(name, slice(ROWS)).digest()
