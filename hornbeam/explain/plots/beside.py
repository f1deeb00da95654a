"""Room beside what is drawn, for how values are distributed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["axes_beside"]


def axes_beside(ax: Axes, side: str = "right", share: float = 0.18) -> Axes:
    """Take a part of the axes away for others, which are returned.

    They have the same scale along the common side, and no numbers and lines.

    Parameters
    ----------
    ax
        What becomes smaller.
    side
        Where the new ones are: ``"right"`` or ``"top"``.
    share
        Their size, of that of `ax`.
    """
    from mpl_toolkits.axes_grid1 import make_axes_locatable

    current = ax.figure.gca()
    shared = {"sharey": ax} if side == "right" else {"sharex": ax}
    beside = make_axes_locatable(ax).append_axes(
        side, size=f"{100 * share:g}%", pad=0.06, **shared
    )
    beside.set_axis_off()
    ax.figure.sca(current)
    return beside
