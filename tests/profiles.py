"""How many examples hypothesis draws.

Few in `make test`, some in `make test-slow`, many in `make test-all`.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings

# Examples have no deadline because kernels may compile first. Runs are derandomised, so
# results depend on the code only; `pytest --hypothesis-profile=searching` draws new
# examples.
settings.register_profile("few", deadline=None, derandomize=True, max_examples=15)
settings.register_profile("some", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("many", deadline=None, derandomize=True, max_examples=100)
settings.register_profile("searching", deadline=None, max_examples=100)
settings.load_profile("few")


def examples(number: int, **others: Any) -> settings:
    """Return settings for so many examples, of which "few" draws 15 % and "some" 40 %.

    A test without them draws 100, 15 or 40.
    """
    share = settings.default.max_examples / 100
    return settings(max_examples=max(3, round(share * number)), **others)
