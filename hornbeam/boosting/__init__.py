"""Rounds of boosting, and the model that grows by them."""
