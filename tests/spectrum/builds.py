"""Builds of the kernel that this processor runs: each width of its vectors, products and sums fused or not, and none.

A machine has one processor. What another one, or another compiler, would compute is seen by compiling for it here.
"""

from __future__ import annotations

import ctypes
import os
import platform
import runpy
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from functools import _lru_cache_wrapper
from pathlib import Path
from typing import Any

HATCH_BUILD = Path(__file__).parents[2] / "hatch_build.py"
WIDTHS: dict[str, dict[str, list[str]]] = {  # of an architecture: the compiler's options
    "x86_64": {"sse2": [], "avx2": ["-mavx2", "-mfma"], "avx512": ["-mavx2", "-mfma", "-mavx512f"]},
    "aarch64": {"neon": []},
}
NEEDED = {"avx2": {"avx2", "fma"}, "avx512": {"avx2", "fma", "avx512f"}}  # what the processor must list


def builds() -> dict[str, list[str]]:
    """Options of every build that this machine can make and run, by name; without a compiler there is none."""
    if shutil.which(os.environ.get("CC", "cc")) is None:
        return {}
    present = set(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    found = {}
    for width, options in WIDTHS.get(platform.machine(), {}).items():
        if NEEDED.get(width, set()) <= present:
            found[width] = [*options, "-ffp-contract=off"]
            if width != "sse2":  # which cannot fuse
                found[f"{width}-fused"] = [*options, "-ffp-contract=fast"]
    return found


class CountedLibrary:
    """A compiled kernel that counts how often each of its entries is called."""

    def __init__(self, file: Path) -> None:
        self._library, self.calls = ctypes.CDLL(str(file)), Counter[str]()

    def __getattr__(self, name: str) -> Any:
        self.calls[name] += 1
        return getattr(self._library, name)

    __getitem__ = __getattr__


def compiled(name: str, folder: Path, *, optimised: bool) -> CountedLibrary:
    """A build, as the package's own hook makes it; quickly, or with all of its optimisation."""
    hook = runpy.run_path(str(HATCH_BUILD))
    options = [one for one in hook["OPTIONS"] if not one.startswith("-ffp-contract")]
    if not optimised:
        options = ["-O1", *(one for one in options if one != "-O2")]
    file = folder / f"kernel-{name}.so"
    assert hook["compile_kernel"](file, options + builds()[name], [[]])
    return CountedLibrary(file)


def forget() -> None:
    """Empty what the spectrum remembers of earlier answers, so that another build finds its own."""
    for name, module in list(sys.modules.items()):
        if name.startswith("gaussveil.spectrum"):
            for one in list(vars(module).values()):
                if isinstance(one, _lru_cache_wrapper) and not is_choice(one):
                    one.cache_clear()


def is_choice(function: Callable[..., Any]) -> bool:
    """Whether it remembers a module or its sources instead of a number."""
    return getattr(function, "__module__", "") in ("gaussveil.spectrum.selection", "gaussveil.spectrum.native.source")
