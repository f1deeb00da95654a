"""Plots of a model on data, each drawn in matplotlib axes."""
