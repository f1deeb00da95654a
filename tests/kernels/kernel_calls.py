"""Kernels called as the rest of the package calls them, by a team."""

from __future__ import annotations

import pytest

from hornbeam.kernels.jit import COMPILED
from hornbeam.kernels.team import lease

#: Sizes of teams. As plain Python kernels run alone.
MEMBERS = [1, 2, 3, 4] if COMPILED else [1]

needs_compiler = pytest.mark.skipif(not COMPILED, reason="kernels are plain Python")


def call(kernel, *arguments, members=1):
    """Call `kernel` once for each member of a team."""
    with lease(members) as team:
        team.run(kernel, members, *arguments)
