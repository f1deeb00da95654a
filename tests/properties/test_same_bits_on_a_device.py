"""The matrix of configurations gives the CPU's models on an OpenCL device."""

from __future__ import annotations

import pytest
from opencl_device import NAME
from selection import IS_WHOLE
from test_same_bits_of_configurations import (
    OBJECTIVES,
    covering,
    matrix_of,
    settings_of,
    train,
)

from hornbeam.errors import ParameterError

#: What a device refuses: these choices, and some of the others.
REFUSED = {"weights", "updates", "at nodes", "exact", "by updater"}

#: One device, and two queues of it that share the rows.
DEVICES = (NAME, f"{NAME}+{NAME}")
#: Enough for work-items to share every node.
N_ROWS = 12_000


def assert_same_model(configuration, turns, devices=DEVICES):
    """Train on the CPU and on devices; all give this model, or devices refuse it."""
    params = settings_of(configuration, turns)
    data = matrix_of(configuration, params, N_ROWS)
    begun = None
    if configuration["booster"] == "updates":
        grown = settings_of(configuration | {"booster": "trees"}, turns)
        begun = train(grown, data)
    expected = train(params, data, xgb_model=begun).digest()
    for device in devices:
        try:
            found = train({**params, "device": device}, data, xgb_model=begun).digest()
        except ParameterError as error:
            assert "device=" in str(error)
            assert REFUSED & {*configuration.values()}, configuration
        else:
            assert found == expected, (device, params)


@pytest.mark.slow
@pytest.mark.repeats
@pytest.mark.parametrize(
    ("configuration", "turns"),
    [
        pytest.param(*each, id=", ".join(each[0].values()))
        for each in covering(strength=1)
    ],
)
def test_each_choice_is_the_model_of_the_cpu(configuration, turns):
    assert_same_model(configuration, turns)


@pytest.mark.slow
@pytest.mark.repeats
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_each_pair_of_choices_is_the_model_of_the_cpu(objective):
    for number, (configuration, turns) in enumerate(covering(strength=2)):
        if configuration["objective"] == objective:
            # Every choice is in several pairs, so that it meets both.
            devices = DEVICES if IS_WHOLE else DEVICES[number % 2 :][:1]
            assert_same_model(configuration, turns, devices)
