"""Objectives: losses, their gradients, and the links from margins to predictions."""
