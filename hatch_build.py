"""Compile the kernel when the package is built or installed in place; without a C compiler the package is pure Python.

`python hatch_build.py` compiles it beside its sources (`make native`).
"""

from __future__ import annotations

import os
import platform
import runpy
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # called as a script
    BuildHookInterface = object

NATIVE = Path(__file__).parent / "src" / "gaussveil" / "spectrum" / "native"
LIBRARY = NATIVE / "kernel.so"
# Products and sums are fused where every machine can (kernel.c guards its one exact product, there alone); nobody reads
# errno or floating-point flags.
FUSED = "fast" if platform.machine() == "aarch64" else "off"
OPTIONS = ["-O3", "-std=gnu11", f"-ffp-contract={FUSED}", "-fno-math-errno", "-fno-trapping-math"]
OPTIONS += ["-Wno-psabi", "-shared", "-fPIC"]


def compile_kernel() -> bool:
    """Whether the library now lies beside its sources."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if sys.platform != "linux" or compiler is None:
        return False
    revision = runpy.run_path(str(NATIVE / "source.py"))["revision"]()
    fresh = LIBRARY.with_suffix(f".{os.getpid()}")
    command = [compiler, *OPTIONS, f'-DREVISION="{revision}"', str(NATIVE / "kernel.c"), "-o", str(fresh), "-lm"]
    if subprocess.run(command, check=False).returncode:
        return False
    fresh.replace(LIBRARY)  # a process that has loaded the old one keeps it
    return True


class KernelBuildHook(BuildHookInterface):  # type: ignore[misc, valid-type]
    """Adds the compiled kernel to wheels and to installations in place."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say for which machine the wheel is."""
        if self.target_name == "wheel" and compile_kernel():
            build_data["artifacts"].append(str(LIBRARY.relative_to(Path(__file__).parent)))
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


if __name__ == "__main__":
    sys.exit(0 if compile_kernel() else "no C compiler was found, or it failed: the kernel stays pure Python")
