"""Compilation of the kernels ahead of time, before the first fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain, count, product
from typing import Any

import numpy as np

from hornbeam.cpu_count import available_threads
from hornbeam.data.dmatrix import DMatrix
from hornbeam.kernels.ahead import compilations, compile_in_processes
from hornbeam.kernels.jit import COMPILED, NATIVE
from hornbeam.kernels.sources import prune_cache
from hornbeam.objectives.base import Objective
from hornbeam.objectives.registry import registered
from hornbeam.training import train

__all__ = ["warmup"]


def warmup(
    progress: Callable[[int, int], None] | None = None, *, load: bool = True
) -> None:
    """Compile all kernels, or load them if they are compiled already.

    Where a wheel has the machine code there is nothing to do. Elsewhere it takes
    minutes in a new installation, since a fit needs a few kernels only; it then runs a
    process on each core. Later it takes seconds. Call it at the start of a program with
    tight response times, or while building a container image. The machine code of
    earlier versions is deleted.

    Parameters
    ----------
    progress
        A function that is called with the number of jobs that are done, and of all.
    load
        Whether to load the machine code into this process, which takes seconds. A
        process that only compiles, for those that follow, need not.

    Examples
    --------
    >>> import hornbeam
    >>> hornbeam.warmup()  # doctest: +SKIP
    """
    if not COMPILED or NATIVE is not None:
        return
    prune_cache()
    jobs, fits = compilations(), list(_fits())
    compiles = not all(job.is_on_disk for job in jobs)
    in_processes = compiles and (available_threads() > 1 or not load)
    total = len(jobs) * (in_processes + load) + len(fits)
    done = count(1)
    if in_processes:
        for _ in compile_in_processes(jobs):
            if progress is not None:
                progress(next(done), total)
    # This process loads what others have compiled.
    for step in chain((job.compile for job in jobs if load), fits):
        step()
        if progress is not None:
            progress(next(done), total)


def _fits() -> Iterator[Callable[[], None]]:
    """Yield the fits that compile the kernels of objectives of other packages.

    These are registered in this process alone.
    """
    for objective in registered():
        if not objective.__module__.startswith("hornbeam."):
            types = np.float64, np.float32
            for case, dtype in product(objective.warm_up_cases, types):
                yield partial(_fit, objective, case, dtype)


def _fit(objective: type[Objective], case: Mapping[str, Any], dtype: Any) -> None:
    """Train and predict with and without weights."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4)).astype(dtype)
    X[::7, 1] = np.nan
    classes = rng.integers(max(2, case.get("num_class", 0)), size=len(X))
    fields = objective.warm_up_fields(classes)
    weighted = {"weight": rng.uniform(size=len(X)), **fields}
    # Weights of a ranking are those of groups.
    for info in (fields,) if objective.task == "ranking" else (fields, weighted):
        matrix = DMatrix(X, **info)
        params = {**case, "objective": objective.name}
        booster = train(params, matrix, 2, evals=[(matrix, "data")], verbose_eval=False)
        booster.predict(matrix)
        booster.inplace_predict(X)
        booster.inplace_predict(X[:1])
