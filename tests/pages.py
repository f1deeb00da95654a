"""Runs the examples of the documentation pages and writes their output.

A Python block may be followed by a text block with its output. `make pages` replaces
that output, and stores the plots that examples save in the folder of the page; `python
tests/pages.py docs/data.md` does so for one page. Archives that a page tells its reader
to download are in the working directory of its examples.
"""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.data import fetched

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"```python\n(?P<code>.*?)```(?P<printed>\n\n```text\n.*?```)?", re.DOTALL
)
#: The package, and after the `#` the name of its archive.
DOWNLOAD = re.compile(r"^pip download (\S+)==\S+ --no-deps +# (\S+)$", re.MULTILINE)


def blocks(text: str) -> list[str]:
    """Return the examples of a page."""
    return [found["code"] for found in BLOCK.finditer(text)]


def downloads(text: str) -> list[tuple[str, str]]:
    """Return the packages that a page downloads, and the names of their archives."""
    return DOWNLOAD.findall(text)


def run(text: str, page: str) -> str:
    """Return the page with the output of its examples, which share one namespace."""
    for package, archive in downloads(text):
        Path(archive).symlink_to(fetched(package, archive))
    names = {"__name__": "__main__"}

    def again(found: re.Match[str]) -> str:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(found["code"], page, "exec"), names)
        block = f"```python\n{found['code']}```"
        if found["printed"] is None:
            return block
        return f"{block}\n\n```text\n{printed.getvalue()}```"

    return BLOCK.sub(again, text)


def main() -> None:
    """Write the output and the plots of the examples of the named pages, or of all."""
    for page in [Path(name).resolve() for name in sys.argv[1:]] or PAGES:
        text = page.read_text()
        if "```text" in text:
            with TemporaryDirectory() as folder, contextlib.chdir(folder):
                page.write_text(run(text, str(page)))
                for picture in Path().glob("*.png"):
                    shutil.move(picture, page.with_name(picture.name))


if __name__ == "__main__":
    main()
