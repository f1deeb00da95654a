"""Models, predictions and files are those that were recorded before a refactoring."""

from __future__ import annotations

import digests
import pytest


def test_there_are_many_configurations():
    assert len(digests.CONFIGURATIONS) >= 30


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", digests.CONFIGURATIONS)
def test_digests_equal_their_record(name):
    assert digests.differing(digests.find([name])) == []
