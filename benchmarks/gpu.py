"""Compare training on a GPU with XGBoost's, and with the CPU.

    pip install "hornbeam[gpu]" xgboost
    python -m benchmarks.gpu

Trains on made rows of a binary label with each library on the GPU, in alternating
repeats, data in matrices already, and with the bins in external memory if asked to, and
predicts the rows. Prints seconds, and those of each kernel in one further run. The
digests of all models of Hornbeam are compared, and predictions, so a wrong one fails.
XGBoost is left out with a line that says why if the installed package or the machine
has no CUDA. Without a GPU any OpenCL device can be named, such as PoCL's:
--device opencl:0:0. Prints a table and writes JSON.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import hornbeam
from benchmarks.data import made
from benchmarks.libraries import BINS, Task
from benchmarks.machine import add_output_option, clock, describe, write
from hornbeam.backends.opencl import devices, queue

#: Rows of a batch that external memory is made of.
_BATCH_ROWS = 1 << 20


def parse_arguments() -> argparse.Namespace:
    """Return the command line arguments."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--columns", type=int, default=28)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--depths", type=int, nargs="+", default=[6, 8])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--device", default="gpu", help="as the parameter device")
    parser.add_argument("--group-size", type=int, help="work-items of a group")
    parser.add_argument(
        "--short-atomics", action="store_true", help="two additions of 32 bits for one"
    )
    parser.add_argument(
        "--stages",
        action=argparse.BooleanOptionalAction,
        help="copy arrays through pinned memory, or from where they are",
    )
    parser.add_argument("--no-cpu", action="store_true", help="leave out the CPU")
    parser.add_argument(
        "--external-memory", action="store_true", help="train from blocks on disk, too"
    )
    add_output_option(parser)
    return parser.parse_args()


def choose_options(arguments: argparse.Namespace) -> devices.Device:
    """Return the device; kernels are compiled for it as the arguments say."""
    device = devices.find_device(arguments.device)
    changed: dict[str, Any] = {}
    if arguments.group_size:
        changed["group_size"] = arguments.group_size
    if arguments.short_atomics:
        changed["long_atomics"] = False
    if arguments.stages is not None:
        changed["stages"] = arguments.stages
    device = replace(device, options=replace(device.options, **changed))
    arguments.device = device.name
    devices.find_devices = lambda: (device,)  # type: ignore[assignment]
    return device


def xgboost_trainer(x: Any, y: Any) -> Callable[[dict[str, Any], int], Any] | None:
    """Return what trains with XGBoost on CUDA; None, with a line, if it cannot."""
    try:
        import xgboost

        if not xgboost.build_info().get("USE_CUDA"):
            raise RuntimeError("the installed xgboost is built without CUDA")
        data = xgboost.QuantileDMatrix(x, y, max_bin=BINS)
        xgboost.train({"device": "cuda", "fail_on_invalid_gpu_id": True}, data, 1)
    except Exception as error:
        print(f"XGBoost is left out: {str(error).splitlines()[0]}")
        return None
    return lambda params, rounds: xgboost.train(
        {**params, "device": "cuda"}, data, rounds
    )


def external_matrix(x: Any, y: Any, folder: str, threads: int) -> Any:
    """Return the same rows as a matrix in external memory."""

    def batches() -> Iterator[tuple[Any, Any]]:
        for begin in range(0, len(x), _BATCH_ROWS):
            yield x[begin : begin + _BATCH_ROWS], y[begin : begin + _BATCH_ROWS]

    return hornbeam.ExtMemQuantileDMatrix(
        batches, cache=folder, max_bin=BINS, nthread=threads
    )


def predict(model: Any, x: Any, places: list[str], repeats: int) -> dict[str, Any]:
    """Return the wall and CPU seconds of predictions on each device."""
    seconds: dict[str, list[list[float]]] = {place: [] for place in places}
    found = set()
    for _ in range(1 + repeats):  # the first compiles
        for place in places:
            model.set_param("device", place)
            with clock() as own:
                found.add(model.inplace_predict(x).tobytes())
            seconds[place].append([own.wall, own.cpu])
    assert len(found) == 1, "predictions differ"
    return {place: np.array(own[1:]).min(axis=0) for place, own in seconds.items()}


def profile(train: Callable[[], Any]) -> dict[str, float]:
    """Return the seconds of each kernel of a training."""
    queue.kernel_seconds = {}
    train()
    found, queue.kernel_seconds = queue.kernel_seconds, None
    return found


def main() -> None:
    """Print and write the results."""
    with ExitStack() as folders:
        run(parse_arguments(), folders)


def run(arguments: argparse.Namespace, folders: ExitStack) -> None:
    """Measure; external memory is in temporary folders."""
    device = choose_options(arguments)
    print(f"{device.title}, {device.driver}, {device.options}")
    x, y = made(arguments.rows, arguments.columns, seed=0)
    data = hornbeam.QuantileDMatrix(x, y, max_bin=BINS, nthread=arguments.threads)

    def with_hornbeam(where: str, rows: Any) -> Callable[[dict[str, Any], int], Any]:
        def train(params: dict[str, Any], rounds: int) -> Any:
            given = {**params, "device": where}
            return hornbeam.train(given, rows, rounds, verbose_eval=False)

        return train

    places = {"device": arguments.device}
    if not arguments.no_cpu:
        places["cpu"] = "cpu"
    trainers = {
        f"hornbeam, {name}": with_hornbeam(place, data)
        for name, place in places.items()
    }
    if arguments.external_memory:
        folder = folders.enter_context(tempfile.TemporaryDirectory())
        pages = external_matrix(x, y, folder, arguments.threads)
        for name, place in places.items():
            trainers[f"hornbeam, external memory, {name}"] = with_hornbeam(place, pages)
    rival = xgboost_trainer(x, y)
    if rival is not None:
        trainers["xgboost, cuda"] = rival

    results = []
    for depth in arguments.depths:
        task = Task(2, arguments.rounds, arguments.threads, depth=depth)
        params = task.xgboost_parameters()
        seconds: dict[str, list[float]] = {name: [] for name in trainers}
        cpu: dict[str, list[float]] = {name: [] for name in trainers}
        digests, last = {}, None
        for train in trainers.values():
            train(params, 2)  # compiles, and copies the rows
        for _ in range(arguments.repeats):
            for name, train in trainers.items():
                with clock() as own:
                    model = train(params, arguments.rounds)
                seconds[name].append(own.wall)
                cpu[name].append(own.cpu)
                if name.startswith("hornbeam"):
                    digests[name], last = model.digest(), model
        assert len({*digests.values()}) == 1, digests
        for place, own in predict(
            last, x, list(places.values()), arguments.repeats
        ).items():
            name = f"prediction of {arguments.rounds} trees, {place}"
            seconds[name], cpu[name] = [own[0]], [own[1]]
        kernels = profile(lambda p=params: trainers["hornbeam, device"](p, 10))
        results.append(
            {"depth": depth, "seconds": seconds, "cpu": cpu, "kernels": kernels}
        )
        _print(depth, arguments, seconds, cpu, kernels)
    result = {
        "machine": describe(["hornbeam", "pyopencl", "xgboost", "numpy"]),
        "device": [device.title, device.driver, str(device.options)],
        "options": vars(arguments),
        "results": results,
    }
    print(write("gpu", result, arguments.output))


def _print(
    depth: int,
    arguments: argparse.Namespace,
    seconds: dict[str, list[float]],
    cpu: dict[str, list[float]],
    kernels: dict[str, float],
) -> None:
    size = f"{arguments.rows:,} x {arguments.columns}, {arguments.rounds} rounds"
    table = Table(title=f"{size}, depth {depth}")
    for column in ("training", "wall s", "CPU s", "ms a round"):
        table.add_column(column)
    for name, own in seconds.items():
        each = f"{1e3 * min(own) / arguments.rounds:.2f}"
        table.add_row(name, f"{min(own):.3f}", f"{min(cpu[name]):.3f}", each)
    total = sum(kernels.values())
    for name, own in sorted(kernels.items(), key=lambda item: -item[1]):
        table.add_row(f"  {name}: {own / total:.0%}", "", "", f"{own * 100:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
