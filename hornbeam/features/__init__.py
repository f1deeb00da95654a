"""Derived features: columns that formulas compute from the columns of the data."""
