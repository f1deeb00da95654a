"""Search for inputs of a fuzz target that fail, take a second, or take much memory::

    pip install atheris
    python tests/fuzz.py model 600

The arguments are the name of a target and the seconds, then options of libFuzzer. What
is found is written to the folder for temporary files.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path

import atheris

ROOT = Path(__file__).parents[1]
# Kernels are compiled from their byte code, which must stay as it is.
KERNELS = [f"hornbeam.kernels.{file.stem}" for file in ROOT.glob("hornbeam/kernels/*")]
with atheris.instrument_imports(include=["hornbeam", "json"], exclude=KERNELS):
    from fuzz_targets import MAX_BYTES, TARGETS, corpus, run


def main() -> None:
    name, seconds, *others = sys.argv[1:]
    found = Path(tempfile.gettempdir()) / f"corpus-{name}"
    found.mkdir(exist_ok=True)
    for seed in (*TARGETS[name][1](), *corpus(name)):
        (found / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)
    options = [
        f"-max_total_time={seconds}",
        "-timeout=1",
        f"-malloc_limit_mb={MAX_BYTES >> 20}",
        "-rss_limit_mb=0",
        "-max_len=20000",
        f"-artifact_prefix={found.parent}/{name}-",
    ]
    atheris.Setup(
        [sys.argv[0], *options, *others, str(found)],
        lambda data: run(name, data) and None,
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
