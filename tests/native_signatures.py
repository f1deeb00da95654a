"""Checks that the binary of a wheel has machine code for each call of a kernel.

After each test the signatures that it compiled, or was the first to load, have to be
in kernels/signatures.json, so that `make test` finds those that are missing there and
`make test-wheel` need not run every test again. Tests marked `jit` call others.
"""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Any

import pytest

from hornbeam.kernels.ahead import SIGNATURES
from hornbeam.kernels.jit import COMPILED, NATIVE

__all__ = ["pytest_runtest_teardown"]

#: A wheel's environment and plain Python do not compile, and `make signatures` records.
IS_CHECKED = COMPILED and NATIVE is None and "HORNBEAM_SIGNATURES" not in os.environ


@cache
def recorded() -> dict[str, set[str]]:
    """Return the signatures that the binary has, as JSON, by kernel."""
    from hornbeam.kernels.signatures import read

    return {name: {*map(json.dumps, own)} for name, own in read(SIGNATURES).items()}


@cache
def changed() -> set[Any]:
    """Return the set of the kernels that have loaded machine code since the last test.

    Kernels are entered as they load it: to look at all of them after each test would
    take seconds of a run.
    """
    # Numba, which this imports, is not in the environment of a wheel.
    from hornbeam.kernels.compiler import KERNELS, KernelDispatcher

    kernels = set(KERNELS.values())
    add_overload = KernelDispatcher.add_overload

    def enter(kernel: Any, compiled: Any) -> None:
        kernels.add(kernel)
        add_overload(kernel, compiled)

    KernelDispatcher.add_overload = enter
    return kernels


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Fail a test that called a kernel with types that are not recorded."""
    if not IS_CHECKED or not changed():
        return
    from hornbeam.kernels.compiler import KERNELS, PhaseDispatcher
    from hornbeam.kernels.signatures import layouts_of

    missing = []
    for name, kernel in list(KERNELS.items()):
        if kernel not in changed() or isinstance(kernel, PhaseDispatcher):
            continue  # the builder finds phases where kernels call them
        own = {json.dumps(layouts) for layouts in layouts_of(name, kernel)}
        known = recorded().setdefault(name, set())
        if item.get_closest_marker("jit") is not None:
            known |= own  # the kernel keeps them when a later test loads more
        missing += [(name, one) for one in own - known]
    changed().clear()
    assert not missing, f"kernels/signatures.json lacks, run make signatures: {missing}"
