"""The sources of the kernels: digests that change with them."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

__all__ = ["FOLDER", "prune_cache", "sources_digest"]

#: The folder of the kernel files.
FOLDER = Path(__file__).parent

#: How kernels are compiled, and what all of them may call.
_OF_ALL = ("compiler", "intrinsics")
#: What marks kernels, and loads their machine code, but does not change it.
_OF_NONE = frozenset({"jit"})

_IMPORTS = re.compile(
    r"^ *from hornbeam\.kernels(?:\.(\w+) import| import ([\w, ]+|\([^)]*\)))",
    re.MULTILINE,
)


@cache
def _source(name: str) -> tuple[bytes, frozenset[str]]:
    """Return the text of a kernel file, and the names of those that it imports."""
    text = (FOLDER / f"{name}.py").read_bytes()
    names: set[str] = set()
    for module, modules in _IMPORTS.findall(text.decode()):
        names.update([module] if module else re.findall(r"\w+", modules))
    return text, frozenset(names)


@cache
def sources_digest(name: str | None) -> str:
    """Return eight hex digits that change with a kernel file or those it imports.

    None stands for all kernel files, and for a kernel outside of this package, which
    may import any of them.
    """
    waiting = {path.stem for path in FOLDER.glob("*.py")} if name is None else {name}
    waiting.update(_OF_ALL)
    found: dict[str, bytes] = {}
    while waiting:
        name = waiting.pop()
        found[name], names = _source(name)
        waiting |= names - found.keys() - _OF_NONE
    digest = hashlib.sha256()
    for name, text in sorted(found.items()):
        digest.update(name.encode())
        digest.update(text)
    return digest.hexdigest()[:8]


def prune_cache() -> None:
    """Delete cached machine code of other versions of the kernels."""
    current = {sources_digest(path.stem) for path in FOLDER.glob("*.py")}
    for path in (FOLDER / "__pycache__").glob("*.nb[ic]"):
        if not any(f"_{digest}-" in path.name for digest in current):
            path.unlink(missing_ok=True)
