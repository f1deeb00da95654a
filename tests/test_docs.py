"""The examples of the README and the documentation run and print their output."""

from __future__ import annotations

import shutil
from importlib.util import find_spec

import pages
import pytest

from hornbeam.log import LOGGER

PAGES = {str(path.relative_to(pages.ROOT)): path.read_text() for path in pages.PAGES}


#: Pages that take more than half a second: two start clusters.
LONG = {
    "docs/dask.md",
    "docs/explaining.md",
    "docs/external-memory.md",
    "docs/gpu.md",
    "docs/outputs.md",
    "docs/report.md",
    "docs/spark.md",
    "docs/tools.md",
    "docs/trees-and-forests.md",
    "docs/uncertainty.md",
    "docs/worked-examples.md",
    "docs/worked-trees.md",
    "docs/tutorials/categories.md",
    "docs/tutorials/cluster.md",
    "docs/tutorials/first-model.md",
    "docs/tutorials/from-lightgbm.md",
    "docs/tutorials/from-scikit-learn.md",
    "docs/tutorials/intervals.md",
    "docs/tutorials/larger-than-memory.md",
    "docs/tutorials/ranking.md",
    "docs/tutorials/reading-a-report.md",
    "docs/tutorials/survival.md",
    "docs/tutorials/time-splits.md",
}


#: Pages that tests of another folder run.
ELSEWHERE = {"docs/ray.md"}

needs_spark = pytest.mark.skipif(
    shutil.which("java") is None or find_spec("pyspark") is None,
    reason="Spark needs Java, make java, and pyspark",
)


#: What pyspark says of the pandas that is installed.
newer_pandas = pytest.mark.filterwarnings("ignore:PySpark does not yet:FutureWarning")


def parameters():
    """Yield the pages with examples; those that download or take long are slow."""
    assert LONG.issubset(PAGES)
    for page, text in PAGES.items():
        if pages.blocks(text) and page not in ELSEWHERE:
            slow = page in LONG or pages.downloads(text)
            marks = [pytest.mark.slow] if slow else []
            if page == "docs/spark.md":
                marks += [needs_spark, newer_pandas]
            yield pytest.param(page, marks=marks)


@pytest.fixture
def own_logger(monkeypatch):
    """Undo what an example does to the logger; later tests read what it prints."""
    monkeypatch.setattr(LOGGER, "handlers", LOGGER.handlers)
    level = LOGGER.level
    yield
    LOGGER.setLevel(level)


@pytest.mark.parametrize("page", list(parameters()))
@pytest.mark.usefixtures("own_logger")
def test_examples_print_the_output_on_the_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert pages.run(PAGES[page], page) == PAGES[page]


def test_examples_are_found():
    assert len(pages.blocks(PAGES["README.md"])) == 1
    assert len(pages.blocks(PAGES["docs/data.md"])) == 5
