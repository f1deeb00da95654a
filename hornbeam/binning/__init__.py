"""Cuts and codes: each value is replaced by the number of its bin."""
