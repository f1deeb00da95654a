"""Bins in external memory: blocks of rows on disk, read again in every pass."""
