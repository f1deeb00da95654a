"""How many examples hypothesis draws: few in `make test`, many in `make test-slow`."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

# Examples have no deadline because kernels may compile first. Runs are derandomised, so
# results depend on the code only; `pytest --hypothesis-profile=searching` draws new
# examples.
settings.register_profile("few", deadline=None, derandomize=True, max_examples=15)
settings.register_profile("many", deadline=None, derandomize=True, max_examples=100)
settings.register_profile("searching", deadline=None, max_examples=100)
settings.load_profile("few")


def examples(number: int, **others: Any) -> settings:
    """Return settings for so many examples, of which the profile "few" draws 15 %.

    A test without them draws 100, or 15.
    """
    share = settings.default.max_examples / 100
    return settings(max_examples=max(3, round(share * number)), **others)
