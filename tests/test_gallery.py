"""The scripts of the gallery run, print what their pages say, and draw pictures."""

from __future__ import annotations

import gallery
import pytest


def test_there_are_eight_problems():
    assert len(gallery.SCRIPTS) == 8
    pages = {path.stem for path in gallery.PAGES.glob("*.md")}
    assert pages == {script.stem for script in gallery.SCRIPTS}
    assert gallery.PAGES.with_suffix(".md").read_text() == gallery.index()


@pytest.mark.parametrize("script", gallery.SCRIPTS, ids=lambda path: path.stem)
def test_scripts_are_short_and_pages_show_them(script):
    assert len(script.read_text().splitlines()) < 80
    page = (gallery.PAGES / f"{script.stem}.md").read_text()
    printed = page.partition("```text\n")[2].partition("```")[0]
    assert page == gallery.page_of(script, printed)
    assert (gallery.PAGES / f"{script.stem}.png").stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.parametrize("script", gallery.SCRIPTS, ids=lambda path: path.stem)
def test_scripts_print_what_their_pages_say(script, tmp_path):
    page = (gallery.PAGES / f"{script.stem}.md").read_text()
    assert gallery.page_of(script, gallery.run(script, tmp_path)) == page
    assert (tmp_path / f"{script.stem}.png").stat().st_size > 10_000
