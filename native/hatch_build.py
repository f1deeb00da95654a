"""Puts the native binary into a wheel: the build hook of pyproject.toml.

`make wheel` builds the binary, and names it in HORNBEAM_BINARY. Without that the wheel
is for every platform, and kernels are compiled by Numba.
"""

from __future__ import annotations

import os
import platform
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: The binary needs functions of the C library that all versions have.
_TAG = "cp311-abi3-manylinux_2_17_{}"


class NativeHook(BuildHookInterface):
    """Adds the binary and its tags to a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the binary among the files of the wheel; see Hatchling's interface."""
        binary = os.environ.get("HORNBEAM_BINARY")
        if binary and self.target_name == "wheel" and version == "standard":
            name = os.path.basename(binary)
            build_data["force_include"][binary] = f"hornbeam/kernels/{name}"
            build_data["pure_python"] = False
            build_data["tag"] = _TAG.format(platform.machine())
