"""Puts this folder on the path, so that every test finds `naive`."""

import hypothesis

# An example may have to wait: for a kernel to be compiled, or for a busy machine.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")
