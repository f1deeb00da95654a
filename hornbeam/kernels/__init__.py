"""Loops over arrays, compiled by Numba. Kernels see only arrays and scalars."""
