"""Write every mechanism into the stubs that the packages export from: a mechanism is named in its own file alone.

python scripts/write_exports.py           # `make format` does it
python scripts/write_exports.py --check   # ends with 1 where a line is missing
"""

from __future__ import annotations

import inspect
import pkgutil
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import gaussveil.mechanisms
from gaussveil.mechanisms.release_path import Mechanism

PACKAGE = Path(gaussveil.__path__[0])


def mechanisms() -> Iterator[type[Mechanism]]:
    """Every concrete mechanism of the library; names that begin with _ are parts of others."""
    for module in pkgutil.walk_packages(gaussveil.mechanisms.__path__, "gaussveil.mechanisms."):
        import_module(module.name)
    found = [Mechanism]
    while found:
        kind = found.pop()
        found += kind.__subclasses__()
        inside = kind.__module__.startswith("gaussveil.") and not kind.__name__.startswith("_")
        if inside and kind is not Mechanism and not inspect.isabstract(kind):
            yield kind


def written() -> dict[Path, str]:
    """What the two stubs should say: what they say already, and a line for every mechanism, in order."""
    listed = list(mechanisms())
    wanted = {
        PACKAGE / "mechanisms" / "__init__.pyi": [(kind.__module__, kind.__name__) for kind in listed],
        PACKAGE / "__init__.pyi": [("gaussveil.mechanisms", kind.__name__) for kind in listed],
    }
    texts = {}
    for stub, lines in wanted.items():
        there = stub.read_text(encoding="utf-8").splitlines()
        known = {line.split()[-1] for line in there}
        there += [f"from {home} import {name} as {name}" for home, name in lines if name not in known]
        # as ruff sorts them: by module, then constants, classes, functions
        order = {line: (line.split()[1], _kind(line.split()[-1]), line.split()[-1]) for line in there}
        texts[stub] = "\n".join(sorted(there, key=order.__getitem__)) + "\n"
    return texts


def _kind(name: str) -> int:
    return 0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2


if __name__ == "__main__":
    stale = {stub: text for stub, text in written().items() if stub.read_text(encoding="utf-8") != text}
    if "--check" not in sys.argv:
        for stub, text in stale.items():
            stub.write_text(text, encoding="utf-8")
    elif stale:
        sys.exit(f"run scripts/write_exports.py: {', '.join(stub.parent.name for stub in stale)} lacks a mechanism")
