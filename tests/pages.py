"""Pages of the documentation: runs their examples, and writes what these print.

A block of Python may be followed by a block of text: what it prints. `make pages` puts
there what it prints today, and leaves the pictures that examples save beside the page.
A page that tells its reader to download an archive finds it in the folder it runs in.
"""

from __future__ import annotations

import contextlib
import io
import re
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.data import fetched

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"```python\n(?P<code>.*?)```(?P<printed>\n\n```text\n.*?```)?", re.DOTALL
)
#: The package, and after the `#` the archive of it that pip downloads.
DOWNLOAD = re.compile(r"^pip download (\S+)==\S+ --no-deps +# (\S+)$", re.MULTILINE)


def blocks(text: str) -> list[str]:
    """Return the examples of a page."""
    return [found["code"] for found in BLOCK.finditer(text)]


def downloads(text: str) -> list[tuple[str, str]]:
    """Return the packages that a page downloads, and the archives it reads of them."""
    return DOWNLOAD.findall(text)


def run(text: str, page: str) -> str:
    """Return the page with what its examples print; each knows those before it."""
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
    """Write anew all that examples print and draw."""
    for page in PAGES:
        text = page.read_text()
        if "```text" in text:
            with TemporaryDirectory() as folder, contextlib.chdir(folder):
                page.write_text(run(text, str(page)))
                for picture in Path().glob("*.png"):
                    shutil.move(picture, page.with_name(picture.name))


if __name__ == "__main__":
    main()
