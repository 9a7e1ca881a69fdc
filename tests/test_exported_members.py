from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import gaussveil

PACKAGE = Path(gaussveil.__file__).parent
LAZY = sorted(".".join(stub.relative_to(PACKAGE.parent).parts[:-1]) for stub in PACKAGE.rglob("__init__.pyi"))


def fresh_interpreter(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def listed(package: str) -> dict[str, str]:
    """Every export of a package by its stub, with the module it comes from."""
    stub = PACKAGE.parent.joinpath(*package.split("."), "__init__.pyi")
    return {line.split()[-1]: line.split()[1] for line in stub.read_text(encoding="utf-8").splitlines()}


@pytest.mark.parametrize("package", LAZY)
def test_a_package_exports_what_its_stub_lists_and_nothing_else(package: str) -> None:
    module, names = import_module(package), listed(package)
    assert module.__all__ == sorted(names)
    assert set(names) <= set(dir(module))
    for name, home in names.items():
        assert getattr(module, name) is getattr(sys.modules[home], name)


@pytest.mark.parametrize("package", LAZY)
def test_no_module_takes_the_place_of_an_export_of_its_name(package: str) -> None:
    files = {path.stem for path in PACKAGE.parent.joinpath(*package.split(".")).iterdir()}
    assert files.isdisjoint(listed(package))


def test_the_front_door_is_lazy() -> None:
    assert LAZY[0] == "gaussveil"
    loaded = fresh_interpreter(
        "import sys, gaussveil; print(*(m for m in ('numpy', 'scipy', 'flint') if m in sys.modules))"
    )
    assert loaded == ""


def test_star_import_gives_exactly_the_exports() -> None:
    names: dict[str, object] = {}
    exec("from gaussveil import *", names)  # here, where most of it is loaded: a new process loads all for this alone
    assert {name for name in names if name[:2] != "__"} == set(gaussveil.__all__) - {"__version__"}


def test_unknown_names_are_refused_with_the_list_of_exports() -> None:
    message = fresh_interpreter(
        "import gaussveil\ntry:\n    gaussveil.GausianPair\nexcept AttributeError as error:\n    print(error)"
    )
    assert "GausianPair" in message
    assert "GaussianPair" in message
