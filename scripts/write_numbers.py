"""`make numbers`: rerun the quick studies, read the kept benchmarks, write docs/numbers.json and every marked place.

usage: python scripts/write_numbers.py [STUDY...]   rerun all or some studies, and write
       python scripts/write_numbers.py --check   compare the marked places with docs/numbers.json; exit 1 if they differ
       python scripts/write_numbers.py --fill   write the marked places from docs/numbers.json, without rerunning

Marked places in README.md and docs/**/*.md:

    ... delta is <!-- number:ndis.n2-delta -->0.343<!-- /number --> ...

    <!-- table:ndis.posteriors-variances -->
    | ... |
    <!-- /table -->

Keys: STUDY.CLAIM is our figure in that line of the study's verdict, STUDY.STEP-TABLE one of its tables, and
bench.NAME.ROW.ours|peer|ratio a row of the benchmarks kept in docs/benchmarks. Parts whose data are absent keep what
docs/numbers.json has of them, and are named.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
STORE = Path("docs/numbers.json")
BENCHMARKS = "docs/benchmarks/results-*.json"
NUMBER = re.compile(r"(<!-- number:([\w.-]+) -->)(.*?)(<!-- /number -->)")
TABLE = re.compile(r"(<!-- table:([\w.-]+) -->\n)(.*?)(<!-- /table -->)", re.DOTALL)
OPENING = re.compile(r"<!-- (?:number|table):")
Store = dict[str, dict[str, Any]]


def pages(root: Path) -> Iterator[Path]:
    """The files that may hold marked places."""
    yield root / "README.md"
    for path in sorted((root / "docs").rglob("*.md")):
        if "_build" not in path.parts:
            yield path


def read_store(root: Path) -> Store:
    """What docs/numbers.json holds."""
    path = root / STORE
    found: Store = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"numbers": {}, "tables": {}}
    return found


def markdown(table: dict[str, Any]) -> str:
    """A table of the store as Markdown."""
    lines = [table["columns"], ["---"] * len(table["columns"]), *table["rows"]]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def filled(text: str, store: Store, problems: list[str]) -> str:
    """The text with every marked place as the store has it; unknown keys and broken marks are problems."""

    def number(found: re.Match[str]) -> str:
        if found[2] not in store["numbers"]:
            problems.append(f"unknown number {found[2]}")
            return found[0]
        return found[1] + store["numbers"][found[2]] + found[4]

    def table(found: re.Match[str]) -> str:
        if found[2] not in store["tables"]:
            problems.append(f"unknown table {found[2]}")
            return found[0]
        return found[1] + markdown(store["tables"][found[2]]) + found[4]

    marked = len(OPENING.findall(text))
    if marked != len(NUMBER.findall(text)) + len(TABLE.findall(text)):
        problems.append("a mark is not closed: write <!-- number:KEY -->...<!-- /number --> on one line")
    return TABLE.sub(table, NUMBER.sub(number, text))


def check(root: Path) -> list[str]:
    """What disagrees between the pages and the store."""
    store, wrong = read_store(root), []
    for page in pages(root):
        problems: list[str] = []
        text = page.read_text(encoding="utf-8")
        name = page.relative_to(root)
        if filled(text, store, problems) != text:
            problems.append("figures differ from docs/numbers.json; run make numbers")
        wrong += [f"{name}: {problem}" for problem in problems]
    return wrong


def fill(root: Path) -> list[str]:
    """Write every marked place; return the problems."""
    store, wrong = read_store(root), []
    for page in pages(root):
        problems: list[str] = []
        text = page.read_text(encoding="utf-8")
        new = filled(text, store, problems)
        if new != text:
            page.write_text(new, encoding="utf-8")
        wrong += [f"{page.relative_to(root)}: {problem}" for problem in problems]
    return wrong


def from_benchmarks(body: Any) -> dict[str, str]:
    """Ours, peer and ratio of every kept row."""
    numbers = {}
    for name, result in body["benchmarks"].items():
        for row in result["rows"]:
            slug = re.sub(r"[^a-z0-9]+", "-", row["name"].lower()).strip("-")
            for column in ("ours", "peer", "ratio"):
                value = row[column]
                if value is not None:
                    numbers[f"bench.{name}.{slug}.{column}"] = (
                        f"{value:.3g}" if isinstance(value, float) else str(value)
                    )
    return numbers


def from_study(name: str, data: Path | None) -> Store:
    """Run a quick study; its claims and tables as text."""
    from gaussveil.studies.catalogue import study_named
    from gaussveil.studies.study import Options, shown
    from gaussveil.studies.study_run import default_cache, run_study

    store: Store = {"numbers": {}, "tables": {}}
    print(f"study {name}", flush=True)
    outcome = run_study(study_named(name), Options(data), default_cache(), lambda _word, _share: None)
    if outcome.missing:
        print(f"  without {', '.join(outcome.missing)}: what needs it keeps its former figures")
    store["numbers"] = {f"{name}.{claim.key}": claim.ours for claim in outcome.claims}
    for step, part in outcome.parts.items():
        for table in part.tables:
            rows = [[shown(value) for value in row] for row in table.rows]
            store["tables"][f"{name}.{step}-{table.name}"] = {"columns": list(table.columns), "rows": rows}
    return store


def keep(root: Path, new: Store, instead_of: str = "nothing") -> None:
    """Merge figures into docs/numbers.json, instead of those whose keys begin so."""
    store = read_store(root)
    old = {kind: {k: v for k, v in store[kind].items() if not k.startswith(instead_of)} for kind in store}
    merged = {kind: dict(sorted((old[kind] | new[kind]).items())) for kind in ("numbers", "tables")}
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=root / "docs", delete=False) as stream:
        stream.write(json.dumps(merged, indent=1, ensure_ascii=False) + "\n")
    os.chmod(stream.name, 0o644)
    os.replace(stream.name, root / STORE)


def rerun(root: Path, names: list[str], data: Path | None) -> None:
    """Write docs/numbers.json anew, study by study."""
    machines = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(root.glob(BENCHMARKS))]
    if machines:
        latest = max(machines, key=lambda found: max(part["date"] for part in found["benchmarks"].values()))
        keep(root, {"numbers": from_benchmarks(latest), "tables": {}}, instead_of="bench.")
    for name in names:
        keep(root, from_study(name, data))


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Do what the command line asks."""
    from gaussveil.studies.catalogue import names

    options = [argument for argument in arguments if argument.startswith("-")]
    wanted = [argument for argument in arguments if not argument.startswith("-")]
    if options not in ([], ["--check"], ["--fill"]) or (options and wanted) or not set(wanted) <= set(names()):
        print(__doc__, file=sys.stderr)
        return 2
    if not options:
        named = os.environ.get("GAUSSVEIL_DATA")
        rerun(root, wanted or names(), Path(named) if named else None)
    wrong = check(root) if options == ["--check"] else fill(root)
    for problem in wrong:
        print(problem, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
