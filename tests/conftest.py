"""Puts this folder on the path, so that every test finds `naive`."""

import hypothesis

# An example may have to wait: for a kernel to be compiled, or for a busy machine. Each
# run draws the same ones, so that a verdict is one of the code and not of chance;
# `pytest --hypothesis-profile=searching` draws others.
hypothesis.settings.register_profile("patient", deadline=None, derandomize=True)
hypothesis.settings.register_profile("searching", deadline=None)
hypothesis.settings.load_profile("patient")
