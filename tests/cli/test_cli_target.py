"""Training from a file with no parameter: the task, the classes, and predictions."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from command_line import command

import hornbeam


@pytest.fixture(scope="module")
def customers(tmp_path_factory) -> Path:
    """Write a table with targets of each kind, as CSV and as Parquet."""
    folder = tmp_path_factory.mktemp("customers")
    rng = np.random.default_rng(0)
    age, spent = rng.integers(18, 80, 400), rng.normal(50, 20, 400)
    score = age + spent + rng.normal(0, 20, 400)
    levels = np.digitize(score, [80, 100])
    table = pa.table(
        {
            "customer": pa.array(np.arange(400) + 10_000),
            "age": pa.array(age),
            "spent": pa.array(spent),
            "bought": np.where(score > 100, "yes", "no"),
            "member": pa.array(score > 90),
            "grade": pa.array(np.digitize(score, [80, 100, 120])),
            "level": pa.array([f"{k}" for k in levels]).dictionary_encode(),
            "visits": pa.array(rng.poisson(np.abs(score) / 5)),
        }
    )
    pyarrow.csv.write_csv(table, folder / "all.csv")
    pyarrow.parquet.write_table(table, folder / "all.parquet")
    path = str(folder / "batches.arrow")
    with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=90)
    return folder


OTHERS = ("bought", "member", "grade", "level", "visits")


def train(folder: Path, target: str, *more: object, data: str = "all.parquet"):
    drop = [word for name in OTHERS if name != target for word in ("--drop", name)]
    return command(
        *("train", data, "--target", target, "--drop", "customer", *drop),
        *("--model", f"{target}.ubj", "--quality", "fast", *more),
        cwd=folder,
    )


def predict(folder: Path, target: str, *more: object) -> list[dict[str, str]]:
    process = command(
        *("predict", "all.csv", "--model", f"{target}.ubj", "--output", "-", *more),
        cwd=folder,
    )
    assert process.returncode == 0, process.stderr
    return list(csv.DictReader(io.StringIO(process.stdout)))


@pytest.mark.parametrize(
    ("target", "said", "classes"),
    [
        (
            "bought",
            "classification: 'bought' has the values 'no', 'yes'",
            ["no", "yes"],
        ),
        ("member", "classification: 'member' has the values", [False, True]),
        ("grade", "classification: 'grade' has the values 0, 1, 2, 3", [0, 1, 2, 3]),
        ("level", "classification: 'level' has the values", ["0", "1", "2"]),
        ("visits", "regression: 'visits' has", None),
        ("spent", "regression: 'spent' has numbers that are not whole", None),
    ],
)
def test_the_target_tells_the_task(customers, target, said, classes):
    process = train(customers, target)
    assert process.returncode == 0, process.stderr
    assert process.stderr.startswith(said)
    assert "; --task chooses another\n" in process.stderr
    assert "chosen: quality fast, learning_rate 0.2" in process.stderr
    rows = predict(customers, target)
    assert len(rows) == 400
    if classes is None:
        assert [*rows[0]] == ["prediction"]
        return
    assert [*rows[0]] == ["prediction", *(f"probability_{name}" for name in classes)]
    model = hornbeam.HornbeamClassifier()
    model.load_model(customers / f"{target}.ubj")
    assert model.classes_.tolist() == classes
    x = pyarrow.parquet.read_table(customers / "all.parquet").select(["age", "spent"])
    expected = [str(name).lower() for name in model.predict(x.to_pandas())]
    assert [row["prediction"].lower() for row in rows] == expected
    np.testing.assert_array_equal(
        np.float32([[row[f"probability_{name}"] for name in classes] for row in rows]),
        model.predict_proba(x.to_pandas()),
    )


def test_the_task_and_the_objective_can_be_chosen(customers):
    process = train(customers, "grade", "--task", "regression")
    assert process.stderr.startswith("regression: 'grade' has the values 0, 1, 2, 3\n")
    assert hornbeam.Booster(model_file=customers / "grade.ubj").model.n_outputs == 1
    process = train(customers, "visits", "objective=count:poisson")
    assert process.stderr.startswith("chosen: ")
    process = train(customers, "bought", "objective=multi:softmax", "--rounds", 3)
    assert process.returncode == 0, process.stderr
    assert {row["prediction"] for row in predict(customers, "bought")} == {"no", "yes"}


def test_classes_are_encoded_wherever_labels_are_read(customers, tmp_path):
    assert train(customers, "bought", "--valid", "all.csv").returncode == 0
    data = ("all.csv", "--model", "bought.ubj", "--target", "bought")
    process = command("evaluate", *data, cwd=customers)
    assert float(process.stdout.split("\t")[1]) < 0.6
    process = command(
        *("report", "bought.ubj", "all.csv", "--target", "bought", "-o", "page.html"),
        cwd=customers,
    )
    assert process.returncode == 0, process.stderr
    assert "yes" in (customers / "page.html").read_text()
    text = (customers / "all.csv").read_text().replace('"yes"', '"maybe"')
    (customers / "new.csv").write_text(text)
    process = command("evaluate", "new.csv", *data[1:], cwd=customers)
    assert process.returncode == 2
    assert "the target 'bought' is 'maybe' in row" in process.stderr
    assert "the classes of the model are 'no', 'yes'" in process.stderr


def test_external_memory_gives_the_same_classes(customers, tmp_path):
    models = []
    for more in ([], ["--cache", tmp_path / "cache"]):
        assert train(customers, "bought", "--rounds", 3, *more).returncode == 0
        models.append(hornbeam.Booster(model_file=customers / "bought.ubj"))
    assert models[0].digest() == models[1].digest()


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_the_model_does_not_depend_on_threads(customers, threads):
    digests = []
    for nthread in (1, threads):
        assert train(customers, "bought", f"nthread={nthread}").returncode == 0
        digests.append(hornbeam.Booster(model_file=customers / "bought.ubj").digest())
    assert digests[0] == digests[1]


@pytest.mark.parametrize(
    "data", ["all.csv", "batches.arrow", "all.csv --cache cache"], ids=str
)
def test_columns_that_look_like_ids_or_leaks_are_warned_of(customers, data):
    process = command(
        *("train", *data.split(), "--target", "bought", "--rounds", 2),
        *("--model", "w.ubj"),
        cwd=customers,
    )
    assert "warning: 'customer' has 400 different whole numbers" in process.stderr
    assert "(--drop customer)" in process.stderr
    assert "warning: By 'grade' alone the label" in process.stderr
    assert process.returncode == 0


def test_a_column_of_nearly_this_name_is_named(customers):
    process = command("train", "all.csv", "--target", "bougth", cwd=customers)
    assert "did you mean 'bought'?" in process.stderr
    assert process.returncode == 2


def test_parameters_are_searched():
    said = command("params", "eta").stdout
    assert said.splitlines()[0].startswith("learning_rate, eta")
    assert "max_depth" in command("params").stdout


def test_options_that_are_nearly_right_are_named(customers):
    process = command("train", "all.csv", "--targt", "bought", cwd=customers)
    assert process.returncode == 2
    assert "--target" in process.stderr


@pytest.mark.parametrize("words", ["--task regression", "objective=count:poisson"])
def test_text_is_no_target_of_a_regression(customers, words):
    process = train(customers, "bought", *words.split(), "--rounds", "1")
    assert process.returncode == 2
    (line,) = process.stderr.splitlines()
    assert line == (
        f"hornbeam: {words} needs numbers, and the target 'bought' has the values "
        "'no', 'yes'; leave it out to train a classification, or name another column: "
        "--target"
    )
