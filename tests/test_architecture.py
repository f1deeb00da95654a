"""ARCHITECTURE.md tells the truth about files, lengths and the path to the kernel."""

from __future__ import annotations

import re
import traceback
from itertools import dropwhile
from pathlib import Path

import numpy as np
import pytest

import hornbeam
from hornbeam.kernels.team import Team

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "hornbeam"
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
READING_PATH = re.findall(r"^\| \d+ \| `(.+?)` \| (\d+) \|", PAGE, re.MULTILINE)


def test_the_reading_path_has_eight_to_ten_files():
    assert 8 <= len(READING_PATH) <= 10


@pytest.mark.parametrize(("path", "lines"), READING_PATH)
def test_lengths_on_the_reading_path_are_right(path, lines):
    length = len((ROOT / path).read_text().splitlines())
    assert length == pytest.approx(int(lines), rel=0.1)


def test_every_file_that_the_page_names_exists():
    named = re.findall(r"`((?:hornbeam/)?[a-z_]+/[a-z_/]+\.py)`", PAGE)
    assert len(named) > 40
    missing = [name for name in named if not (PACKAGE / name).exists()]
    assert [name for name in missing if not (ROOT / name).exists()] == []


def test_the_kernel_of_a_tree_is_nine_files_below_train(monkeypatch):
    files: list[Path] = []
    run = Team.run

    def recorded(self, kernel, *args):
        if "grow_tree" in kernel.__name__ and not files:
            frames = [Path(frame.filename) for frame in traceback.extract_stack()]
            own = dict.fromkeys(frame for frame in frames if PACKAGE in frame.parents)
            # A decorator of `train` is in another file, but not on the way down.
            files.extend(dropwhile(lambda file: file.name != "training.py", own))
        return run(self, kernel, *args)

    monkeypatch.setattr(Team, "run", recorded)
    rows = np.random.default_rng(0).normal(size=(5000, 4))
    data = hornbeam.DMatrix(rows, rows[:, 0])
    hornbeam.train({"nthread": 1}, data, 1, verbose_eval=False)
    # The team and the kernel itself follow.
    assert 0 < len(files) + 2 <= 9
