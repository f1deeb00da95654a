"""How many examples hypothesis draws.

Few in `make test`, some in `make test-slow`, many in `make test-all`; a handful in
`make pure` and `make test-wheel`, which repeat tests for kernels made in another way.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from selection import IS_SECOND, IS_WHOLE

# Examples have no deadline because kernels may compile first. Runs are derandomised, so
# results depend on the code only; `pytest --hypothesis-profile=searching` draws new
# examples.
settings.register_profile("handful", deadline=None, derandomize=True, max_examples=5)
settings.register_profile("few", deadline=None, derandomize=True, max_examples=15)
settings.register_profile("some", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("many", deadline=None, derandomize=True, max_examples=100)
settings.register_profile("searching", deadline=None, max_examples=100)
settings.load_profile("handful" if IS_SECOND and not IS_WHOLE else "few")


def examples(number: int, **others: Any) -> settings:
    """Return settings for so many examples, of which profiles draw their share.

    "many" draws all of them, "some" 40 %, "few" 15 %, "handful" 5 %; three at least.
    """
    share = settings.default.max_examples / 100
    return settings(max_examples=max(3, round(share * number)), **others)
