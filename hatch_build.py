"""Compile the kernel when the package is built or installed in place; without a C compiler the package is pure Python.

`python hatch_build.py` compiles it beside its sources (`make native`). For packages of other machines GAUSSVEIL_MACHINE
names one that the compiler CC makes programs for (aarch64), or `none`: pure Python for every machine.
"""

from __future__ import annotations

import os
import platform
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # called as a script
    BuildHookInterface = object

NATIVE = Path(__file__).parent / "src" / "gaussveil" / "spectrum" / "native"
LIBRARY = NATIVE / "kernel.so"
MACHINE = os.environ.get("GAUSSVEIL_MACHINE") or platform.machine()
# Products and sums are fused where every machine can (kernel.c guards its one exact product, there alone); nobody reads
# errno or floating-point flags. -O3 would take twice the time to compile and buys nothing.
FUSED = "fast" if MACHINE == "aarch64" else "off"
OPTIONS = [
    "-O2",
    "-ftree-vectorize",
    "-fvect-cost-model=dynamic",
    "-std=gnu11",
    f"-ffp-contract={FUSED}",
]
OPTIONS += ["-fno-math-errno", "-fno-trapping-math", "-Wno-psabi", "-fPIC"]
# GCC 12 fuses pairs of statements that it finds alike (x y - z, x y + z) whatever is said of contraction.
OPTIONS += ["-fno-tree-slp-vectorize"]
# The objects of the library: on x86_64 one for every processor, which calls the other where there is AVX2. AVX-512 is
# no faster: its blocks would have to be wider, and the loops are too short for that.
OBJECTS = (
    [["-DBESIDE_WIDE"], ["-DWIDE", "-mavx2", "-mfma"]]
    if MACHINE in ("x86_64", "AMD64")
    else [[]]
)
NOTICE = "compiling the kernel in C, some ten seconds of processor time; a wheel brings it compiled"


def compile_kernel(
    library: Path = LIBRARY,
    options: list[str] = OPTIONS,
    objects: list[list[str]] = OBJECTS,
) -> bool:
    """Whether the library now lies beside its sources, or where it was asked for."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if sys.platform != "linux" or compiler is None or MACHINE == "none":
        return False
    revision = runpy.run_path(str(NATIVE / "source.py"))["revision"]()
    command = [
        compiler,
        *options,
        f'-DREVISION="{revision}"',
        "-c",
        str(NATIVE / "kernel.c"),
        "-o",
    ]
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        parts = [f"{folder}/{number}.o" for number in range(len(objects))]
        at_work = [
            subprocess.Popen([*command, part, *own])
            for part, own in zip(parts, objects)
        ]
        statuses = [process.wait() for process in at_work]
        if any(statuses):
            return False
        fresh = Path(folder) / library.name
        if subprocess.run(
            [compiler, *options, "-shared", *parts, "-o", str(fresh), "-lm"],
            check=False,
        ).returncode:
            return False
        fresh.replace(library)  # a process that has loaded the old one keeps it
    return True


class KernelBuildHook(BuildHookInterface):  # type: ignore[misc, valid-type]
    """Adds the compiled kernel to wheels and to installations in place."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say for which machine the wheel is."""
        if self.target_name != "wheel":
            return
        self.app.display_info(NOTICE)
        if compile_kernel():
            build_data["artifacts"].append(
                str(LIBRARY.relative_to(Path(__file__).parent))
            )
            build_data["pure_python"] = False
            system = sysconfig.get_platform().replace(platform.machine(), MACHINE)
            build_data["tag"] = f"py3-none-{system.replace('-', '_').replace('.', '_')}"


if __name__ == "__main__":
    print(NOTICE, flush=True)
    sys.exit(
        0
        if compile_kernel()
        else "no C compiler was found, or it failed: the kernel stays pure Python"
    )
