"""What a training on a cluster needs, as the command line prints it."""

from __future__ import annotations

import math
from dataclasses import replace

from hornbeam.distributed.scale import (
    MEASURED,
    Cluster,
    Job,
    Round,
    estimate,
    exchange_of,
    is_paged,
    least_workers,
    memory_of,
    traffic_of,
)

__all__ = ["describe"]

_PARTS = {
    "counting": "loops over rows",
    "reading": "reading from disk",
    "messages": "waiting for messages",
    "bytes": "sending and adding histograms",
    "searching": "searching splits",
}


def describe(job: Job, cluster: Cluster, engine: str, rounds: int) -> dict[str, str]:
    """Return workers, memory, network and time of a training, as names and texts."""
    exchange = exchange_of(engine, cluster.workers)
    memory = memory_of(job, cluster.workers)
    is_on_disk = is_paged(job, cluster) and engine == "dask"
    room = cluster if is_on_disk else replace(cluster, memory=math.inf)
    one = estimate(job, room, MEASURED, exchange)
    traffic = traffic_of(job, cluster, exchange)
    return {
        "workers": f"{cluster.workers} of {cluster.threads} threads",
        "memory of a worker": f"{_bytes(memory.most)} while rows are binned, then "
        f"{_bytes(memory.most - memory.values)}",
        "is there": _memory_words(job, cluster, is_on_disk),
        "network": f"{_bytes(traffic)} a round on the busiest link, "
        f"{traffic * 8 / one.seconds / 1e9:.2g} Gbit/s",
        "a round": f"{_seconds(one.seconds)}, most of it {_PARTS[one.bound]} "
        f"({_share(one)})",
        f"{rounds} rounds": _seconds(rounds * one.seconds),
    }


def _memory_words(job: Job, cluster: Cluster, is_on_disk: bool) -> str:
    has, least = _bytes(cluster.memory), least_workers(job, cluster)
    if is_on_disk:
        return f"{has}: bins are on disk (cache=); {least} workers hold all in memory"
    if least > cluster.workers:
        return f"{has}, which is too little: {least} workers hold all"
    if least == 0:
        return f"{has}, which is too little for the histograms of a tree"
    return f"{has}: {least} such workers would do"


def _share(one: Round) -> str:
    return f"{getattr(one, one.bound) / one.seconds:.0%}"


def _bytes(size: float) -> str:
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size / 1e3:.3g} KB"


def _seconds(seconds: float) -> str:
    if seconds >= 120:
        return f"{seconds / 60:.3g} min"
    return f"{seconds:.3g} s"
