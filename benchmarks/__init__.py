"""Benchmarks against the peers: run one as ``python -m benchmarks.fit --help``."""
