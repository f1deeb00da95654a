"""The exceptions. Each message says what was wrong, where, and how to mend it."""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = [
    "ClusterError",
    "DataError",
    "HornbeamError",
    "MissingExtraError",
    "ModelFileError",
    "NotTrainedError",
    "ParameterError",
    "require",
]


class HornbeamError(ValueError):
    """Base of every error that Hornbeam raises for something a caller can mend."""


class ParameterError(HornbeamError):
    """A parameter is unknown, out of its range, or in conflict with another."""


class DataError(HornbeamError):
    """Features, labels, weights or margins cannot be used as they are."""


class ModelFileError(HornbeamError):
    """A model file is broken, edited, or holds what Hornbeam cannot represent."""


class NotTrainedError(HornbeamError):
    """A model was asked for something that needs training first."""


class ClusterError(HornbeamError):
    """A cluster has lost what a training needs: its scheduler, all workers, or data."""


class MissingExtraError(HornbeamError, ImportError):
    """An optional dependency is not installed; the message names the extra."""


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Return the imported `module`, or raise an error that names its extra.

    Parameters
    ----------
    module
        Dotted name, such as ``"matplotlib.pyplot"``.
    extra
        The extra of Hornbeam that installs it.
    purpose
        What it is needed for, as the subject of a sentence.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtraError(
            f"{purpose} needs the package {package!r}, which is not installed; "
            f'install it with: pip install "hornbeam[{extra}]"'
        ) from error
