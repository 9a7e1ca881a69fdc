from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import gaussveil


def fresh_interpreter(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def names_for_type_checkers() -> dict[str, str]:
    tree = ast.parse(Path(gaussveil.__file__).read_text(encoding="utf-8"))
    blocks = [n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    return {
        (alias.asname or alias.name): str(statement.module)
        for block in blocks
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }


def test_every_export_can_be_imported_and_is_the_one_of_its_module() -> None:
    for name, module in gaussveil._EXPORTS.items():
        exported = getattr(gaussveil, name)
        assert exported is getattr(sys.modules[module], name)


def test_all_is_sorted_and_is_the_table_plus_the_version() -> None:
    assert set(gaussveil.__all__) == {*gaussveil._EXPORTS, "__version__"}
    assert len(gaussveil.__all__) == len(set(gaussveil.__all__))
    assert set(gaussveil.__all__) <= set(dir(gaussveil))


def test_type_checkers_see_the_same_names_from_the_same_modules() -> None:
    assert names_for_type_checkers() == gaussveil._EXPORTS


def test_import_is_lazy() -> None:
    loaded = fresh_interpreter(
        "import sys, gaussveil; print(*(m for m in ('numpy', 'scipy', 'flint') if m in sys.modules))"
    )
    assert loaded == ""


def test_star_import_gives_exactly_the_exports() -> None:
    names = fresh_interpreter("from gaussveil import *; print(*sorted(n for n in dir() if n[:2] != '__'))")
    assert names.split() == sorted(gaussveil._EXPORTS)


def test_unknown_names_are_refused_with_the_list_of_exports() -> None:
    message = fresh_interpreter(
        "import gaussveil\ntry:\n    gaussveil.GausianPair\nexcept AttributeError as error:\n    print(error)"
    )
    assert "GausianPair" in message
    assert "GaussianPair" in message
