"""Marks these tests as ones that compile: kernels are called one by one, and a wheel's
binary has those alone that Python calls in training and prediction."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before unselected tests are removed
def pytest_collection_modifyitems(items):
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.jit)
