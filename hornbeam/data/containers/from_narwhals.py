"""Frames of other libraries, as far as narwhals knows them: modin, cuDF, Ibis"""

from __future__ import annotations

from typing import Any

__all__ = ["native_frame"]


def native_frame(data: Any) -> Any | None:
    """Return the frame that stands behind `data`, or the same rows as an Arrow table.

    None if narwhals is not installed or does not know such an object as a frame. Rows
    that are only promised are computed.
    """
    # An object of NumPy's or Python's own is no frame: nothing is imported for it.
    package = type(data).__module__.partition(".")[0]
    if package in ("builtins", "numpy", "collections"):
        return None
    try:
        import narwhals as nw
    except ImportError:
        return None
    frame = nw.from_native(data, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if not isinstance(frame, nw.DataFrame):
        return None
    known = ("pandas", "polars", "pyarrow")
    return (
        frame.to_native() if frame.implementation.value in known else frame.to_arrow()
    )
