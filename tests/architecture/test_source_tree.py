"""Habits that no linter checks: short files, plain names, no private paths, one home for randomness."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "gaussveil"
MODULES = sorted(PACKAGE.rglob("*.py"))
STUDIO = sorted((ROOT / "studio" / "gaussveil_studio").rglob("*.py"))
TOWN = sorted((ROOT / "town" / "gaussveil_town").rglob("*.py"))
STUDIES = sorted((ROOT / "studies" / "gaussveil_studies").rglob("*.py"))
LAYERS = [
    ("command",),
    ("cli",),
    ("report",),
    ("streaming",),
    ("mechanisms", "audit", "engines"),
    ("postprocessing",),
    ("accounting",),
    ("calibration", "timeseries", "noise", "statistics"),
    ("spectrum",),
    ("shown",),
    ("project_file",),
    ("checks", "containers", "figure_style", "files", "lazy_exports"),
    ("errors", "logs", "typing", "version"),
]


def name_of(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


@cache
def parsed(path: Path) -> tuple[str, ast.Module]:
    text = path.read_text(encoding="utf-8")
    return text, ast.parse(text)


def sources() -> Iterator[tuple[Path, str, ast.Module]]:
    for path in [*MODULES, *STUDIO, *TOWN, *STUDIES]:
        yield path.relative_to(ROOT), *parsed(path)


def identifiers(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name


def test_files_are_short_typed_ahead_and_plainly_named() -> None:
    for path, text, tree in sources():
        assert len(text.splitlines()) <= 400, f"split {path} along its ideas"
        assert path.stem not in {"utils", "common", "misc", "helpers"}
        assert all(identifier.isascii() for identifier in identifiers(tree)), f"no Greek letters in code: {path}"
        if any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in tree.body):
            assert "from __future__ import annotations" in text, path


def test_no_silenced_errors_and_nothing_left_to_do() -> None:
    for path, text, tree in sources():
        assert not re.search(r"\bTODO\b|\bFIXME\b|\bXXX\b|# noqa|# fmt: ", text), path
        for node in ast.walk(tree):
            # Catching everything is for cleaning up before the same error goes on, never for going on without it.
            if isinstance(node, ast.ExceptHandler) and not isinstance(node.body[-1], ast.Raise):
                caught = "" if node.type is None else ast.unparse(node.type)
                assert caught not in {"", "Exception", "BaseException"}, f"{path}:{node.lineno} catches everything"


def rooms_imported(path: Path) -> Iterator[str]:
    for node in ast.walk(parsed(path)[1]):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("gaussveil."):
            yield node.module.split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith("gaussveil."))


def test_import_linter_knows_the_same_layers_and_every_room() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ][0]
    assert [tuple(re.findall(r"\w+", layer)) for layer in contract["layers"]] == LAYERS
    rooms = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in MODULES} - {"__init__"}
    assert rooms <= {room for layer in LAYERS for room in layer}


def test_imports_go_downwards_even_inside_functions() -> None:
    level = {room: index for index, layer in enumerate(LAYERS) for room in layer}
    for path in MODULES:
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if room == "__init__":
            continue
        for imported in rooms_imported(path):
            assert imported == room or level[room] < level[imported], f"{name_of(path)} imports {imported}"


def test_the_demo_uses_what_the_library_offers_to_everybody() -> None:
    rooms = {"accounting", "audit", "calibration", "mechanisms", "noise", "spectrum", "statistics", "timeseries"}
    words = {"gaussveil.accounting.diagnostics": {"MARK"}, "gaussveil.mechanisms.progress": {"shown_progress"}}
    for path in TOWN:
        for node in ast.walk(parsed(path)[1]):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("gaussveil."):
                _, room, *deeper = node.module.split(".")
                names = {name.name for name in node.names}
                if room in rooms:
                    public = words[node.module] if deeper else set(import_module(node.module).__all__)
                    assert names <= public, f"{path.name} imports {names - public}"
                else:
                    assert room in {"cli", "errors", "figure_style", "files", "report", "typing"}, path.name


def test_no_module_touches_a_global_or_hidden_generator() -> None:
    for path, text, _ in sources():
        assert not re.search(r"^(import random|from random)\b", text, re.MULTILINE), path
        assert not re.search(r"np\.random\.(?!Generator|default_rng|SeedSequence|BitGenerator|Philox|PCG64)", text), (
            path
        )


def test_nothing_names_the_machine_it_was_written_on() -> None:
    pages = [
        *MODULES,
        *STUDIO,
        *TOWN,
        *STUDIES,
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(path for path in (ROOT / "scripts").iterdir() if path.is_file()),
        ROOT / "Makefile",
    ]
    for path in [*pages, ROOT / "constraints.txt", *(ROOT / "benchmarks").glob("*.py")]:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"/(work|home|root|Users)/", text), path


def test_constraints_are_names_and_versions_only() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)*==[0-9][0-9a-z.]*", pin) for pin in pins)
    names = [pin.split("==")[0] for pin in pins]
    assert len(names) == len(set(names))


# The first version after the last published advisory, of packages that have had one lately.
ADVISORIES = {
    "cryptography": ("50.0.0", "CVE-2026-69247"),
    "h11": ("0.16", "CVE-2025-43859"),
    "jinja2": ("3.1.6", "CVE-2025-27516"),
    "pyarrow": ("23.0.1", "CVE-2026-25087"),
    "pytest": ("9.0.3", "CVE-2025-71176"),
    "python-multipart": ("0.0.30", "CVE-2026-53539"),
    "scikit-learn": ("1.5.0", "CVE-2024-5206"),
    "starlette": ("1.3.1", "CVE-2026-54283"),
    "torch": ("2.12.1", "CVE-2025-3000"),
}


def test_lower_bounds_leave_out_versions_with_published_advisories() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = [*project["dependencies"], *(r for extra in project["optional-dependencies"].values() for r in extra)]
    asked = {found.name: found for found in map(Requirement, listed)}
    for name, (version, advisory) in ADVISORIES.items():
        least = [Version(bound.version) for bound in asked[name].specifier if bound.operator == ">="]
        assert least, name
        assert least[0] >= Version(version), f"{name} below {version}: {advisory}"


def test_every_dependency_has_its_reason_and_its_pin() -> None:
    project, studies = (
        tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for folder in (ROOT, ROOT / "studies")
    )
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    optional = project["optional-dependencies"]
    wanted = [*project["dependencies"], *studies["dependencies"], *(r for extra in optional.values() for r in extra)]
    for requirement in (r for r in wanted if not r.startswith("gaussveil[")):
        name = re.split(r"[<>=\[ ]", requirement, maxsplit=1)[0]
        assert re.search(rf"\b{re.escape(name)}\b", page), f"{name} is not explained in docs/dependencies.md"
        if requirement not in optional["gpu"]:
            assert f"\n{name}==" in pinned, f"{name} is not pinned"
    assert all(f"`{extra}`" in page for extra in optional)
