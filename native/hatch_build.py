"""Puts the native binary into a wheel: the build hook of pyproject.toml.

`make wheel` builds the binary, and names it in HORNBEAM_BINARY. Without that the wheel
is for every platform, and kernels are compiled by Numba.
"""

from __future__ import annotations

import os
import platform
import zipfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: The binary needs functions of the C library that all versions have.
_TAG = "cp311-abi3-manylinux_2_17_{}"


class NativeHook(BuildHookInterface):
    """Adds the binary and its tags to a wheel, which it then makes small."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the binary among the files of the wheel; see Hatchling's interface."""
        binary = os.environ.get("HORNBEAM_BINARY")
        if binary and self.target_name == "wheel" and version == "standard":
            name = os.path.basename(binary)
            build_data["force_include"][binary] = f"hornbeam/kernels/{name}"
            build_data["pure_python"] = False
            build_data["tag"] = _TAG.format(platform.machine())

    def finalize(
        self, version: str, build_data: dict[str, Any], artifact_path: str
    ) -> None:
        """Compress the files of a wheel with a binary again, as small as they get."""
        if build_data["pure_python"] or self.target_name != "wheel":
            return
        from zopfli import ZipFile

        wheel = Path(artifact_path)
        smaller = wheel.with_suffix(".new")
        with (
            zipfile.ZipFile(wheel) as source,
            ZipFile(smaller, "w", iterations=1) as target,
        ):
            for file in source.infolist():
                target.writestr(file, source.read(file))
        smaller.replace(wheel)
