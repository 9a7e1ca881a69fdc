"""The independent verifier, from its file: it is no part of the package."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

SOURCE = Path(__file__).parents[1] / "verifier" / "gaussveil_verifier.py"


@cache
def independent() -> ModuleType:
    """The module of the program."""
    specification = importlib.util.spec_from_file_location("gaussveil_verifier", SOURCE)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module
