"""The machine code of the kernels that a wheel contains.

A wheel for a common processor has the binary ``_native``: each kernel, for each
signature that Hornbeam calls it with and for each CPU level, behind a layer in C that
takes the arguments from Python. It was made from these sources by the same compiler
that compiles kernels elsewhere. A binary that does not fit is not used, which a warning
says.
"""

from __future__ import annotations

import os
import platform
import warnings
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from hornbeam.errors import ErrorCode, HornbeamError
from hornbeam.kernels.sources import FOLDER, sources_digest

__all__ = ["BINARY", "LAST_BYTES", "STRICT", "VARIABLE", "load"]

#: The binary of a wheel.
BINARY = FOLDER / "_native.abi3.so"
#: How its file ends.
LAST_BYTES = b"the end of the machine code of Hornbeam"
#: The environment variable by which a user chooses: "native" never compiles, and "jit"
#: does not use the binary.
VARIABLE = "HORNBEAM_KERNELS"
#: The environment variable with the highest CPU level to use: of x86-64 "v2", "v3" or
#: "v4", of aarch64 "v8".
_LEVEL = "HORNBEAM_CPU_LEVEL"

_choice = os.environ.get(VARIABLE, "")
#: Whether a call without machine code is an error also where Numba could compile it.
STRICT = _choice == "native"


def load() -> ModuleType | None:
    """Return the binary, or None if the kernels are to be compiled.

    Its ``level`` is the name of the CPU level whose code it runs.

    Raises
    ------
    HornbeamError
        If there is no binary that fits, and Numba is not installed or not wanted.
    """
    if _choice not in ("", "native", "jit"):
        raise HornbeamError(
            f'{VARIABLE}={_choice!r} is not known; write "native" or "jit", or leave '
            "the variable out",
            code=ErrorCode.INVALID_PARAMETER,
        )
    if (level := os.environ.get(_LEVEL, "")) not in ("", "v2", "v3", "v4", "v8"):
        raise HornbeamError(
            f'{_LEVEL}={level!r} is not known; write "v2", "v3" or "v4", or leave the '
            "variable out",
            code=ErrorCode.INVALID_PARAMETER,
        )
    if _choice == "jit":
        return None
    binary, fault = _fitting()
    if binary is not None:
        return binary
    if STRICT or find_spec("numba") is None:
        raise HornbeamError(
            f"the kernels have no machine code: {fault or 'this is not a binary wheel'}"
            '; install a binary wheel, or Numba: pip install "hornbeam[jit]"',
            code=ErrorCode.MISSING_KERNEL,
        )
    if fault:
        warnings.warn(
            f"the kernels are compiled by Numba: {fault}", RuntimeWarning, stacklevel=2
        )
    return None


def _fitting() -> tuple[ModuleType | None, str]:
    """Return the binary if it fits, and else what is wrong with it."""
    try:
        with BINARY.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - len(LAST_BYTES)))
            is_complete = file.read() == LAST_BYTES
    except FileNotFoundError:
        return None, ""
    except OSError as error:
        return None, f"the binary cannot be read ({error})"
    # To load a part of a binary could end the process.
    if not is_complete:
        return None, "the binary is not complete"
    try:
        binary = import_module("hornbeam.kernels._native")
    except ImportError as error:
        return None, f"the binary does not load ({error})"
    if binary.sources != sources_digest(None):
        return None, "the binary was made from other sources"
    binary.level = binary.choose_level(os.environ.get(_LEVEL, ""))
    if not binary.level:
        return None, f"the binary has no code for this processor ({platform.machine()})"
    return binary, ""
