"""The table of docs/clusters.md is true for groups of processes and for Dask."""

from functools import partial
from itertools import pairwise

import pytest
from engine_features import BEFORE, CASES, FRAME, ROWS, part_of, table, train
from group_processes import call_in_threads
from selection import half_slow

import hornbeam
import hornbeam.distributed.processes
from hornbeam.distributed.group import join, leave
from hornbeam.distributed.process_cluster import ProcessCluster
from hornbeam.distributed.processes import ProcessDMatrix
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


@pytest.mark.parametrize("name", half_slow(CASES, pytest.mark.slow))
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
    from clusters import start_cluster

    with start_cluster(2) as cluster, distributed.Client(cluster) as client:
        yield client


def check_client(name, fit):
    """Check what a client that calls workers makes of a case."""
    params, _, _, options, _ = CASES[name]
    if options.get("xgb_model"):
        options = {"xgb_model": BEFORE}
    options = options | {"verbose_eval": False}
    if TABLE[name]["Dask"] == "no":
        with pytest.raises(hornbeam.HornbeamError) as caught:
            fit({"max_depth": 3} | params, **options)
        assert caught.value.code == ErrorCode.UNSUPPORTED_ON_CLUSTER
    else:
        assert TABLE[name]["Dask"] == "yes"
        booster = fit({"max_depth": 3} | params, **options)["booster"]
        assert booster.digest() == train(name, slice(ROWS)).digest()


@pytest.mark.slow
@pytest.mark.repeats
@pytest.mark.parametrize("name", CASES)
def test_dask_trains_what_the_table_says(name, client):
    import dask.dataframe as dd

    import hornbeam.dask

    _, label, features, _, fields = CASES[name]
    whole = dd.from_pandas(FRAME, npartitions=3)
    values = {field: whole[column] for field, column in fields.items()}

    def fit(params, **options):
        data = hornbeam.dask.DaskDMatrix(
            client, whole[features], whole[label], **values
        )
        return hornbeam.dask.train(client, params, data, 3, **options)

    check_client(name, fit)


@pytest.fixture(scope="module")
def processes():
    """Two plain worker processes."""
    with ProcessCluster(2) as cluster:
        yield cluster


@pytest.mark.slow
@pytest.mark.repeats
@pytest.mark.parametrize("name", CASES)
def test_a_client_of_processes_trains_what_dask_does(name, processes):
    bounds = [0, 150, 400, ROWS]

    def fit(params, **options):
        parts = [partial(part_of, name, *own) for own in pairwise(bounds)]
        data = ProcessDMatrix(processes, parts)
        return hornbeam.distributed.processes.train(
            processes, params, data, 3, **options
        )

    check_client(name, fit)
