"""The site of the documentation: it builds, links lead somewhere, and it answers."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import typer
from browsers import open_browser
from selection import IS_WHOLE
from selenium.webdriver.common.by import By

import hornbeam
from hornbeam.cli.app import app
from hornbeam.params import parameter_table

ROOT = Path(__file__).parent.parent
WIDTHS = (400, 1400)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [
            *(sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going"),
            *("--quiet", "-b", "html", "docs", folder),
        ],
        cwd=ROOT,
        check=True,
    )
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    driver = open_browser(tmp_path_factory.mktemp("browser"))
    yield driver
    driver.quit()


class Links(HTMLParser):
    """The targets of links and pictures of a page, and its anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors |= {values[key] for key in ("id", "name") if values.get(key)}
        for key in ("href", "src"):
            if values.get(key):
                self.links.append(values[key])


@pytest.mark.slow
def test_every_page_of_the_documentation_is_in_the_site(site):
    for page in ROOT.glob("docs/**/*.md"):
        assert (site / page.relative_to(ROOT / "docs").with_suffix(".html")).is_file()
    for name in set(hornbeam.__all__) - {"ErrorCode"}:
        assert (site / "generated" / f"hornbeam.{name}.html").is_file(), name


@pytest.mark.slow
def test_links_lead_somewhere(site):
    # The theme has a template among its static files.
    pages = {
        path: Links(path)
        for path in site.rglob("*.html")
        if "_static" not in path.parts
    }
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (
                (path.parent / unquote(parts.path)).resolve() if parts.path else path
            )
            assert target.exists(), f"{path.name} -> {link}"
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].anchors, link


#: Returns what is wider than the screen and cannot be scrolled to: the page, a sidebar,
#: or elements of the text, with the beginning of what they say.
WIDER = """
const width = document.documentElement.clientWidth, found = [];
if (document.documentElement.scrollWidth > width) found.push("page");
for (const bar of document.querySelectorAll(".bd-sidebar-secondary"))
    if (bar.scrollWidth > bar.clientWidth + 1) found.push("sidebar");
const scrolls = e => e && e !== document.body && (
    getComputedStyle(e).overflowX !== "visible" || scrolls(e.parentElement));
for (const e of document.querySelectorAll(".bd-article *"))
    if (e.getBoundingClientRect().right > width + 1 && !scrolls(e))
        found.push(e.tagName + " " + e.textContent.slice(0, 40));
return found;
"""


@pytest.mark.slow
def test_nothing_is_wider_than_the_screen(site, browser):
    folders = ("", "decisions/", "gallery/", "generated/", "tutorials/")
    pages = [page for name in folders for page in sorted(site.glob(f"{name}*.html"))]
    wide = {}
    for path in pages if IS_WHOLE else pages[::5]:
        browser.get(path.as_uri())
        for width in WIDTHS:
            size = {"width": width, "height": 900, "deviceScaleFactor": 1}
            browser.execute_cdp_cmd(
                "Emulation.setDeviceMetricsOverride", {**size, "mobile": False}
            )
            if found := browser.execute_script(WIDER):
                wide[path.name, width] = found[:3]
    assert not wide


@pytest.mark.slow
def test_the_search_answers_offline(site, browser):
    browser.get(f"{(site / 'search.html').as_uri()}?q=lossguide")
    end, found = time.monotonic() + 60, ""
    while not re.search("tree|boost", found, re.IGNORECASE):  # links appear one by one
        assert time.monotonic() < end, found
        time.sleep(0.1)
        links = browser.find_elements(By.CSS_SELECTOR, "#search-results li a")
        found = " ".join(link.text for link in links)


@pytest.mark.slow
def test_examples_have_a_button_that_copies_them(site, browser):
    browser.get((site / "data.html").as_uri())
    blocks = browser.find_elements(By.CSS_SELECTOR, ".bd-article .highlight")
    buttons = browser.find_elements(By.CSS_SELECTOR, ".highlight button.copybtn")
    assert len(buttons) == len(blocks) > 3
    code = browser.execute_script(
        "return document.querySelector(arguments[0].dataset.clipboardTarget).innerText",
        buttons[0],
    )
    assert code.strip()


@pytest.mark.slow
def test_plots_have_no_white_paper_on_dark_pages(site, browser):
    for page in ("explaining.html", "gallery.html", "worked-trees.html"):
        browser.get((site / page).as_uri())
        browser.execute_script("document.documentElement.dataset.theme = 'dark'")
        plots = browser.find_elements(By.CSS_SELECTOR, ".bd-article img")
        assert plots
        for plot in plots:
            assert plot.value_of_css_property("filter").startswith("invert(1)")
            assert plot.value_of_css_property("mix-blend-mode") == "screen"


@pytest.mark.slow
def test_the_page_of_commands_has_all_options(site):
    page = (site / "commands.html").read_text()
    for command in typer.main.get_command(app).commands.values():
        assert f"hornbeam {command.name}" in page
        for parameter in command.params:
            assert all(f"<code>{name}</code>" in page for name in parameter.opts) or (
                parameter.param_type_name == "argument"
            )


@pytest.mark.slow
def test_the_finder_knows_the_names_of_other_libraries(site, browser):
    browser.get((site / "parameters.html").as_uri())
    rows = browser.find_elements(By.CSS_SELECTOR, "#parameters tbody tr")
    assert len(rows) == len(parameter_table())
    field = browser.find_element(By.ID, "find-parameter")
    for word, ours in (
        ("num_leaves", "max_leaves"),
        ("l2_leaf_reg", "reg_lambda"),
        ("max_features", "colsample_bynode"),
    ):
        field.clear()
        field.send_keys(word)
        shown = [row.get_attribute("id") for row in rows if row.is_displayed()]
        assert shown == [f"parameter-{ours}"]
    field.clear()
    field.send_keys("nothing of this kind")
    assert browser.find_element(By.ID, "no-parameter").is_displayed()
