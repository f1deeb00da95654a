"""Benchmarks with other libraries; run one as ``python -m benchmarks.fit --help``."""
