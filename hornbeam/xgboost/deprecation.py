"""Positional arguments that XGBoost has deprecated in favour of keyword arguments."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

__all__ = ["deprecate_positional_args", "require_keyword_args"]

T = TypeVar("T")


def require_keyword_args(
    error: bool,
) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Return a decorator for functions whose keyword-only arguments were positional.

    Parameters
    ----------
    error
        Whether such an argument given by position raises a `TypeError`. If not, it is
        accepted with a `FutureWarning`.
    """

    def decorate(function: Callable[..., T]) -> Callable[..., T]:
        parameters = inspect.signature(function).parameters.values()
        positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        keyword_only = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
        n_positional = len(positional)

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> T:
            if len(args) <= n_positional:
                return function(*args, **kwargs)
            extra = args[n_positional:]
            if not positional:
                raise TypeError("Keyword argument is required.")
            if len(extra) > len(keyword_only):
                # Python raises its own error for too many arguments.
                return function(*args, **kwargs)
            named = dict(zip(keyword_only, extra, strict=False))
            message = f"Pass `{', '.join(named)}` as keyword args."
            if error:
                raise TypeError(message)
            warnings.warn(message, FutureWarning, stacklevel=2)
            return function(*args[:n_positional], **named, **kwargs)

        return call

    return decorate


#: The decorator of functions that accept deprecated positional arguments.
deprecate_positional_args = require_keyword_args(error=False)
