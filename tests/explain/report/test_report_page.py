"""The page: what stands in it for each task, and that it is whole by itself."""

from __future__ import annotations

import re
from functools import cache
from html.parser import HTMLParser

import matplotlib as mpl
import numpy as np
import pytest
from report_cases import frame_of, trained
from samples import few_values, ranked
from selection import REPEATS

import hornbeam
from hornbeam.errors import DataError, NotTrainedError, ParameterError
from hornbeam.explain.report import report

FRAME, LABELS = frame_of(800)
TRAIN = hornbeam.DMatrix(FRAME[:400], LABELS[:400])
VALID = hornbeam.DMatrix(FRAME[400:], LABELS[400:])
MODEL = trained(FRAME[:400], LABELS[:400])
#: One feature has few pictures, which take most of the time.
AGE = FRAME[["age"]]
OF_AGE = trained(AGE[:400], LABELS[:400])
VALID_OF_AGE = hornbeam.DMatrix(AGE[400:], LABELS[400:])
SECTIONS = (
    "findings model data scores curves fit importance dependence slices drift trees "
    "parameters made"
).split()


class Page(HTMLParser):
    """The words of a page by section, its attributes, and whether tags are closed."""

    VOID = ("meta", "link", "img", "input", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.attributes, self.words, self.at = [], [], {}, None
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag == "section":
            self.at = dict(attrs)["id"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.at and self.open and self.open[-1] not in ("script", "style"):
            self.words[self.at] = self.words.get(self.at, "") + data


@pytest.fixture(scope="module")
def text():
    return MODEL.report(VALID, TRAIN, class_names=["no", "yes"])


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def test_all_sections_are_there_and_lead_somewhere(page):
    assert list(page.words) == SECTIONS
    ids = {value for _, name, value in page.attributes if name == "id"}
    for tag, name, value in page.attributes:
        if tag == "a" and name == "href":
            assert value[0] == "#" and value[1:] in ids
    for name in ("for", "aria-labelledby"):
        assert {v for _, n, v in page.attributes if n == name} <= ids


def test_nothing_is_fetched(text, page):
    policies = [v for _, n, v in page.attributes if n == "content" and "default" in v]
    assert len(policies) == 1 and "default-src 'none'" in policies[0]
    for _, name, value in page.attributes:
        if name in ("src", "href", "srcset", "action", "data", "poster"):
            assert value.startswith(("data:", "#")), value
    assert "@import" not in text and "url(" not in text
    assert not re.search(r"https?://(?!www\.w3\.org)", text)


def test_pictures_are_told_in_words(page):
    pictures = [
        value for tag, name, value in page.attributes if (tag, name) == ("img", "alt")
    ]
    assert len(pictures) >= 6
    assert all(len(words) > 15 for words in pictures)
    for feature in FRAME.columns:
        depends, contributes = (
            pictures.index(one)
            for start in (f"How predictions depend on {feature}", f"What {feature} ")
            for one in pictures
            if one.startswith(start)
        )
        assert contributes == depends + 1


def test_the_page_says_what_was_found(page):
    assert MODEL.digest() in page.words["model"]
    assert "400 rows" in page.words["data"]
    assert "yes" in page.words["data"] and "no" in page.words["data"]
    for name in FRAME.columns:
        assert name in page.words["data"]
        assert name in page.words["importance"]
    scores = MODEL.eval(VALID).split("logloss:")[1]
    assert f"{float(scores):.5g}" in page.words["scores"]
    assert "max_depth" in page.words["parameters"]
    assert hornbeam.__version__ in page.words["made"]


def test_the_same_inputs_give_the_same_bytes(text, tmp_path):
    names = ["no", "yes"]
    MODEL.set_param("nthread", 1)
    with mpl.rc_context({"font.size": 20, "svg.hashsalt": "other", "axes.grid": True}):
        path = MODEL.report(
            VALID, TRAIN, class_names=names, path=tmp_path / "again.html"
        )
    assert path.read_text() == text
    MODEL.set_param("nthread", 0)


@pytest.mark.slow
def test_threads_do_not_change_a_report_and_the_seed_does():
    texts = []
    for threads, seed in ((1, 0), (3, 0), (1, 1)):
        OF_AGE.set_param("nthread", threads)
        texts.append(OF_AGE.report(VALID_OF_AGE, seed=seed))
    OF_AGE.set_param("nthread", 0)
    assert texts[0] == texts[1] != texts[2]


def test_names_are_never_markup():
    hostile = {
        "age": (
            "&lt;script>alert(1)&lt;/script> '\" onerror=alert(1) x=' $x_1^{2$ \\frac"
        ),
        "city": "{{ 7*7 }}{% raw %} $x_1^{2$",
    }
    frame = FRAME[[*hostile]].rename(columns=hostile)  # each feature has its pictures
    frame[hostile["city"]] = frame[hostile["city"]].cat.rename_categories(
        {
            "Kiel": "</script><script>document.title='broken'</script>",
            "Ulm": "<!-- $x_1^{2$",
        }
    )
    model = trained(frame, LABELS)
    text = model.report(
        hornbeam.DMatrix(frame, LABELS), title="<b>mine</b>", class_names=["<i>", "&"]
    )
    page = Page(text)
    assert "<b>mine" not in text and "<i>" not in text
    assert text.count("<script") == 2 and text.count("</script>") == 2
    assert "<!--" not in text
    assert hostile["city"] in page.words["importance"]


N = 240
ROWS, NUMBERS = few_values(N, 3)
ROWS, NUMBERS = ROWS[:, :1], NUMBERS.astype(float)
TASKS = {
    "numbers": ({"objective": "reg:squarederror"}, {"label": NUMBERS}),
    "absolute": ({"objective": "reg:absoluteerror"}, {"label": NUMBERS}),
    "counts": ({"objective": "count:poisson"}, {"label": np.abs(np.rint(NUMBERS))}),
    "quantiles": (
        {"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.9]},
        {"label": NUMBERS},
    ),
    "expectiles": (
        {"objective": "reg:expectileerror", "expectile_alpha": [0.1, 0.9]},
        {"label": NUMBERS},
    ),
    "distribution": ({"objective": "dist:normal"}, {"label": NUMBERS}),
    "margins": ({"objective": "binary:logitraw"}, {"label": ranked(NUMBERS, 2)}),
    "hinge": ({"objective": "binary:hinge"}, {"label": ranked(NUMBERS, 2)}),
    "classes": (
        {"objective": "multi:softmax", "num_class": 3},
        {"label": ranked(NUMBERS, 3)},
    ),
    "vector": (
        {
            "objective": "multi:softprob",
            "num_class": 3,
            "multi_strategy": "multi_output_tree",
        },
        {"label": ranked(NUMBERS, 3)},
    ),
    "ranking": (
        {"objective": "rank:ndcg"},
        {"label": ranked(NUMBERS, 3), "group": [12] * 20},
    ),
    "hazards": (
        {"objective": "survival:cox"},
        {"label": np.where(np.arange(N) % 3, 1, -1) * (np.abs(NUMBERS) + 0.1)},
    ),
    "times": (
        {"objective": "survival:aft"},
        {
            "label_lower_bound": np.abs(NUMBERS) + 0.1,
            "label_upper_bound": np.where(
                np.arange(N) % 3, np.abs(NUMBERS) + 0.1, np.inf
            ),
        },
    ),
    "targets": (
        {"objective": "reg:squarederror"},
        {"label": np.stack([NUMBERS, -NUMBERS], axis=1)},
    ),
    "linear": (
        {"objective": "reg:squarederror", "booster": "gblinear"},
        {"label": NUMBERS},
    ),
    "dropout": (
        {"objective": "reg:squarederror", "booster": "dart", "rate_drop": 0.5},
        {"label": NUMBERS},
    ),
    "forest": (
        {"objective": "reg:squarederror", "num_parallel_tree": 3, "subsample": 0.5},
        {"label": NUMBERS},
    ),
}


@cache
def reported(task):
    """Return a model of the task, and its page."""
    params, info = TASKS[task]
    data = hornbeam.DMatrix(ROWS, **info)
    model = hornbeam.train(params, data, 3)
    return model, Page(report(model, data))


#: A report takes seconds, of which most are for its pictures.
QUICK = ("numbers",)


@pytest.mark.parametrize(
    "task",
    [pytest.param(task, marks=[] if task in QUICK else REPEATS) for task in TASKS],
)
def test_each_task_has_its_report(task):
    model, page = reported(task)
    assert list(page.words) == SECTIONS
    for metric in model.metrics:
        assert metric.name in page.words["scores"]
    assert "nan" not in page.words["scores"]


@pytest.mark.slow
def test_quantiles_are_called_by_their_levels():
    params, info = TASKS["quantiles"]
    data = hornbeam.DMatrix(ROWS, **info)
    _, page = reported("quantiles")
    alts = [value for _, name, value in page.attributes if name == "alt"]
    assert any(alt.endswith("of 0.1.") for alt in alts)
    assert any(alt.startswith("Reliability of quantiles") for alt in alts)
    start = np.quantile(NUMBERS, [0.1, 0.9])
    guess = np.broadcast_to(start, (N, 2)).copy()
    (metric,) = hornbeam.train(params, data, 1).metrics
    assert f"{metric.of(guess, data.info):.5g}" in page.words["scores"]


@pytest.mark.slow
def test_few_rows_tell_of_no_drift():
    few = hornbeam.DMatrix(FRAME[400:403], LABELS[400:403])
    page = Page(MODEL.report(few, TRAIN))
    assert "drifted" not in page.words["findings"]
    assert "more or less often" not in page.words["findings"]


def test_one_row_has_a_report():
    data = hornbeam.DMatrix(AGE, LABELS)
    numbers = hornbeam.train({"objective": "reg:squarederror"}, data, 2)
    assert numbers.report(hornbeam.DMatrix(AGE[:1], LABELS[:1]))


@pytest.mark.slow
def test_odd_data_has_a_report():
    """Few rows, one class, no value at all, one group, many classes."""
    numbers = hornbeam.train({"objective": "reg:squarederror"}, TRAIN, 2)
    assert numbers.report(hornbeam.DMatrix(FRAME[:3], LABELS[:3]))
    assert MODEL.report(hornbeam.DMatrix(FRAME, np.zeros(800)), TRAIN)
    empty = FRAME.assign(age=np.nan, income=np.nan, score=np.nan)
    assert MODEL.report(hornbeam.DMatrix(empty, LABELS))
    params, info = TASKS["ranking"]
    ranks = hornbeam.train(params, hornbeam.DMatrix(ROWS, **info), 2)
    assert "[" not in Page(ranks.report(hornbeam.DMatrix(ROWS, info["label"]))).words[
        "scores"
    ].replace("brackets", "")
    params = {"objective": "multi:softprob", "num_class": 50}
    data = hornbeam.DMatrix(ROWS, np.arange(N) % 50)
    assert hornbeam.train(params, data, 1).report(data)


@pytest.mark.slow
def test_weights_of_rows_count():
    weights = np.where(LABELS == 1, 1.0, 3.0)
    data = hornbeam.DMatrix(AGE, LABELS, weight=weights)
    page = Page(report(OF_AGE, data))
    score = float(OF_AGE.eval(data).split("logloss:")[1])
    assert f"{score:.5g}" in page.words["scores"]
    assert "weighted" in page.words["data"]


@pytest.mark.slow
def test_rows_beyond_the_most_are_drawn():
    page = Page(report(OF_AGE, VALID_OF_AGE, rows=150))
    assert "400 rows, of which 150 were drawn" in page.words["data"]


@pytest.mark.slow
def test_the_best_round_is_the_last_that_predicts():
    params = {"objective": "binary:logistic", "eta": 1}
    log = {}
    model = hornbeam.train(
        params,
        hornbeam.DMatrix(AGE[:400], LABELS[:400]),
        30,
        evals=[(VALID_OF_AGE, "valid")],
        early_stopping_rounds=3,
        verbose_eval=False,
        evals_result=log,
    )
    best = model.best_iteration + 1
    page = Page(report(model, VALID_OF_AGE, evals_result=log))
    assert f"{best} of {model.num_boosted_rounds()}" in page.words["model"]
    assert f"the first {best} rounds" in page.words["curves"]
    assert "As noted in training" in page.words["curves"]
    score = float(model[:best].eval(VALID_OF_AGE).split("logloss:")[1])
    assert f"{score:.5g}" in page.words["scores"]


@pytest.mark.slow
def test_an_estimator_has_its_class_names():
    model = hornbeam.HornbeamClassifier(n_estimators=3)
    model.fit(AGE, np.where(LABELS == 1, "stays", "leaves"))
    page = Page(report(model, hornbeam.DMatrix(AGE, LABELS)))
    assert "stays" in page.words["data"]


BAD = {
    "no rounds": (
        lambda: hornbeam.Booster({}).report(VALID),
        NotTrainedError,
        "no rounds|train it",
    ),
    "no matrix": (
        lambda: MODEL.report(FRAME),
        DataError,
        "must be a DMatrix, not DataFrame|wrap it",
    ),
    "no rows": (
        lambda: MODEL.report(hornbeam.DMatrix(FRAME[:0], LABELS[:0])),
        DataError,
        "no rows in the given data",
    ),
    "no labels": (
        lambda: MODEL.report(hornbeam.DMatrix(FRAME)),
        DataError,
        "has no labels|DMatrix(data, label=...)",
    ),
    "no labels in training": (
        lambda: MODEL.report(VALID, hornbeam.DMatrix(FRAME)),
        DataError,
        "training data|has no labels",
    ),
    "columns of the model are missing": (
        lambda: MODEL.report(hornbeam.DMatrix(FRAME.drop(columns="age"), LABELS)),
        DataError,
        "missing: 'age'",
    ),
    "rows": (
        lambda: MODEL.report(VALID, rows=0),
        ParameterError,
        "rows must be 1 or more",
    ),
    "seed": (
        lambda: MODEL.report(VALID, seed=-1),
        ParameterError,
        "seed must be a whole number from 0 on, not -1",
    ),
    "class names": (
        lambda: MODEL.report(VALID, class_names=["a", "b", "c"]),
        ParameterError,
        "class_names has 3 names, and there are 2 classes",
    ),
    "labels that are no classes": (
        lambda: MODEL.report(hornbeam.DMatrix(FRAME, LABELS + 1.0)),
        DataError,
        "labels from 0 to 1",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_error(case):
    act, error, needed = BAD[case]
    with pytest.raises(error) as caught:
        act()
    for words in needed.split("|"):
        assert words in str(caught.value)


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("before")
    with pytest.raises(ParameterError):
        OF_AGE.report(VALID_OF_AGE, path=path, seed=-1)
    assert path.read_text() == "before"
    steps = []  # a place that cannot be is an error before any of them
    with pytest.raises(FileNotFoundError, match="create it, or choose another"):
        nowhere = tmp_path / "nowhere" / "report.html"
        report(OF_AGE, VALID_OF_AGE, path=nowhere, progress=steps.append)
    with pytest.raises(IsADirectoryError, match="is a folder; name a file in it"):
        report(OF_AGE, VALID_OF_AGE, path=tmp_path, progress=steps.append)
    assert steps == []
    assert OF_AGE.report(VALID_OF_AGE, path=str(path)) == path
    assert path.read_text().startswith("<!DOCTYPE html>")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.slow
def test_margins_of_ordered_classes_have_their_own_names(tmp_path):
    thirds = np.digitize(AGE["age"], AGE["age"].quantile([0.33, 0.67]))
    data = hornbeam.DMatrix(AGE, thirds)
    params = {"objective": "ordinal:logistic", "num_class": 3}
    model = hornbeam.train(params, data, 3, verbose_eval=False)
    page = tmp_path / "page.html"
    model.report(data, path=page, class_names=["young", "adult", "old"])
    text = page.read_text()
    of_margins = re.findall("What age contributes to the margins[^.]*", text)
    assert len(of_margins) == 1
    assert "of location" in text
    assert '"outputs":["location","middle of the thresholds"' in text
