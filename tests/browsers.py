"""A headless browser."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

__all__ = ["open_browser"]


def program(*names):
    """Return the path of the first of these programs that is installed."""
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        pytest.fail(
            f"there is no {names[0]} to open pages with; `make browser` installs "
            "it, or on Debian: apt-get install chromium chromium-driver"
        )
    return found


def open_browser(folder: Path) -> webdriver.Chrome:
    """Return a browser with its profile in a folder; the caller quits it."""
    options = Options()
    options.binary_location = program("chromium", "chromium-browser", "google-chrome")
    for argument in (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={folder}",
        "--window-size=1200,900",
    ):
        options.add_argument(argument)
    options.set_capability(
        "goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"}
    )
    return webdriver.Chrome(options, Service(program("chromedriver")))
