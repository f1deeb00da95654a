"""Codes on disk, block after block: written once, read again in every sweep."""
