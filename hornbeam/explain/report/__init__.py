"""A report of a model on data: one page that opens anywhere and fetches nothing."""

from hornbeam.explain.report.writing import report

__all__ = ["report"]
