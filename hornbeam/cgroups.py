"""The control groups (cgroups) of this process, which limit its resources."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

__all__ = ["group_folders", "read"]


def group_folders(controller: str) -> Iterator[tuple[int, str]]:
    """Yield (version, folder) of each control group of this process.

    Parameters
    ----------
    controller
        ``"memory"`` or ``"cpu"``. The file names of versions 1 and 2 differ.
    """
    groups = ""
    with suppress(OSError):
        groups = read("/proc/self/cgroup")
    for line in groups.splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            version, root = 2, "/sys/fs/cgroup"
        elif controller in controllers.split(","):
            version, root = 1, f"/sys/fs/cgroup/{controller}"
        else:
            continue
        own = PurePosixPath(group)
        for folder in (own, *own.parents):
            # Inside of a container, the group of the container is the root.
            yield version, f"{root}/{folder.relative_to('/')}"


def read(path: str) -> str:
    """Return the text of a system file."""
    return Path(path).read_text(encoding="ascii")
