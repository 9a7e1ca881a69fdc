"""`make bench`: run every benchmarks/bench_*.py, print the ratios, keep them in docs/benchmarks; exit 1 on a miss.

usage: python benchmarks/run.py [--resume] [NAME...]     NAME as in bench_NAME.py; all by default

Each benchmark's rows are kept as soon as it ends. With --resume those that are kept of this very commit are not run
again, so that a run which was ended, or shared out by names, goes on where it was.

Each file has `run() -> list[dict]` with the keys name, ours, peer, ratio, goal, met and, where it helps, note.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import subprocess
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
RESULTS = HERE.parent / "docs" / "benchmarks"
LIBRARIES = ("numpy", "scipy", "python-flint", "cryptography", "duckdb", "pyarrow")
Row = dict[str, Any]


def main(arguments: list[str], folder: Path = HERE, results_folder: Path = RESULTS) -> int:
    resume = "--resume" in arguments
    names = [argument for argument in arguments if argument != "--resume"]
    found = {path.stem.removeprefix("bench_"): path for path in sorted(folder.glob("bench_*.py"))}
    if unknown := [name for name in names if name not in found]:
        print(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(found)}", file=sys.stderr)
        return 2
    results: dict[str, Any] = {}
    before = stored(results_folder)
    for name in names or found:
        kept = f"{name}-full" if os.environ.get("FULL") else name  # beside the quick sizes, not in their place
        if resume and before.get(kept, {}).get("commit") == commit():
            results[kept] = before[kept]
            print(f"{kept}: kept of this commit")
            continue
        begun = time.monotonic()
        rows = run_file(found[name])
        results[kept] = {
            "commit": commit(),
            "date": datetime.now(UTC).date().isoformat(),
            "minutes": round((time.monotonic() - begun) / 60, 1),
            "rows": rows,
        }
        show(kept, rows)
        keep({kept: results[kept]}, results_folder)
    missed = [row["name"] for result in results.values() for row in result["rows"] if not row["met"]]
    if missed:
        print(f"\n{len(missed)} goals missed: {'; '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


def run_file(path: Path) -> list[Row]:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded")
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)  # by name for processes of its own
    spec.loader.exec_module(module)
    rows: list[Row] = module.run()
    return rows


def text(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def show(name: str, rows: list[Row]) -> None:
    table = Table(title=name, title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("what", overflow="fold")
    for column in ("ours", "peer", "ratio", "goal", ""):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(row["name"], *(text(row[key]) for key in ("ours", "peer", "ratio", "goal")), verdict(row))
    Console(highlight=False).print(table)
    for row in rows:
        if row.get("note"):
            print(f"  {row['name']}: {row['note']}")


def verdict(row: Row) -> str:
    return "" if row["goal"] is None else "met" if row["met"] else "MISSED"


def machine() -> dict[str, Any]:
    processor = ""
    if Path("/proc/cpuinfo").exists():
        lines = [
            line.split(":", 1) for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if ":" in line
        ]
        processor = next((value.strip() for key, value in lines if key.strip() in {"model name", "CPU part"}), "")
    return {
        "architecture": platform.machine(),
        "processor": processor,
        "cores": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
        "libraries": {name: found for name in LIBRARIES if (found := installed(name))},
    }


def installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def commit() -> str:
    """The code that ran; "-dirty" where files other than the results themselves were changed since."""
    git, results = ["git", "-C", str(HERE.parent)], f":!{RESULTS.relative_to(HERE.parent)}"
    try:
        named, changed = (
            subprocess.run([*git, *command], capture_output=True, text=True, check=True).stdout.strip()
            for command in (
                ["rev-parse", "--short=12", "HEAD"],
                ["status", "--porcelain", "--untracked-files=no", "--", ".", results],
            )
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{named}-dirty" if changed else named


def called(where: dict[str, Any]) -> str:
    """The name of a machine in files."""
    return f"{where['architecture']}-{where['cores']}-cores"


def results_file(folder: Path) -> Path:
    """Where this machine's rows are kept."""
    return folder / f"results-{called(machine())}.json"


def stored(folder: Path) -> dict[str, Any]:
    """What is kept of this machine."""
    path = results_file(folder)
    if not path.exists():
        return {}
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["benchmarks"]
    return found


def keep(results: dict[str, Any], folder: Path) -> None:
    """Merge into this machine's results, so that running one benchmark keeps the others' rows."""
    folder.mkdir(parents=True, exist_ok=True)
    path = results_file(folder)
    everything = {"machine": machine(), "benchmarks": dict(sorted((stored(folder) | results).items()))}
    path.write_text(json.dumps(everything, indent=2) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(markdown(everything), encoding="utf-8")
    print(f"\nkept in {path.with_suffix('.md')}")


def markdown(everything: dict[str, Any]) -> str:
    """The page of a machine: of each room the picture that `make bench` draws, and the rows behind it."""
    where = everything["machine"]
    libraries = ", ".join(f"{name} {found}" for name, found in where["libraries"].items())
    lines = [
        f"# Results on {where['architecture']}, {where['cores']} cores",
        "",
        f"Processor {where['processor'] or 'unnamed'}, {where['system']}, Python {where['python']}; {libraries}.",
        "Written by `make bench`, both sides measured in one run. The ratio says how many times better we are; in rows",
        'named "A / B" it is A over B, and the goal is a ceiling. A picture shows the ratios in the order of its rows.',
    ]
    for name, result in everything["benchmarks"].items():
        lasted = f", {result['minutes']} minutes" if "minutes" in result else ""
        lines += ["", f"## {name}", "", f"Commit {result['commit']}, {result['date']}{lasted}.", ""]
        if any(row["ratio"] is not None and row["ratio"] > 0.0 for row in result["rows"]):
            lines += [f"![Ratios of {name}, a row each](../images/benchmarks/{called(where)}-{name}.svg)", ""]
        lines += [f"<details><summary>{len(result['rows'])} rows</summary>", ""]
        lines += ["| what | ours | peer | ratio | goal | |", "|---|---|---|---|---|---|"]
        for row in result["rows"]:
            cells = [row["name"], *(text(row[key]) for key in ("ours", "peer", "ratio", "goal")), verdict(row)]
            lines.append(f"| {' | '.join(cells)} |")
        notes = [f"- {row['name']}: {row['note']}" for row in result["rows"] if row.get("note")]
        lines += ["", *notes] if notes else []
        lines += ["", "</details>"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
