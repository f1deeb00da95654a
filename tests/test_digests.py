"""Models, predictions and files are those that were recorded before a refactoring."""

from __future__ import annotations

import digests
import pytest


@pytest.mark.filterwarnings("ignore")
def test_digests_equal_their_record():
    assert len(digests.CONFIGURATIONS) >= 30
    assert digests.differing(digests.find(list(digests.CONFIGURATIONS))) == []
