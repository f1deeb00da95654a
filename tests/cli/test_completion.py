"""Completion by the shells themselves, with the scripts that the command prints."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CASES = [
    (["tr"], {"train"}),
    (["train", "rows.csv", "--ta"], {"--target", "--task"}),
    (["train", "rows.csv", "--target", "bo"], {"bought"}),
    (["train", "rows.csv", "--quality", ""], {"fast", "auto", "best", "none"}),
    (["train", "rows.csv", "max_d"], {"max_depth=", "max_delta_step="}),
    (["train", "missing.csv", "--target", "bo"], set()),
]
#: Completes the words that follow, as the tab key does; {words} and {count} of them.
BASH = """
COMP_WORDS=(hornbeam {words}); COMP_CWORD={count}
_hornbeam_completion hornbeam; printf '%s\n' "${{COMPREPLY[@]}}" ; echo ---
"""
FISH = "complete -C 'hornbeam {line}'; echo ---\n"


def offered(shell, script, folder):
    """Return what the shell offers in each case, between lines of dashes."""
    (folder / "rows.csv").write_text("age,bought\n1,no\n")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [shell, "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": path, "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr
    # fish offers a description after a tab.
    return [
        {line.split("\t")[0] for line in part.splitlines() if line}
        for part in done.stdout.split("---\n")[:-1]
    ]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    "cases",
    # Each case is a process that loads the command line.
    [CASES[:1], pytest.param(CASES[1:], marks=pytest.mark.slow)],
    ids=["commands", "others"],
)
def test_bash(cases, tmp_path):
    steps = [
        BASH.format(words=shlex.join(words), count=len(words)) for words, _ in cases
    ]
    script = 'eval "$(hornbeam --show-completion)"\n' + "".join(steps)
    assert offered("bash", script, tmp_path) == [expected for _, expected in cases]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish")
def test_fish(tmp_path):
    cases = CASES[:-1]  # where there is nothing, fish offers files
    steps = [FISH.format(line=" ".join(words)) for words, _ in cases]
    script = "hornbeam --show-completion | source\n" + "".join(steps)
    assert offered("fish", script, tmp_path) == [expected for _, expected in cases]
