"""Arguments by name: what XGBoost still takes by place, with a warning."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

__all__ = ["require_keyword_args"]

T = TypeVar("T")


def require_keyword_args(
    error: bool,
) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Return a decorator for functions whose arguments after ``*`` came by place once.

    Given by place, they are an error, or taken with a `FutureWarning`.
    """

    def decorate(function: Callable[..., T]) -> Callable[..., T]:
        parameters = inspect.signature(function).parameters.values()
        by_place = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        by_name = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
        most = len(by_place)

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> T:
            if len(args) <= most:
                return function(*args, **kwargs)
            beyond = args[most:]
            if not by_place:
                raise TypeError("Keyword argument is required.")
            # As Python itself does with too many of them.
            if len(beyond) > len(by_name):
                return function(*args, **kwargs)
            named = dict(zip(by_name, beyond, strict=False))
            message = f"Pass `{', '.join(named)}` as keyword args."
            if error:
                raise TypeError(message)
            warnings.warn(message, FutureWarning, stacklevel=2)
            return function(*args[:most], **named, **kwargs)

        return call

    return decorate
