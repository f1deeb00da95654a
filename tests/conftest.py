"""Configures the import path for `naive`, and hypothesis."""

import hypothesis

# Examples have no deadline because kernels may compile first. Runs are derandomised,
# so results depend on the code only; `pytest --hypothesis-profile=searching` draws new
# examples.
hypothesis.settings.register_profile("patient", deadline=None, derandomize=True)
hypothesis.settings.register_profile("searching", deadline=None)
hypothesis.settings.load_profile("patient")
