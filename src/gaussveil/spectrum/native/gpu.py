"""The kernel in C on an NVIDIA GPU, for arrays of PyTorch or CuPy that lie there: one thread for each pair.

The same source as on the CPU, compiled by NVIDIA's runtime compiler (which comes with either library) when the first
array of a size arrives. Importing fails where driver or compiler are absent: the array libraries then do the work.
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from array_api_compat import is_torch_array

from gaussveil.spectrum.native.source import Integrals, Reductions, source
from gaussveil.spectrum.rules import Region
from gaussveil.spectrum.selection import array_namespace
from gaussveil.spectrum.terms import Terms
from gaussveil.typing import Array

MOST_TERMS = 64  # of one loss, whose terms a thread keeps to itself
MOST_DIMENSIONS = 32  # of one pair of matrices, likewise
CAPACITIES = (
    8,
    16,
    32,
    64,
)  # what is compiled for: a program for each would be too many to wait for
THREADS = 128
CAPABILITY = (
    75,
    76,
)  # the driver's numbers for the two parts of the compute capability


def _loaded(names: Iterable[str | Path]) -> ctypes.CDLL:
    for name in names:
        try:
            return ctypes.CDLL(str(name))
        except OSError:
            continue
    raise ImportError("NVIDIA's driver or its runtime compiler is not at hand")


def _compilers() -> Iterable[str | Path]:
    """Where the runtime compiler may lie: on the library path, in a package of NVIDIA's, in CUDA's own folder."""
    yield from (f"libnvrtc.so.{major}" for major in (13, 12))
    package = importlib.util.find_spec("nvidia")
    for folder in package.submodule_search_locations or () if package else ():
        yield from sorted(Path(folder).glob("**/libnvrtc.so.*"), reverse=True)
    yield from sorted(Path("/usr/local").glob("cuda*/**/libnvrtc.so.*"), reverse=True)


_DRIVER = _loaded(["libcuda.so.1"])
_COMPILER = _loaded(_compilers())


def _done(status: int) -> None:
    if status:
        raise RuntimeError(f"NVIDIA's driver or compiler gave status {status}")


def _attribute(number: int, device: int) -> int:
    value = ctypes.c_int()
    _done(_DRIVER.cuDeviceGetAttribute(ctypes.byref(value), number, device))
    return value.value


@cache
def _entry(name: str, capacity: int, device: int) -> ctypes.c_void_p:
    """An entry point compiled for at most so many terms and this device."""
    context = ctypes.c_void_p()
    module = ctypes.c_void_p()
    entry = ctypes.c_void_p()
    _done(_DRIVER.cuInit(0))
    _done(_DRIVER.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    _done(_DRIVER.cuCtxSetCurrent(context))
    image = _compiled(
        capacity, "".join(str(_attribute(number, device)) for number in CAPABILITY)
    )
    _done(_DRIVER.cuModuleLoadData(ctypes.byref(module), image))
    _done(_DRIVER.cuModuleGetFunction(ctypes.byref(entry), module, name.encode()))
    return entry


@cache
def _compiled(capacity: int, capability: str) -> bytes:
    program = ctypes.c_void_p()
    size = ctypes.c_size_t()
    options = [
        f"--gpu-architecture=sm_{capability}",
        "--fmad=false",
        f"-DMOST_TERMS={capacity}",
    ]
    _done(
        _COMPILER.nvrtcCreateProgram(
            ctypes.byref(program), source().encode(), b"kernel.cu", 0, None, None
        )
    )
    arguments = (ctypes.c_char_p * len(options))(
        *(option.encode() for option in options)
    )
    if _COMPILER.nvrtcCompileProgram(program, len(options), arguments):
        _done(_COMPILER.nvrtcGetProgramLogSize(program, ctypes.byref(size)))
        log = ctypes.create_string_buffer(size.value)
        _done(_COMPILER.nvrtcGetProgramLog(program, log))
        raise RuntimeError(
            f"the kernel does not compile for this GPU: {log.value.decode()}"
        )
    _done(_COMPILER.nvrtcGetCUBINSize(program, ctypes.byref(size)))
    image = ctypes.create_string_buffer(size.value)
    _done(_COMPILER.nvrtcGetCUBIN(program, image))
    _done(_COMPILER.nvrtcDestroyProgram(ctypes.byref(program)))
    return image.raw


def _run(name: str, terms: int, job: ctypes.Structure, rows: int, like: Array) -> None:
    """One thread for each row, on the array's device and the stream in which its library works."""
    device, stream = _place(like)
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(job))
    grid = (-(-rows // THREADS), 1, 1)
    entry = _entry(
        name, next(capacity for capacity in CAPACITIES if terms <= capacity), device
    )
    _done(
        _DRIVER.cuLaunchKernel(
            entry, *grid, THREADS, 1, 1, 0, ctypes.c_void_p(stream), arguments, None
        )
    )


def _place(array: Any) -> tuple[int, int]:
    if is_torch_array(array):
        return array.device.index, sys.modules["torch"].cuda.current_stream(
            array.device
        ).cuda_stream
    return array.device.id, sys.modules["cupy"].cuda.get_current_stream().ptr


def _address(array: Any) -> int:
    address: int
    if is_torch_array(array):
        address = array.data_ptr()
    else:
        address = array.data.ptr
    return address


def _contiguous(array: Any) -> Array:
    if is_torch_array(array):
        return array.contiguous()
    return array_namespace(array).asarray(array, order="C")


def log_hockey_stick(terms: Terms, threshold: Array) -> tuple[Array, ...]:
    """`contour.log_hockey_stick`: values, slopes and errors."""
    return _integrals(terms, threshold, False, 0.0, 0.0)


def integrate(terms: Terms, threshold: Array, region: Region) -> tuple[Array, ...]:
    """`contour.integrate` for regions next to their only pole."""
    (pole,) = region.poles
    return _integrals(terms, threshold, True, pole, region.direction)


def _integrals(
    terms: Terms, threshold: Array, tail: bool, pole: float, direction: float
) -> tuple[Array, ...]:
    xp = array_namespace(threshold)
    columns = [_contiguous(column) for column in (*terms.columns(), threshold)]
    outputs = tuple(xp.empty_like(columns[-1]) for _ in range(3))
    rows, count = columns[0].shape
    job = Integrals(
        *(_address(array) for array in (*columns, *outputs)),
        *(threshold.shape[0], count if rows > 1 else 0, count, tail, pole, direction),
    )
    _run("integrals", count, job, threshold.shape[0], threshold)
    return outputs


def reduce_rows(*matrices: Array) -> tuple[Array, ...]:
    """As of `cpu`: gaps, logs of variance ratios, mean gaps, strains, and a mask of the rows that are left alone."""
    xp = array_namespace(*matrices)
    inputs = [_contiguous(matrix) for matrix in matrices]
    rows, size = inputs[0].shape
    gap, log_ratio, mean_gap = (xp.empty_like(inputs[0]) for _ in range(3))
    strain = xp.empty((rows,), dtype=xp.float64, device=inputs[0].device)
    left = xp.empty((rows,), dtype=xp.bool, device=inputs[0].device)
    outputs = (gap, log_ratio, mean_gap, strain, left)
    places = (_address(array) for array in (*inputs, *outputs))
    _run("reductions", size, Reductions(*places, rows, size), rows, inputs[0])
    return outputs
