"""Numba kernels: loops over arrays, scalars and NamedTuples of both."""
