"""What is made of released values reaches nothing private: neither when it is loaded nor by a parameter's type."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOM = Path(__file__).parents[2] / "src" / "gaussveil" / "postprocessing"
LOAD = """
import sys
from importlib import import_module
for name in {names}:
    import_module(f"gaussveil.postprocessing.{{name}}")
print(*sorted({{module.split(".")[1] for module in sys.modules if module.startswith("gaussveil.")}}))
"""
PRIVATE = {"Source", "Reader", "Records", "Generator", "SecureGenerator", "SeededGenerator", "Ledger", "Account"}


def test_loading_it_loads_no_records_no_engine_and_no_noise() -> None:
    names = sorted(path.stem for path in ROOM.glob("*.py") if path.stem != "__init__")
    code = LOAD.format(names=names)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {"postprocessing", "calibration"} <= loaded  # the names are those of rooms
    assert not loaded & {"audit", "engines", "mechanisms", "noise", "statistics", "streaming"}


def test_no_parameter_is_a_record_a_generator_or_an_account() -> None:
    for path in ROOM.glob("*.py"):
        names = {node.id for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Name)}
        assert not names & PRIVATE, path.name
