"""The examples of the README and of the documentation run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"```python\n(.*?)```", flags=re.DOTALL)
PAGES = {
    str(path.relative_to(ROOT)): BLOCK.findall(path.read_text())
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
}


@pytest.mark.parametrize("page", [page for page, blocks in PAGES.items() if blocks])
def test_examples_run(page, tmp_path, monkeypatch):
    """The blocks of a page run one after the other, each knowing those before it."""
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for block in PAGES[page]:
        exec(compile(block, page, "exec"), names)


def test_there_are_examples():
    assert len(PAGES["README.md"]) == 2
    assert len(PAGES["docs/data.md"]) == 4
