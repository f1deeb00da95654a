"""Rows on an OpenCL device. It needs the extra ``gpu``."""
