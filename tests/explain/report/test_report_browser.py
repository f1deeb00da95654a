"""The page in a real browser: it renders, fetches nothing, and its trees answer."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from browsers import open_browser
from report_cases import frame_of, trained
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

import hornbeam

pytestmark = pytest.mark.slow

FRAME, LABELS = frame_of(600)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    driver = open_browser(tmp_path_factory.mktemp("browser"))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> Path:
    """A report of two classes, and one of three."""
    folder = tmp_path_factory.mktemp("pages")
    data = hornbeam.DMatrix(FRAME, LABELS)
    model = trained(FRAME, LABELS, rounds=8)
    model.report(data, path=folder / "two.html", title="Two classes")
    labels = np.arange(600.0) % 3
    params = {"objective": "multi:softprob", "num_class": 3}
    model = trained(FRAME[["age"]], labels, params, 4)
    names = ["</script><b>red", "green", "blue"]
    data = hornbeam.DMatrix(FRAME[["age"]], labels)
    model.report(data, path=folder / "three.html", class_names=names)
    return folder


@pytest.fixture
def two(browser, pages):
    browser.get((pages / "two.html").as_uri())
    return browser


def nodes(browser):
    return browser.find_elements(By.CSS_SELECTOR, "#tree-root li")


def number_of(node):
    return node.get_attribute("data-node")


def boxes(browser):
    return browser.find_elements(By.CSS_SELECTOR, "#tree-root .node")


def words(browser, name):
    return browser.find_element(By.ID, name).text


def test_the_page_renders_without_an_error_and_fetches_nothing(browser, pages):
    for log in ("browser", "performance"):
        browser.get_log(log)  # what was before
    for name in ("two", "three"):
        url = (pages / f"{name}.html").as_uri()
        browser.get(url)
        assert browser.find_element(By.TAG_NAME, "h1").is_displayed()
        asked = set()
        for entry in browser.get_log("performance"):
            event = json.loads(entry["message"])["message"]
            if event["method"] == "Network.requestWillBeSent":
                asked.add(event["params"]["request"]["url"])
        assert url in asked
        assert {one for one in asked if not one.startswith("data:")} == {url}
        assert browser.get_log("browser") == []
    entries = "return performance.getEntriesByType('resource').map(e => e.name)"
    assert all(name.startswith("data:") for name in browser.execute_script(entries))


def test_the_policy_of_the_page_lets_no_other_script_run(two):
    two.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.ran = 1';"
        "document.body.append(s);"
    )
    assert two.execute_script("return window.ran") is None
    two.get_log("browser")  # it complains of that


def test_all_pictures_are_drawn(two):
    drawn = "return [...document.images].map(i => [i.complete, i.naturalWidth, i.alt])"
    pictures = two.execute_script(drawn)
    assert len(pictures) >= 6
    for complete, width, alt in pictures:
        assert complete and width > 0 and alt


def test_a_click_opens_and_closes_a_split(two):
    before = len(nodes(two))
    root = nodes(two)[0]
    assert root.get_attribute("aria-expanded") == "true"
    boxes(two)[0].click()
    assert len(nodes(two)) == 1
    assert nodes(two)[0].get_attribute("aria-expanded") == "false"
    boxes(two)[0].click()
    assert len(nodes(two)) > 1
    two.find_element(By.ID, "tree-close").click()
    assert len(nodes(two)) == 1
    two.find_element(By.ID, "tree-open").click()
    assert len(nodes(two)) >= before
    leaf = two.find_element(By.CSS_SELECTOR, "#tree-root .leaf")
    leaf.click()
    assert "Leaf: adds" in words(two, "tree-about")
    assert "Reached by" in words(two, "tree-about")


def test_another_tree_is_chosen(two):
    first = two.find_element(By.ID, "tree-root").text
    two.find_element(By.ID, "tree-next").click()
    assert words(two, "tree-said").startswith("Tree 1, of round 1")
    assert two.find_element(By.ID, "tree-root").text != first
    number = two.find_element(By.ID, "tree-number")
    number.clear()
    number.send_keys("99", Keys.TAB)
    assert words(two, "tree-said").startswith("Tree 7,")
    turn = two.find_element(By.ID, "tree-round")
    turn.clear()
    turn.send_keys("3", Keys.TAB)
    assert words(two, "tree-said").startswith("Tree 3,")
    two.find_element(By.ID, "tree-before").click()
    assert words(two, "tree-said").startswith("Tree 2,")


def test_the_keyboard_leads_through_a_tree(two):
    root = nodes(two)[0]
    root.send_keys(Keys.ARROW_RIGHT)
    focused = two.switch_to.active_element
    assert focused.get_attribute("data-node") == nodes(two)[1].get_attribute(
        "data-node"
    )
    assert "Reached by" in words(two, "tree-about")
    focused.send_keys(Keys.ARROW_LEFT)  # closes it
    two.switch_to.active_element.send_keys(Keys.ARROW_LEFT)
    two.switch_to.active_element.send_keys(Keys.ENTER)
    assert len(nodes(two)) == 1
    two.switch_to.active_element.send_keys(" ")
    two.switch_to.active_element.send_keys(Keys.END)
    last = two.switch_to.active_element
    assert last.get_attribute("data-node") == nodes(two)[-1].get_attribute("data-node")
    tabs = [li.get_attribute("tabindex") for li in nodes(two)]
    assert sorted(tabs) == ["-1"] * (len(tabs) - 1) + ["0"]


def test_the_way_of_a_row_is_shown(two):
    Select(two.find_element(By.ID, "tree-row")).select_by_index(1)
    way = two.find_elements(By.CSS_SELECTOR, "#tree-root li.on")
    assert len(way) >= 2
    ends = [li for li in way if li.get_attribute("aria-expanded") is None]
    assert len(ends) == 1
    assert "Row" in words(two, "tree-about")


def test_an_output_is_chosen_and_names_are_no_markup(browser, pages):
    browser.get((pages / "three.html").as_uri())
    outputs = Select(browser.find_element(By.ID, "tree-output"))
    assert [option.text for option in outputs.options] == [
        "</script><b>red",
        "green",
        "blue",
    ]
    outputs.select_by_visible_text("blue")
    assert "Tree 2, of round 0, adds to output blue" in words(browser, "tree-said")
    browser.find_element(By.ID, "tree-next").click()
    assert outputs.first_selected_option.text == "</script><b>red"
    bold = browser.find_elements(By.TAG_NAME, "b")
    assert bold and "red" not in [element.text for element in bold]


@pytest.mark.parametrize("width", [360, 800, 1400])
def test_the_page_is_no_wider_than_the_window(two, width):
    two.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    wide = two.execute_script("return document.documentElement.scrollWidth")
    two.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert wide <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_in_light_and_dark(two, scheme):
    two.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
    )
    ink, paper = two.execute_script(
        "const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]"
    )
    two.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert contrast(ink, paper) > 10
    assert (luminance(paper) > 0.5) == (scheme == "light")


def luminance(colour):
    """Return the relative luminance of a colour, as WCAG defines it."""
    parts = np.array(re.findall(r"\d+", colour)[:3], float) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def contrast(one, other):
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)
