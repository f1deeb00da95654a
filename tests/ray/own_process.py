"""Programs in processes of their own, with a Ray of their own."""

import os
import subprocess
import sys
import textwrap


def run_in_own_process(program):
    """Run a program in a process whose Ray has workers of its own."""
    path = os.pathsep.join([os.path.dirname(__file__), os.getcwd()])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=580,
    )
    assert done.returncode == 0, done.stderr[-3000:]
