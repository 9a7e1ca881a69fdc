"""Google's dp_accounting, which is optional: it is imported when it is needed."""

from __future__ import annotations

from types import ModuleType

from gaussveil.errors import (
    MissingDependencyError,
    install,
)


def event_library() -> ModuleType:
    """The module of its kinds of events, some of which are found there only; refused where it is missing."""
    try:
        from dp_accounting import dp_event
    except ImportError as error:
        raise MissingDependencyError(
            f"exchange needs dp_accounting: {install('exchange')}"
        ) from error
    module: ModuleType = dp_event
    return module
