"""The examples of the README run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("code", EXAMPLES, ids=lambda code: code.split("\n")[0])
def test_example_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, README, "exec"), {"__name__": "__main__"})


def test_there_are_two_examples():
    assert len(EXAMPLES) == 2
