"""Cuts of features, and the bins that values fall into."""
