"""The command line, in a separate process for each command."""

from __future__ import annotations

import json
import os
import platform
import pty
import runpy
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from command_line import command, command_on
from selection import half_slow
from terminals import read_all

import hornbeam
from hornbeam.cpu_count import available_threads


def succeed(*arguments: object, cwd: Path | None = None):
    """Run a command that must succeed; return its output."""
    process = command(*arguments, cwd=cwd)
    assert process.returncode == 0, process.stderr
    return process


def hornbeam_says(*arguments: object, cwd: Path | None = None) -> str:
    return succeed(*arguments, cwd=cwd).stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Create training rows as Parquet, validation rows as CSV, and a model."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    for name, rows in (("train", 300), ("valid", 100)):
        x = rng.normal(size=(3, rows))
        x[1, ::9] = np.nan
        table = pa.table(
            {
                "late": x[0] + 0.1 * x[2] > 0,
                "hour": pa.array(x[0]),
                "wind": pa.array(x[1], from_pandas=True),
                "seats": pa.array(np.rint(x[2] * 9).astype(np.int64)),
                "weight": np.ones(rows),
            }
        )
        pyarrow.parquet.write_table(table, folder / f"{name}.parquet")
        pyarrow.csv.write_csv(table, folder / f"{name}.csv")
    (folder / "params.toml").write_text(
        'objective = "binary:logistic"\nmax_depth = 3\n'
    )
    (folder / "params.json").write_text('{"eval_metric": ["auc", "logloss"]}')
    process = succeed(*training(folder))
    (folder / "said").write_text(process.stderr)
    return folder


def training(folder: Path, *more: object, model: str = "model.ubj") -> list[object]:
    return [
        *("train", folder / "train.parquet", "--target", "late", "--weight", "weight"),
        *("--model", folder / model, "--rounds", 20, "--valid", folder / "valid.csv"),
        *("--params", folder / "params.toml", "--params", folder / "params.json"),
        *("eta=0.2", *more),
    ]


@pytest.fixture(scope="module")
def model(folder) -> Path:
    return folder / "model.ubj"


@pytest.fixture(scope="module")
def booster(model) -> hornbeam.Booster:
    return hornbeam.Booster(model_file=model)


def test_output_to_a_pipe_has_no_progress_bar(folder):
    warning, *lines = (folder / "said").read_text().splitlines()
    assert warning.startswith("warning: By 'hour' alone the label")
    assert [line.split("  ")[0] for line in lines[:-1]] == [
        "round 10/20",
        "round 20/20",
    ]
    assert "valid-auc:" in lines[0]
    assert lines[-1].startswith("20 rounds on 300 rows and 3 columns in ")


def test_train_writes_the_model_of_the_library(folder, booster):
    table = pyarrow.parquet.read_table(folder / "train.parquet")
    features = table.select(["hour", "wind", "seats"])
    label = table.column("late").cast(pa.float64()).to_numpy()
    matrix = hornbeam.DMatrix(features, label, weight=np.ones(300))
    params = {"objective": "binary:logistic", "max_depth": 3, "eta": 0.2}
    twin = hornbeam.train(params, matrix, 20)
    np.testing.assert_array_equal(booster.predict(matrix), twin.predict(matrix))


def test_the_model_does_not_depend_on_the_number_of_threads(folder, booster):
    command(*training(folder, "nthread=3", "-o", folder / "again.ubj"))
    again = hornbeam.Booster(model_file=folder / "again.ubj")
    assert again.digest() == booster.digest()


def test_predictions_are_written_to_standard_output_and_files(folder, model, booster):
    names = ["hour", "wind", "seats"]
    table = pyarrow.csv.read_csv(folder / "valid.csv").select(names)
    expected = booster.predict(hornbeam.DMatrix(table))
    said = hornbeam_says("predict", folder / "valid.csv", "--model", model)
    assert said.splitlines()[0] == '"prediction"'
    np.testing.assert_array_equal(np.float32(said.splitlines()[1:]), expected)
    for ending, option, read in (
        ("csv", "-o", pyarrow.csv.read_csv),
        ("parquet", "--output", pyarrow.parquet.read_table),
    ):
        out = folder / f"out.{ending}"
        hornbeam_says(
            "predict", folder / "valid.parquet", "--model", model, option, out
        )
        written = read(out).column("prediction").to_numpy().astype(np.float32)
        np.testing.assert_array_equal(written, expected)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_predictions_are_written_to_a_fifo(folder, model, booster, tmp_path, ending):
    fifo = tmp_path / f"out.{ending}"
    os.mkfifo(fifo)
    received = []
    reader = threading.Thread(target=lambda: received.append(fifo.read_bytes()))
    reader.start()
    hornbeam_says("predict", folder / "valid.csv", "--model", model, "--output", fifo)
    reader.join()
    assert fifo.is_fifo()
    read = pyarrow.csv.read_csv if ending == "csv" else pyarrow.parquet.read_table
    written = read(pa.BufferReader(received[0])).column("prediction").to_numpy()
    assert written.shape == (100,)
    assert list(tmp_path.iterdir()) == [fifo]


def test_predictions_replace_the_target_of_a_symbolic_link(folder, model, tmp_path):
    target, link = tmp_path / "target.csv", tmp_path / "link.csv"
    target.write_text("old")
    link.symlink_to(target)
    hornbeam_says("predict", folder / "valid.csv", "--model", model, "--output", link)
    assert link.is_symlink()
    assert target.read_text().startswith('"prediction"')
    assert sorted(tmp_path.iterdir()) == [link, target]


def test_any_file_and_any_query_give_the_same_model(folder, booster):
    pyarrow.feather.write_feather(
        pyarrow.parquet.read_table(folder / "train.parquet"), folder / "train.feather"
    )
    with duckdb.connect(folder / "rows.duckdb") as connection:
        for name in ("train", "valid"):
            connection.execute(
                f"CREATE TABLE {name} AS FROM read_parquet('{folder}/{name}.parquet')"
            )
    for data, more in (
        (folder / "train.feather", []),
        (
            "SELECT * FROM train",
            ["--database", folder / "rows.duckdb", "--valid", "FROM valid"],
        ),
    ):
        _, _, *rest = training(folder, *more, model="other.ubj")
        hornbeam_says("train", data, *rest)
        other = hornbeam.Booster(model_file=folder / "other.ubj")
        assert other.digest() == booster.digest()


def test_predictions_are_written_batch_by_batch(folder, model, booster):
    rows = np.random.default_rng(0).normal(size=(70_000, 3))
    table = pa.table(dict(zip(["seats", "wind", "hour"], rows.T, strict=True)))
    pyarrow.parquet.write_table(table, folder / "many.parquet")
    out = folder / "many_out.parquet"
    hornbeam_says("predict", folder / "many.parquet", "--model", model, "--output", out)
    written = pyarrow.parquet.ParquetFile(out)
    assert written.num_row_groups == 2
    expected = booster.predict(
        hornbeam.DMatrix(table.select(["hour", "wind", "seats"]))
    )
    np.testing.assert_array_equal(written.read()["prediction"].to_numpy(), expected)


def test_large_files_are_streamed(folder):
    rng = np.random.default_rng(0)
    x = rng.normal(size=70_000)
    carrier = rng.choice(["AA", "DL", "UA"], 70_000)
    late = x + (carrier == "DL") > 0
    table = pa.table({"x": x, "carrier": carrier, "late": late})
    pyarrow.parquet.write_table(table, folder / "large.parquet")
    pyarrow.csv.write_csv(table, folder / "large.csv")
    out = folder / "large.ubj"
    data = folder / "large.parquet"
    process = succeed(
        *("train", data, "--target", "late", "--model", out, "--rounds", 3),
        *("--valid", folder / "large.csv", "max_depth=3", "eval_metric=error"),
    )
    assert "70,000 rows and 2 columns" in process.stderr
    matrix = hornbeam.DMatrix(table.select(["x", "carrier"]), late)
    params = {"objective": "binary:logistic", "max_depth": 3, "eval_metric": "error"}
    twin = hornbeam.train(params, matrix, 3)
    said = hornbeam_says("predict", folder / "large.csv", "--model", out)
    header, *rows = (line.split(",") for line in said.splitlines())
    assert header == ['"prediction"', '"probability_False"', '"probability_True"']
    probabilities = twin.predict(matrix)
    np.testing.assert_array_equal(np.float32([row[2] for row in rows]), probabilities)
    assert [row[0] == "true" for row in rows] == (probabilities > 0.5).tolist()


def test_external_memory_gives_the_same_model(folder, tmp_path):
    told = folder / "model.ubj", folder / "paged.ubj"
    more = [*("--cache", tmp_path / "a", "--cache", tmp_path / "b")]
    more += ["--memory-limit", "4GB"]
    for _ in range(2):  # the second one uses what the first has written
        succeed(*training(folder, *more, model="paged.ubj"))
        digests = {hornbeam.Booster(model_file=path).digest() for path in told}
        assert len(digests) == 1
    assert (tmp_path / "a" / "valid" / "hornbeam-pages.json").is_file()


def test_an_unseen_category_is_reported_with_its_row(folder):
    (folder / "cities.csv").write_text("late,city\n" + "1,Rome\n0,Oslo\n" * 9)
    (folder / "new.csv").write_text("city\nOslo\nBern\n")
    out = folder / "cities.ubj"
    hornbeam_says(
        *("train", folder / "cities.csv", "--target", "late", "--model", out),
        *("--rounds", 2),
    )
    process = command("predict", "new.csv", "--model", out, cwd=folder)
    assert process.returncode == 2
    assert "batch 0 of new.csv" in process.stderr
    assert "row 1 of column 'city' holds the category 'Bern'" in process.stderr
    said = hornbeam_says(
        "predict", folder / "new.csv", "--model", out, "--unseen", "missing"
    )
    assert len(said.splitlines()) == 3


def test_libsvm_files_contain_labels(folder):
    rng = np.random.default_rng(0)
    lines = [f"{x > 0.5:d} 0:{x:.4f} 2:{y:.4f}\n" for x, y in rng.random((200, 2))]
    (folder / "rows.txt").write_text("".join(lines))
    data = "rows.txt?format=libsvm"
    out = folder / "libsvm.ubj"
    process = succeed("train", data, "--model", out, "--rounds", 2, cwd=folder)
    assert "200 rows and 3 columns" in process.stderr
    process = command("evaluate", data, "--model", out, cwd=folder)
    assert float(process.stdout.split("\t")[1]) < 0.5
    process = command("predict", data, "--model", out, cwd=folder)
    assert len(process.stdout.splitlines()) == 201


@pytest.mark.slow
def test_predict_works_without_pandas(folder, model):
    interpreter = [sys.executable, "-X", "importtime", "-m", "hornbeam"]
    process = subprocess.run(
        [*interpreter, "predict", folder / "valid.csv", "--model", model],
        capture_output=True,
        text=True,
    )
    imported = {line.split("|")[-1].strip() for line in process.stderr.splitlines()}
    assert process.returncode == 0, process.stderr[-2000:]
    assert "hornbeam.cli" in imported
    assert "pandas" not in imported


def test_predict_returns_margins_on_request(folder, model):
    plain, margins = (
        np.float64(
            hornbeam_says(
                "predict", folder / "valid.csv", "--model", model, *more
            ).split()[1:]
        )
        for more in ((), ("--margin",))
    )
    np.testing.assert_allclose(plain, 1 / (1 + np.exp(-margins)), rtol=1e-5)


def test_groups_weights_and_margins_are_read_from_columns(folder):
    table = pyarrow.parquet.read_table(folder / "train.parquet")
    query = np.arange(300) // 10
    fields = {"qid": query, "weight": 1.0 + query % 3, "base_margin": query / 30}
    for name, values in fields.items():
        table = table.append_column(f"its {name}", pa.array(values))
    pyarrow.parquet.write_table(table, folder / "ranked.parquet")
    out, named = folder / "ranked.ubj", ["--target", "late", "--group", "its qid"]
    named += ["--weight", "its weight", "--base-margin", "its base_margin"]
    data = folder / "ranked.parquet"
    said = ("train", data, *named, "--drop", "weight", "--model", out, "--rounds", 3)
    hornbeam_says(*said, "objective=rank:ndcg", "max_depth=2")

    rows = table.select(["hour", "wind", "seats"])
    label = table.column("late").cast(pa.float64()).to_numpy()
    matrix = hornbeam.DMatrix(rows, label, **fields)
    twin = hornbeam.train({"objective": "rank:ndcg", "max_depth": 2}, matrix, 3)
    twin.set_param("eval_metric", "ndcg@3")
    scores = hornbeam_says(
        "evaluate", data, *named, "--model", out, "--metric", "ndcg@3"
    )
    assert scores.split("\t")[1] == f"{twin.measure([(matrix, 'x')])[0][1]:.6g}\n"
    predicted = hornbeam_says("predict", data, "--model", out, *named[-2:])
    np.testing.assert_array_equal(
        np.float32(predicted.splitlines()[1:]), twin.predict(matrix)
    )


def test_label_bounds_are_read_from_columns(folder):
    x = np.linspace(0, 1, 200)
    table = pa.table({"x": x, "from": 1 + x, "to": np.where(x < 0.8, 1 + x, np.inf)})
    pyarrow.parquet.write_table(table, folder / "times.parquet")
    out, data = folder / "times.ubj", folder / "times.parquet"
    named = ["--label-lower-bound", "from", "--label-upper-bound", "to"]
    train = ["train", data, *named, "--model", out, "--rounds", 5]
    hornbeam_says(*train, "objective=survival:aft")
    booster = hornbeam.Booster(model_file=out)
    assert booster.feature_names == ["x"]
    bounds = {"label_lower_bound": table["from"], "label_upper_bound": table["to"]}
    matrix = hornbeam.DMatrix(table.select(["x"]), **bounds)
    twin = hornbeam.train({"objective": "survival:aft"}, matrix, 5)
    np.testing.assert_array_equal(booster.predict(matrix), twin.predict(matrix))


def test_predictions_of_several_classes_have_a_column_each(folder):
    out = folder / "classes.json"
    command(
        *("train", folder / "train.csv", "--target", "late", "--model", out),
        *("--rounds", 2, "objective=multi:softprob", "num_class=2"),
    )
    said = hornbeam_says("predict", folder / "valid.csv", "--model", out)
    assert said.splitlines()[0] == '"prediction_0","prediction_1"'


def test_evaluate_prints_one_metric_per_line(folder, model, booster):
    data = (folder / "valid.csv", "--model", model, "--target", "late")
    said = hornbeam_says("evaluate", *data, "--metric", "auc", "--metric", "error@0.3")
    scores = dict(line.split("\t") for line in said.splitlines())
    assert list(scores) == ["auc", "error@0.3"]
    assert float(scores["auc"]) > 0.9
    assert hornbeam_says("evaluate", *data).startswith("logloss\t")


def test_inspect_prints_a_summary_of_the_model(model, booster):
    said = dict(
        line.split("\t") for line in hornbeam_says("inspect", model).splitlines()
    )
    assert said["rounds"] == said["trees"] == "20"
    assert said["objective"] == "binary:logistic"
    assert said["digest"] == booster.digest()
    assert (said["max_depth"], said["learning_rate"]) == ("3", "0.2")
    assert float(said["hour"]) > float(said["seats"])
    assert int(said["deepest leaf"]) <= 3


def test_early_stopping_records_the_best_round(folder):
    out = folder / "early.ubj"
    process = succeed(
        *training(folder, "--early-stopping", 1, "eta=0.2", model=out.name)
    )
    assert "best score 0." in process.stderr
    best = int(hornbeam.Booster(model_file=out).attr("best_iteration"))
    said = hornbeam_says("predict", folder / "valid.csv", "--model", out)
    table = pyarrow.csv.read_csv(folder / "valid.csv").select(["hour", "wind", "seats"])
    expected = hornbeam.Booster(model_file=out).predict(
        hornbeam.DMatrix(table), iteration_range=(0, best + 1)
    )
    np.testing.assert_array_equal(np.float32(said.splitlines()[1:]), expected)


def test_an_exported_model_makes_the_same_predictions(folder, model, booster):
    table = pyarrow.csv.read_csv(folder / "valid.csv").select(["hour", "wind", "seats"])
    rows = table.slice(0, 30).to_pylist()
    best = int(booster.attr("best_iteration") or 19) + 1
    data = hornbeam.DMatrix(table.slice(0, 30))
    for more, margin in ((), False), (("--margin",), True):
        process = succeed("export", model, "-o", folder / "model.py", *more)
        assert f"exported to {folder / 'model.py'}" in process.stderr
        predict = runpy.run_path(folder / "model.py")["predict"]
        want = booster.predict(data, output_margin=margin, iteration_range=(0, best))
        np.testing.assert_allclose([predict(row) for row in rows], want, rtol=1e-6)
    for name in ("model.c", "model.onnx"):
        hornbeam_says("export", model, "--output", folder / name)
        assert (folder / name).stat().st_size > 1000


def test_report_accepts_files_and_queries(folder, model, booster):
    train, valid = folder / "train.parquet", folder / "valid.csv"
    named = ["--target", "late", "--weight", "weight", "--title", "Late & later"]
    pages = []
    for number, data in enumerate(
        ([valid, "--train", train], [train, "--valid", valid])
    ):
        page = folder / f"report-{number}.html"
        process = succeed("report", model, *data, *named, "-o", page)
        assert process.stdout == "" and process.stderr.count("\n") == 1
        assert process.stderr.startswith("report of ") and str(page) in process.stderr
        pages.append(page.read_text())
    assert pages[0] == pages[1]
    assert "<h1>Late &amp; later</h1>" in pages[0]
    assert booster.digest() in pages[0]
    # The model file has the metrics and the parameters of training.
    assert "auc, validation data" in pages[0]
    assert '<th scope="row">learning_rate</th><td class="words">0.2</td>' in pages[0]


def test_an_exported_classifier_has_its_labels(folder):
    X = np.arange(40.0).reshape(-1, 1)
    model = hornbeam.HornbeamClassifier(n_estimators=3, objective="binary:logitraw")
    model.fit(X, np.repeat(["early", "late"], 20)).save_model(folder / "labels.ubj")
    hornbeam_says("export", folder / "labels.ubj", "-o", folder / "labels.py")
    source = runpy.run_path(folder / "labels.py")
    assert source["CLASSES"] == ("early", "late")
    want = model.predict_proba(X)[:, 1]
    np.testing.assert_allclose([source["predict"](row) for row in X], want, rtol=1e-6)


def test_output_to_a_terminal_has_a_bar_and_tables(folder, model):
    for arguments, shown in (
        (training(folder, model="bar.ubj"), "20/20"),
        (["inspect", model], "Importance (gain)"),
    ):
        reader, writer = pty.openpty()
        process = command_on(writer, *arguments)
        text = read_all(reader)
        process.join()
        assert process.exitcode == 0, text
        assert shown in text


def test_help_lists_the_parameters():
    said = hornbeam_says("train", "--help")
    assert "learning_rate, eta" in said
    assert hornbeam_says("--version").strip() == hornbeam.__version__


def test_info_says_what_a_report_of_a_fault_needs():
    lines = hornbeam_says("info").splitlines()
    said = {name: value.strip() for name, _, value in (x.partition(":") for x in lines)}
    assert said["hornbeam"] == hornbeam.__version__
    assert said["numpy"] == np.__version__
    assert said["python"].startswith(platform.python_version())
    assert any(way in said["kernels"] for way in ("native", "Numba", "plain Python"))
    assert said["threads"].startswith(f"{available_threads()} of ")
    assert "cli" in said["extras"].split(", ")
    assert {"cache", "not installed"} <= said.keys()


TRAIN = ["train", "train.csv", "--target", "late", "--model", "new.ubj", "--rounds", 1]
REPORT = ["report", "model.ubj", "valid.csv", "--target", "late"]


#: Arguments, and a part of the line that they get.
USER_ERRORS = [
    (["export", "model.ubj", "-o", "model.pmml"], "must end in .onnx or .c"),
    (["export", "model.ubj", "-o", "no/model.c"], "no/model.c does not exist"),
    (["report", "model.ubj", "valid.csv"], "valid.csv has no labels"),
    (["report", "model.ubj", "valid.csv", "--target", "lat"], "column 'lat'"),
    ([*REPORT, "-o", "report.pdf"], "must end in .html or .htm"),
    ([*REPORT, "-o", "no/report.html"], "does not exist"),
    ([*REPORT, "--seed", -1], "seed must be"),
    ([*REPORT, "--rows", 0], "rows must be 1 or more"),
    ([*REPORT, "--class", "early"], "class_names has 1 names, and there are 2"),
    ([*REPORT, "--train", "a.csv", "--valid", "b.csv"], "cannot be combined"),
    (
        ["report", "model.ubj", "words.csv", "--target", "late"],
        "words.csv has no column 'hour'; it has late, city",
    ),
    (
        ["report", "model.ubj", "empty.csv", "--target", "late"],
        "empty.csv",
    ),
    ([*TRAIN, "max_dept=3"], "did you mean 'max_depth'"),
    ([*TRAIN, "max_depth=-1"], "max_depth must be 0 or more"),
    ([*TRAIN, "depth"], "neither key=value nor"),
    ([*TRAIN, "--params", "absent.json"], "absent.json"),
    (
        [*TRAIN, "--params", "broken.json"],
        "cannot read parameters from broken.json",
    ),
    ([*TRAIN, "--params", "list.json"], "must hold one object"),
    ([*TRAIN, "--early-stopping", 3], "pass --valid"),
    ([*TRAIN, "--memory-limit", "1GB"], "pass --cache"),
    ([*TRAIN, "--cache", "train.csv"], "cannot be created"),
    ([*TRAIN, "--cache", "new", "--memory-limit", "much"], "'700MB'"),
    (
        [*TRAIN, "--weight", "wait"],
        "train.csv has no column 'wait'; it has late, hour",
    ),
    ([*TRAIN, "--drop", "wait"], "has no column 'wait'"),
    ([*TRAIN, "--group", "late"], "'late' cannot be both label and qid"),
    ([*TRAIN, "--group", "hour"], "qid must be whole numbers"),
    ([*TRAIN, "objective=binary"], "'binary'"),
    (
        ["train", "train.csv", "--target", "lat", "--model", "new.ubj"],
        "column 'lat'",
    ),
    (
        ["train", "absent.csv", "--target", "late", "--model", "new.ubj"],
        "absent.csv",
    ),
    (
        ["train", "train.xls", "--target", "late", "--model", "new.ubj"],
        "must end in",
    ),
    (
        ["train", "one.csv", "--target", "city", "--model", "new.ubj"],
        "the target 'city' has one value in all rows, 'Rome'",
    ),
    (
        ["train", "ids.csv", "--target", "id", "--model", "new.ubj"],
        "the target 'id' has 20 different values in 20 rows",
    ),
    (
        ["train", "gap.csv", "--target", "city", "--model", "new.ubj"],
        "gap.csv: the target 'city' is missing in row 1 (so in 2 of 4 rows)",
    ),
    (
        ["train", "city.csv", "--target", "city", "--task", "regression"],
        "--task regression needs numbers, and the target 'city' has the values",
    ),
    ([*TRAIN, "n_estimators=3"], "'n_estimators' is no parameter here; pass --rou"),
    (["params", "depht"], "no parameter has 'depht'"),
    (["train", "train.csv", "--model", "new.ubj"], "with --target"),
    (
        [*TRAIN, "--database", "absent.duckdb"],
        "database absent.duckdb does not exist",
    ),
    ([*TRAIN, "--database", "train.csv"], "cannot open the database train.csv"),
    (
        ["predict", "SELECT * FROM t", "--model", "model.ubj", "--database", "d"],
        "the query failed: Catalog Error",
    ),
    (
        ["predict", "ragged.csv", "--model", "model.ubj", "--output", "kept.csv"],
        "cannot read ragged.csv: CSV parse error: Row #4: Expected 4 columns",
    ),
    (
        ["train", "train.csv", "--target", "late", "--model", "new.bin"],
        "must end in",
    ),
    (
        ["train", "train.csv", "--target", "late", "--model", "no/a.ubj"],
        "the folder of no/a.ubj does not exist",
    ),
    (["predict", "words.csv", "--model", "model.ubj"], "no column 'hour'"),
    (
        ["predict", "valid.csv", "--model", "absent.ubj"],
        "the model absent.ubj does not exist",
    ),
    (["predict", "valid.csv", "--model", "broken.json"], "model"),
    (
        ["predict", "torn.parquet", "--model", "model.ubj"],
        "cannot read torn.parquet",
    ),
    (
        ["evaluate", "valid.csv", "--model", "model.ubj", "--target", "x"],
        "column 'x'",
    ),
    (["inspect", "model.ubj", "--importance", "size"], "size"),
]


@pytest.mark.parametrize(
    ("arguments", "message"),
    half_slow(USER_ERRORS, pytest.mark.slow),  # each is a process
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_user_error_prints_one_line_and_exits_with_2(arguments, message, folder):
    (folder / "broken.json").write_text("{")
    (folder / "list.json").write_text("[1]")
    (folder / "torn.parquet").write_bytes(b"PAR1 and no more")
    (folder / "words.csv").write_text("late,city\n1,Rome\n0,Oslo\n")
    (folder / "one.csv").write_text("x,city\n" + "1,Rome\n" * 9)
    (folder / "ids.csv").write_text("x,id\n" + "".join(f"1,i{k}\n" for k in range(20)))
    (folder / "gap.csv").write_text("x,city\n1,Rome\n2,\n3,Oslo\n4,\n")
    (folder / "city.csv").write_text("x,city\n" + "1,Rome\n0,Oslo\n" * 9)
    (folder / "empty.csv").write_text("late,hour,wind,seats\n")
    (folder / "train.xls").touch()
    (folder / "ragged.csv").write_text("hour,wind,seats,x\n" + "1,2,3,4\n" * 2 + "1\n")
    (folder / "kept.csv").write_text("what was there")
    duckdb.connect(folder / "d").close()
    process = command(*arguments, cwd=folder)
    assert process.returncode == 2
    assert process.stdout == ""
    assert process.stderr.count("\n") == 1, process.stderr
    assert process.stderr.startswith("hornbeam: ")
    assert message in process.stderr
    assert not (folder / "new.ubj").exists()
    assert not list(folder.glob("*.part"))
    assert (folder / "kept.csv").read_text() == "what was there"


def test_a_missing_extra_prints_one_line():
    code = (
        "import sys; sys.modules['typer'] = None; "
        "from hornbeam.__main__ import main; main()"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True
    )
    assert process.returncode == 2
    assert process.stderr.count("\n") == 1
    assert 'pip install "hornbeam[cli]"' in process.stderr


def test_parameters_from_json_may_be_lists(folder, model):
    config = json.loads((folder / "params.json").read_text())
    said = dict(
        line.split("\t") for line in hornbeam_says("inspect", model).splitlines()
    )
    assert said["eval_metric"] == str(config["eval_metric"])


def test_plan_tells_what_a_cluster_needs():
    size = "--rows", "1e9", "--features", 200, "--workers", 20
    lines = dict(line.split("\t") for line in hornbeam_says("plan", *size).splitlines())
    assert lines["workers"] == "20 of 16 threads"
    assert lines["memory of a worker"].startswith("62.8 GB")
    assert lines["a round"].startswith("2.28 s, most of it loops over rows")
    too_little = hornbeam_says("plan", *size, "--engine", "ray", "--memory", 16)
    assert "16 GB, which is too little: 80 workers hold all" in too_little
    for option, value in (("--engine", "flink"), ("--rows", "0")):
        done = command("plan", *size, option, value)
        assert done.returncode == 2
        assert option in done.stderr
