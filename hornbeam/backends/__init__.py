"""Backends: rows in memory, on disk or on workers, and the splits found in them."""
