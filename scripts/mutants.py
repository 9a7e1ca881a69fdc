"""Change one operator or constant of the library at a time: which changes does no test notice?

usage: python scripts/mutants.py [--rooms spectrum accounting noise mechanisms/release_path.py] [--count 300] [--seed 1]
                                 [--processes 16] [--seconds 60] [--until 600] [--out mutants.json]
                                 [--again mutants.json]

A mutant is a sum for a difference, a product for a quotient, one comparison for its neighbour, a number for another or
a condition for its opposite. Each is loaded in a process of its own in place of the module, before the tests that name
what the module defines and those of its room; as soon as one fails, it is killed. Test files are measured first, and
no mutant is given tests that take longer than `--seconds` without it, so that a limit of thrice that time decides
nothing but loops without an end. Tests that start commands do not see the mutant: what survives is an upper end.

Many changes change nothing that anybody reads: a first guess of a root, a margin that is never used up, a limit of a
loop. A mutant that survives its tests is therefore asked for the numbers of `tests/house_numbers.py`, at settings of
another seed than the stored ones, and told apart: those that change a number, and those that do not. `--again` gives
those that survived an earlier round and changed a number other tests, or more of them.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib.abc
import importlib.util
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
TESTS = ROOT / "tests"
ROOMS = ["spectrum", "accounting", "noise", "mechanisms/release_path.py"]
EVERY_NUMBER = "tests/test_house_numbers.py"  # for every mutant, the last of its tests
TEST_ROOMS = ["spectrum", "accounting", "noise", "calibration", "attacks", "laws", "audit", "mechanisms"]
OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.USub: ast.UAdd,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
LIMIT_OVER_PLAIN = 3.0  # times the seconds that the same tests take without a mutant
STARTING = 120.0  # seconds, beside that: to load the library, and twice for all numbers of a mutant that survives
CHANGES_A_NUMBER = 90  # exit code
SEED_OF_NUMBERS = 2
PLAIN = Path(tempfile.gettempdir()) / f"plain_numbers_{os.getpid()}.pickle"


@dataclass(frozen=True)
class Mutant:
    """One change of one module."""

    path: str
    line: int
    place: int
    """Number of the node in the order of `ast.walk`."""
    was: str
    becomes: str


def changeable(tree: ast.Module) -> Iterator[tuple[int, ast.AST]]:
    """Nodes that have a mutant: operators, numbers and conditions, but those of types and texts."""
    ignored: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert):
            ignored |= {id(inner) for inner in ast.walk(node)}
        if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation is not None:
            ignored |= {id(inner) for inner in ast.walk(node.annotation)}
        if isinstance(node, ast.FunctionDef) and node.returns is not None:
            ignored |= {id(inner) for inner in ast.walk(node.returns)}
    for place, node in enumerate(ast.walk(tree)):
        if id(node) in ignored:
            continue
        operator = getattr(node, "op", None) or (node.ops[0] if isinstance(node, ast.Compare) else None)
        number = isinstance(node, ast.Constant) and type(node.value) in (int, float)
        if number or type(operator) in OPERATORS:
            yield place, node


def changed(node: ast.AST) -> None:
    """The mutant of a node, in place."""
    if isinstance(node, ast.Constant):
        assert isinstance(node.value, int | float)
        node.value = node.value + 1 if isinstance(node.value, int) else 1.5 * node.value if node.value else 0.5
    elif isinstance(node, ast.Compare):
        node.ops[0] = OPERATORS[type(node.ops[0])]()
    else:
        node.op = OPERATORS[type(node.op)]()


def mutants_of(path: Path) -> list[Mutant]:
    """All mutants of a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    made = []
    for place, node in changeable(tree):
        other = copy.deepcopy(node)
        changed(other)
        name = str(path.relative_to(ROOT))
        made.append(Mutant(name, getattr(node, "lineno", 0), place, ast.unparse(node)[:80], ast.unparse(other)[:80]))
    return [mutant for mutant in made if mutant.was != mutant.becomes]


class Loader(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives one module with its mutant in it."""

    def __init__(self, mutant: Mutant) -> None:
        self.path = ROOT / mutant.path
        self.place = mutant.place
        parts = self.path.relative_to(SOURCE).with_suffix("").parts
        self.name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """Where the module is asked for, this is its loader."""
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.path, loader=self)

    def exec_module(self, module: Any) -> None:
        """Run the changed module."""
        tree = ast.parse(self.path.read_text(encoding="utf-8"))
        changed(next(node for place, node in enumerate(ast.walk(tree)) if place == self.place))
        exec(compile(ast.fix_missing_locations(tree), str(self.path), "exec"), module.__dict__)


def tested(files: list[str], mutant: Mutant | None) -> int:
    """In a process of its own: the exit code of pytest."""
    import pytest

    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    if mutant is not None:
        sys.meta_path.insert(0, Loader(mutant))
    failed = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *files]))
    if failed or mutant is None:
        return failed
    return CHANGES_A_NUMBER if changes_a_number() else 0


def changes_a_number() -> bool:
    """In a process with a mutant: whether a number is another one than without it, or cannot be had any more."""
    import pickle

    from tests import house_numbers

    try:
        numbers = house_numbers.numbers(SEED_OF_NUMBERS)
    except Exception:
        return True
    return bool(house_numbers.differing(numbers, pickle.loads(PLAIN.read_bytes())))


def write_plain_numbers() -> None:
    """The numbers without a mutant, found in a process of its own: this one never loads the library."""
    code = (
        "import pickle, sys; from pathlib import Path; from tests import house_numbers; "
        "Path(sys.argv[1]).write_bytes(pickle.dumps(house_numbers.numbers(int(sys.argv[2]))))"
    )
    subprocess.run([sys.executable, "-c", code, str(PLAIN), str(SEED_OF_NUMBERS)], check=True)


Job = tuple[Any, list[str], Mutant | None, float]


def in_parallel(jobs: list[Job], processes: int, until: float) -> Iterator[tuple[Any, int | None, float]]:
    """Key, exit code (None: over its limit) and seconds of each job as it ends; what runs at `until` is left out."""
    waiting, running = list(reversed(jobs)), {}
    while waiting or running:
        while waiting and len(running) < processes and time.monotonic() < until:
            key, files, mutant, limit = waiting.pop()
            child = os.fork()
            if child == 0:
                os.setsid()
                code = 99
                try:
                    code = tested(files, mutant)
                finally:
                    os._exit(code)
            running[child] = (key, time.monotonic(), limit)
        if time.monotonic() >= until:
            for child in running:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
            return
        child, status = os.waitpid(-1, os.WNOHANG)
        if child:
            key, begun, _ = running.pop(child)
            yield key, os.waitstatus_to_exitcode(status), time.monotonic() - begun
        for child, (key, begun, limit) in list(running.items()):
            if time.monotonic() - begun > limit:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                del running[child]
                yield key, None, time.monotonic() - begun
        time.sleep(0.02)


def suited(path: Path, seconds: dict[str, float], most: float) -> list[str]:
    """Test files for a module, those that name most of what it defines first, within some seconds."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    room = path.relative_to(SOURCE / "gaussveil").parts[0]
    stem = path.stem.strip("_")

    def closeness(name: str) -> float:
        text = (ROOT / name).read_text(encoding="utf-8")
        named = sum(bool(re.search(rf"\b{word}\b", text)) for word in defined)
        similar = 8.0 * (stem in Path(name).stem) + 4.0 * (stem in text)
        return named + similar + 6.0 * (f"tests/{room}/" in name) - 0.05 * seconds[name]

    chosen: list[str] = []
    total = 0.0
    for name in sorted(seconds, key=closeness, reverse=True):
        if total + seconds[name] <= most:
            chosen.append(name)
            total += seconds[name]
    return chosen


@dataclass
class Outcome:
    """What became of the mutants so far."""

    drawn: int
    killed: int = 0
    unnoticed: list[Mutant] = field(default_factory=list)
    """They survived and change a number."""
    harmless: list[Mutant] = field(default_factory=list)

    def add(self, mutant: Mutant, code: int | None) -> None:
        """Count a mutant by the exit code of its tests, and tell of one that survived."""
        told = f"{mutant.path}:{mutant.line}: {mutant.was} -> {mutant.becomes}"
        if code == CHANGES_A_NUMBER:
            self.unnoticed.append(mutant)
            print(f"survived, and changes a number: {told}", flush=True)
        elif code == 0:
            self.harmless.append(mutant)
            print(f"survived, and changes no number: {told}", flush=True)
        else:
            self.killed += 1

    def write(self, path: Path) -> None:
        """Store what there is: whoever is interrupted keeps it."""
        result = {
            "killed": self.killed,
            "survived and change a number": [asdict(mutant) for mutant in self.unnoticed],
            "survived and change none": [asdict(mutant) for mutant in self.harmless],
            "drawn": self.drawn,
        }
        path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")

    def __str__(self) -> str:
        noticeable = self.killed + len(self.unnoticed)
        missed = self.drawn - noticeable - len(self.harmless)
        return (
            f"{self.killed} of {noticeable} mutants that a test or a number notices were killed by a test\n"
            f"{len(self.harmless)} change nothing that is asked, {missed} of {self.drawn} drawn were not reached"
        )


def main(arguments: list[str]) -> int:
    """Measure the tests, draw mutants, run them, tell and store which survive."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rooms", nargs="+", default=ROOMS)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--until", type=float, default=600.0)
    parser.add_argument("--out", type=Path, default=Path("mutants.json"))
    parser.add_argument("--again", type=Path)
    given = parser.parse_args(arguments)
    until = time.monotonic() + given.until
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))  # for the numbers, which lie beside the tests
    names = sorted(str(path.relative_to(ROOT)) for room in TEST_ROOMS for path in (TESTS / room).rglob("test_*.py"))
    seconds = {
        key: taken
        for key, code, taken in in_parallel([(name, [name], None, 100.0) for name in names], given.processes, until)
        if code == 0
    }
    print(f"{len(seconds)} of {len(names)} test files pass by themselves, in {sum(seconds.values()):.0f} s", flush=True)
    if not seconds:
        raise SystemExit("no test file passes without a mutant")
    modules = [path for room in given.rooms for path in modules_in(SOURCE / "gaussveil" / room)]
    everything = [mutant for path in modules for mutant in mutants_of(path)]
    if given.again:
        stored = json.loads(given.again.read_text(encoding="utf-8"))
        drawn = [Mutant(**one) for one in stored["survived and change a number"]]
        drawn = [mutant for mutant in drawn if mutant in everything]
    else:
        drawn = random.Random(given.seed).sample(everything, min(given.count, len(everything)))
    jobs: list[Job] = []
    for mutant in drawn:
        files = suited(ROOT / mutant.path, seconds, given.seconds)
        plain = sum(seconds[name] for name in files)
        jobs.append((mutant, [*files, EVERY_NUMBER], mutant, STARTING + LIMIT_OVER_PLAIN * plain))
    write_plain_numbers()
    outcome = Outcome(len(drawn))
    for mutant, code, _ in in_parallel(jobs, given.processes, until):
        outcome.add(mutant, code)
        outcome.write(given.out)
    PLAIN.unlink()
    print(outcome)
    print(f"{len(everything)} exist")
    return 0


def modules_in(path: Path) -> list[Path]:
    """The modules of a room, or the one that was named."""
    return [path] if path.suffix else sorted(path.rglob("*.py"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
