"""What a package exports, imported on first use; the stub beside the package is the one list of it.

A line of the stub, ``from gaussveil.spectrum import PrivacyLoss as PrivacyLoss``, tells type checkers where a name is
and tells the package where to fetch it (PEP 562), so nothing is loaded before somebody asks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from os.path import splitext


def lazy_exports(
    package: str, file: str
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """The module's ``__getattr__``, ``__dir__`` and ``__all__``, from the stub beside `file`."""
    with open(f"{splitext(file)[0]}.pyi", encoding="utf-8") as stub:
        words = [line.split() for line in stub if line.startswith("from gaussveil")]
    homes = {name: home for _, home, _, _, _, name in words}

    def fetch(name: str) -> object:
        if name not in homes:
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}; it exports {', '.join(sorted(homes))}"
            )
        try:
            value: object = getattr(import_module(homes[name]), name)
        except ModuleNotFoundError as error:
            raise missing(name, error) from error
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        own = (name for name in vars(sys.modules[package]) if name.startswith("__"))
        return sorted({*own, *homes})

    return fetch, names, sorted(homes)


def missing(wanted: str, error: ModuleNotFoundError) -> ImportError:
    """One sentence on what to install where a package outside the light core is not there."""
    from gaussveil.errors import MissingDependencyError, install

    module = (error.name or "").partition(".")[0]
    if module in {"", "gaussveil"} or isinstance(error, MissingDependencyError):
        return error
    return MissingDependencyError(f"{wanted} needs {module}: {install('standard')}")
