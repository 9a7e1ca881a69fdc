"""`make numbers`: rerun the quick studies and what the pages compute, write docs/numbers.json and every marked place.

usage: python scripts/write_numbers.py [PART...]   rerun all or some parts, and write; a study's name, or "computed"
       python scripts/write_numbers.py --full full.json...   take what `gaussveil study NAME --full` left in its folder
       python scripts/write_numbers.py --errata   judge the records of claims.toml anew, and write: seconds
       python scripts/write_numbers.py --fill   write the marked places from what is stored, without rerunning
       python scripts/write_numbers.py --check   compare the marked places with what is stored; exit 1 if they
           differ, or quote a benchmark of code that no commit holds

Marked places in README.md and docs/**/*.md:

    ... delta is <!-- number:ndis.n2-delta -->0.343<!-- /number --> ...

    <!-- table:ndis.posteriors-variances -->
    | ... |
    <!-- /table -->

    <!-- table:class.as-printed-paper-curves/rho=0.686/epsilon=0.1,1 -->
    the rows that have one of these values in each of these columns
    <!-- /table -->

    <!-- errata:NDIS -->
    one paragraph per record of that paper in studies/gaussveil_studies/errata/claims.toml
    <!-- /errata -->

What is stored: in docs/numbers.json the studies' claims (STUDY.CLAIM), verdicts (the table STUDY.verdict) and tables
(STUDY.STEP-TABLE), and the figures of docs/computed.py (computed.NAME); in docs/benchmarks the kept runs, a table each
(bench.MACHINE.NAME, columns what, ours, peer, ratio), and what a GPU measured (bench.FILE.PATH-OF-THE-VALUE). A number
may also be one cell of a table, TABLE/ROW/COLUMN: ROW is how that row begins and how no other does, in small letters
and hyphens, as in

    <!-- number:ndis.posteriors-variances/process-n-100-b-1/exact-joint -->255<!-- /number -->

    <!-- downloads:class -->
    how a study is computed, and its tables, each a link to a CSV file
    <!-- /downloads -->

Every table is kept as CSV in docs/results, too, and the pictures of docs/results and docs/benchmarks are drawn from
what is stored (scripts/draw_results.py). Parts whose data are absent keep what docs/numbers.json has of them, and are
named. Studies that are stored at the papers' size are only rerun in their quick form when named.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[1]
STORE = Path("docs/numbers.json")
NUMBER = re.compile(r"(<!-- number:([\w./-]+) -->)(.*?)(<!-- /number -->)")
TABLE = re.compile(r"(<!-- table:([\w.-]+)((?:/[\w.,=-]+)*) -->\n)(.*?)(<!-- /table -->)", re.DOTALL)
ERRATA = re.compile(r"(<!-- errata:([\w-]+) -->\n)(.*?)(<!-- /errata -->)", re.DOTALL)
OPENING = re.compile(r"<!-- (?:number|table):")
COMPUTED = "computed"
RESULTS = Path("docs/results")
DOWNLOADS = re.compile(r"(<!-- downloads:([\w-]+) -->\n)(.*?)(<!-- /downloads -->)", re.DOTALL)
MEASURED = re.compile(r"<!-- number:(bench\.[\w-]+\.[\w-]+)")
Store = dict[str, dict[str, Any]]


def pages(root: Path) -> Iterator[Path]:
    """The files that may hold marked places."""
    yield root / "README.md"
    yield from sorted((root / "docs").rglob("*.md"))


def slug(text: str) -> str:
    """Small letters and digits, joined by hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def kept(root: Path) -> Store:
    """What docs/numbers.json holds."""
    path = root / STORE
    found: Store = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"numbers": {}, "tables": {}}
    return found


def everything(root: Path) -> Store:
    """What docs/numbers.json and docs/benchmarks hold."""
    store = kept(root)
    for path in sorted((root / "docs" / "benchmarks").glob("*.json")):
        body = json.loads(path.read_text(encoding="utf-8"))
        for name, result in body.get("benchmarks", {}).items():
            rows = [[_text(row[key]) for key in ("name", "ours", "peer", "ratio")] for row in result["rows"]]
            key = f"bench.{path.stem.removeprefix('results-')}.{name}"
            store["tables"][key] = {"columns": ["what", "ours", "peer", "ratio"], "rows": rows}
        if "benchmarks" not in body:
            store["numbers"].update(_leaves(f"bench.{path.stem}", body))
    return store


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{float(f'{value:.3g}'):,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value)


def _leaves(name: str, body: Any) -> dict[str, str]:
    """Every single value of a JSON body, by its path."""
    if not isinstance(body, dict | list):
        return {name: _text(body)}
    items = body.items() if isinstance(body, dict) else enumerate(body)
    return {key: value for part, inner in items for key, value in _leaves(f"{name}.{part}", inner).items()}


def cell(store: Store, key: str) -> str | None:
    """The value of TABLE/ROW/COLUMN, or None unless there is exactly one such cell."""
    name, _, place = key.partition("/")
    row, _, column = place.partition("/")
    table = store["tables"].get(name, {"columns": [], "rows": []})
    rows = [line for line in table["rows"] if f"{slug(' '.join(line))}-".startswith(f"{row}-")]
    columns = [index for index, heading in enumerate(table["columns"]) if slug(heading) == column]
    return rows[0][columns[0]] if len(rows) == len(columns) == 1 else None


def chosen(table: dict[str, Any], conditions: str) -> list[list[str]]:
    """The rows that meet conditions such as /rho=1/epsilon=0.1,1."""
    rows: list[list[str]] = table["rows"]
    places = [slug(heading) for heading in table["columns"]]
    for condition in conditions.split("/")[1:]:
        column, _, values = condition.partition("=")
        rows = [row for row in rows if column in places and row[places.index(column)] in values.split(",")]
    return rows


def markdown(table: dict[str, Any], conditions: str = "") -> str:
    """A table of the store as Markdown."""
    lines = [table["columns"], ["---"] * len(table["columns"]), *chosen(table, conditions)]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def filled(text: str, store: Store, problems: list[str]) -> str:
    """The text with every marked place as the store has it; unknown keys and broken marks are problems."""

    def number(found: re.Match[str]) -> str:
        value = cell(store, found[2]) if "/" in found[2] else store["numbers"].get(found[2])
        if not value:
            problems.append(f"unknown number {found[2]}")
            return found[0]
        return found[1] + value + found[4]

    def table(found: re.Match[str]) -> str:
        if found[2] not in store["tables"]:
            problems.append(f"unknown table {found[2]}")
            return found[0]
        if not chosen(store["tables"][found[2]], found[3]):
            problems.append(f"no row of the table {found[2]} has {found[3]}")
        return found[1] + markdown(store["tables"][found[2]], found[3]) + found[5]

    marked = len(OPENING.findall(text))
    if marked != len(NUMBER.findall(text)) + len(TABLE.findall(text)):
        problems.append("a mark is not closed: write <!-- number:KEY -->...<!-- /number --> on one line")
    text = DOWNLOADS.sub(lambda mark: f"{mark[1]}{downloads(store, mark[2])}{mark[4]}", text)
    return TABLE.sub(table, NUMBER.sub(number, text))


def of_study(store: Store, study: str) -> dict[str, dict[str, Any]]:
    """The tables of a study, but for its verdicts, which stand on its page."""
    return {
        key: table
        for key, table in store["tables"].items()
        if key.startswith(f"{study}.") and not key.endswith(".verdict")
    }


def made_by(store: Store, study: str) -> str:
    """The command that computes a study as it is stored, and at which commit and on which machine that was."""
    full = store["tables"].get(f"{study}.verdict", {}).get("full")
    if full is None:
        return f"`gaussveil study {study}`"
    return f"`gaussveil study {study} --full`: {full}"


def downloads(store: Store, study: str) -> str:
    """How a study is computed, and a line for each of its steps with its tables as files."""
    lines: dict[str, list[str]] = {}
    for key, table in sorted(of_study(store, study).items()):
        name = key.partition(".")[2]
        words = table.get("caption") or name.replace("-", " ")
        link = f"{{download}}`{words} <{study}/{name}.csv>` ({len(table['rows'])} rows)"
        lines.setdefault(table.get("title") or name, []).append(link)
    listed = "".join(f"- {title}: {', '.join(links)}\n" for title, links in lines.items())
    return f"\n{made_by(store, study)}\n\n{listed}\n"


def csv_files(store: Store) -> dict[Path, str]:
    """Every table of the studies as a file."""
    files = {}
    for study in sorted({key.partition(".")[0] for key in store["tables"]} - {"bench"}):
        for key, table in of_study(store, study).items():
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows([table["columns"], *table["rows"]])
            files[RESULTS / study / f"{key.partition('.')[2]}.csv"] = text.getvalue()
    return files


def fill_files(root: Path, store: Store, *, write: bool) -> list[str]:
    """Write the tables as files and draw the pictures, or only look at them; return what is wrong."""
    draw_results = module_at(Path(__file__).with_name("draw_results.py"))

    wrong = []
    files = csv_files(store)
    for path, text in files.items():
        if (root / path).exists() and (root / path).read_text(encoding="utf-8") == text:
            continue
        if write:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
        else:
            wrong.append(f"{path}: differs from what is stored; run python scripts/write_numbers.py --fill")
    for path in sorted((root / RESULTS).rglob("*.csv")):
        if path.relative_to(root) not in files:
            if write:
                path.unlink()
            else:
                wrong.append(f"{path.relative_to(root)}: no table is stored under this name")
    if write:
        draw_results.draw(root, store["tables"])
    else:
        late = draw_results.stale(root, store["tables"])
        wrong += [f"{path}: shows other figures than those stored; --fill draws it" for path in late]
    return wrong


def of_no_commit(root: Path) -> list[str]:
    """The pages that quote a benchmark of code that was changed since its commit: nobody can measure that again."""
    found = []
    measured = {}
    for path in sorted((root / "docs" / "benchmarks").glob("results-*.json")):
        body = json.loads(path.read_text(encoding="utf-8"))
        for name, result in body["benchmarks"].items():
            measured[f"bench.{path.stem.removeprefix('results-')}.{name}"] = result.get("commit", "unknown")
    for page in pages(root):
        for key in sorted(set(MEASURED.findall(page.read_text(encoding="utf-8"))) & set(measured)):
            if not re.fullmatch("[0-9a-f]+", measured[key]):
                found.append(f"{page.relative_to(root)}: quotes {key} of {measured[key]}; measure it at a clean commit")
    return found


def with_errata(text: str) -> str:
    """The text with the records of a paper where it asks for them, their figures still to be filled."""

    def paragraphs(found: re.Match[str]) -> str:
        from gaussveil_studies.errata.page import section

        return f"{found[1]}{section(found[2])}{found[4]}"

    return ERRATA.sub(paragraphs, text)


def fill(root: Path, *, write: bool = True) -> list[str]:
    """Write every marked place, or only look at it; return what is wrong."""
    store, wrong = everything(root), []
    for page in pages(root):
        problems: list[str] = []
        text = page.read_text(encoding="utf-8")
        new = filled(with_errata(text), store, problems)
        if new != text and write:
            page.write_text(new, encoding="utf-8")
        elif new != text:
            problems.append("figures differ from what is stored; run python scripts/write_numbers.py --fill")
        wrong += [f"{page.relative_to(root)}: {problem}" for problem in problems]
    return wrong + fill_files(root, store, write=write)


def check(root: Path) -> list[str]:
    """What disagrees between the pages and what is stored, and what is quoted of no commit."""
    return fill(root, write=False) + of_no_commit(root)


def module_at(path: Path) -> ModuleType:
    """A module by its file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def from_pages(root: Path) -> Store:
    """What docs/computed.py finds."""
    found: dict[str, str] = module_at(root / "docs" / "computed.py").numbers()
    return {"numbers": {f"{COMPUTED}.{name}": value for name, value in found.items()}, "tables": {}}


def from_study(name: str, data: Path | None) -> tuple[Store, bool]:
    """Run a quick study; its claims and tables as text, and whether nothing was missing."""
    from gaussveil_studies.catalogue import study_named
    from gaussveil_studies.study import Options, shown
    from gaussveil_studies.study_run import default_cache, run_study

    store: Store = {"numbers": {}, "tables": {}}
    outcome = run_study(study_named(name), Options(data), default_cache(), lambda _word, _share: None)
    absent = [*outcome.missing, *(f"{claim.key} ({claim.because})" for claim in outcome.claims if not claim.ours)]
    if absent:
        print(f"  without {', '.join(absent)}: what needs it keeps its former figures")
    for claim in outcome.claims:
        if claim.ours:
            store["numbers"] |= {f"{name}.{claim.key}": claim.ours, f"{name}.{claim.key}.printed": claim.printed}
    store["tables"][f"{name}.verdict"] = {
        "title": outcome.study.title,
        "columns": ["claim", "as printed", "ours", "verdict", "why"],
        "rows": [
            [claim.claim, claim.printed, claim.ours, claim.verdict.value, claim.because] for claim in outcome.claims
        ],
    }
    for step, part in outcome.parts.items():
        for table in part.tables:
            store["tables"][f"{name}.{step}-{table.name}"] = {
                "title": part.title,
                "caption": table.caption,
                "columns": list(table.columns),
                "rows": [[shown(value) for value in row] for row in table.rows],
            }
    return store, not absent


def from_errata(root: Path) -> Store:
    """Every record with evidence judged anew; verdicts and tables of all other steps stay as they are stored."""
    from gaussveil_studies.errata.page import STUDIES
    from gaussveil_studies.errata.part import errata_step
    from gaussveil_studies.study import Options, shown

    store: Store = {"numbers": {}, "tables": {}}
    stored = kept(root)["tables"]
    for document, name in STUDIES.items():
        part = errata_step(document).run(Options(), lambda _word, _share: None)
        judged = {}
        for claim in part.claims:
            store["numbers"] |= {f"{name}.{claim.key}": claim.ours, f"{name}.{claim.key}.printed": claim.printed}
            judged[claim.claim] = [claim.claim, claim.printed, claim.ours, claim.verdict.value, claim.because]
        verdict = stored[f"{name}.verdict"]
        rows = [judged.pop(row[0], row) for row in verdict["rows"]]
        store["tables"][f"{name}.verdict"] = verdict | {"rows": [*rows, *judged.values()]}
        for table in part.tables:
            key = f"{name}.errata-{table.name}"
            store["tables"][key] = stored[key] | {"rows": [[shown(value) for value in row] for row in table.rows]}
    return store


def from_full(root: Path, path: Path) -> tuple[str, Store, bool]:
    """A study's name, its figures at the papers' size from the full.json it wrote, and whether those are all it has.

    Titles are the quick form's. Steps that were not run keep what is stored of them, and the page says which were.
    """
    from gaussveil_studies.catalogue import study_named
    from gaussveil_studies.study import shown

    body = json.loads(path.read_text(encoding="utf-8"))
    name, made, stored = body["study"], body["made"], kept(root)["tables"]
    if body["size"] != "full" or body["missing"]:
        raise ValueError(f"{path}: is no run of `gaussveil study {name} --full` with all its data")
    known = [step.name for step in study_named(name).steps]
    steps = [step for step in known if step in body["steps"]]
    verdict = f"{name}.verdict"
    claims = [claim for claim in body["verdict"] if claim["ours"]]
    numbers = {f"{name}.{claim['key']}": claim["ours"] for claim in claims}
    numbers |= {f"{name}.{claim['key']}.printed": claim["printed"] for claim in claims}
    found = [
        [claim[column] for column in ("claim", "printed", "ours", "verdict", "because")] for claim in body["verdict"]
    ]
    told = f"seed {body['seed']}, commit {made['commit'][:7]}, {made['machine']}."
    if steps != known:
        before_it = stored.get(verdict, {}).get("full")
        told = f"{', '.join(steps)}: {told} The rest: {before_it or 'of the quick form.'}"
        new = {row[0]: row for row in found}
        before = [new.pop(row[0], row) for row in stored.get(verdict, {"rows": []})["rows"]]
        found = [*before, *new.values()]
    tables = {
        verdict: {
            **stored.get(verdict, {}),
            "full": told,
            "columns": ["claim", "as printed", "ours", "verdict", "why"],
            "rows": found,
        }
    }
    for key, rows in body["tables"].items():
        tables[f"{name}.{key}"] = {
            **stored.get(f"{name}.{key}", {}),
            "columns": list(rows[0]) if rows else [],
            "rows": [[shown(value) for value in row.values()] for row in rows],
        }
    return name, {"numbers": numbers, "tables": tables}, steps == known


def keep(root: Path, new: Store, *, instead_of: str | None) -> None:
    """Merge figures into docs/numbers.json, instead of all whose keys begin so."""
    merged = kept(root)
    for kind, found in merged.items():
        old = {key: value for key, value in found.items() if instead_of is None or not key.startswith(instead_of)}
        merged[kind] = dict(sorted((old | new[kind]).items()))
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=root / "docs", delete=False) as stream:
        stream.write(json.dumps(merged, indent=1, ensure_ascii=False) + "\n")
    os.chmod(stream.name, 0o644)
    os.replace(stream.name, root / STORE)


def rerun(root: Path, parts: list[str], data: Path | None) -> None:
    """Write docs/numbers.json anew, part by part."""
    for part in parts:
        print(part, flush=True)
        before = sum(os.times()[:4])
        new, whole = (from_pages(root), True) if part == COMPUTED else from_study(part, data)
        keep(root, new, instead_of=f"{part}." if whole else None)
        print(f"  {sum(os.times()[:4]) - before:.0f} s of CPU (steps that nothing has changed for are not rerun)")


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Do what the command line asks."""
    from gaussveil_studies.catalogue import names

    parts = [*names(), COMPUTED]
    options = [argument for argument in arguments if argument.startswith("-")]
    wanted = [argument for argument in arguments if not argument.startswith("-")]
    right = wanted != [] if options == ["--full"] else set(wanted) <= set(parts) and not (options and wanted)
    if options not in ([], ["--check"], ["--errata"], ["--fill"], ["--full"]) or not right:
        print(__doc__, file=sys.stderr)
        return 2
    if options == ["--full"]:
        for name, new, whole in [from_full(root, Path(path)) for path in wanted]:
            keep(root, new, instead_of=f"{name}." if whole else None)
    elif options == ["--errata"]:
        keep(root, from_errata(root), instead_of=None)
    elif not options:
        named = os.environ.get("GAUSSVEIL_DATA")
        stored = kept(root)["tables"]
        quick = [part for part in parts if "full" not in stored.get(f"{part}.verdict", {})]
        rerun(root, wanted or quick, Path(named) if named else None)
    if options == ["--check"]:
        wrong = check(root)
    else:
        wrong = fill(root)
    for problem in wrong:
        print(problem, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
