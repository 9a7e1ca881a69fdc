"""Run the examples of a Markdown page in the environment that runs this script.

usage: python scripts/run_examples.py WORK_FOLDER PAGE

The ```python fences of a page are one program, run in order; where a fence promises values by comments `# -> value` it
must print as many lines, each beginning with its value. A ```console fence runs each line after `$ ` that calls
gaussveil, which must end with 0 or with the code that a comment `# exit 1` names. All happens inside WORK_FOLDER,
away from the source tree, so what a Python fence writes a console fence can read. The tests run pages in processes
of their own, and their commands `inside` those.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

FENCE = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROMISE = re.compile(r"# -> (.*)$", re.MULTILINE)


def outside(words: list[str]) -> int:
    """Run a command as a user does, in a process of its own."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=600)
    print(done.stdout, end="")
    if done.returncode:
        print(done.stderr, file=sys.stderr)
    return done.returncode


def inside(words: list[str]) -> int:
    """Run a command in this process, by what its script calls."""
    from gaussveil.command import main as gaussveil

    with patch.object(sys, "argv", words):
        try:
            gaussveil()
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def run(line: str, command: Callable[[list[str]], int]) -> None:
    """Run a shell example; stop where it fails."""
    expected = re.search(r"# exit (\d)$", line)
    ended = command(shlex.split(line, comments=True))
    if ended != (int(expected.group(1)) if expected else 0):
        sys.exit(f"example failed with {ended}: {line}")


def commands(text: str) -> list[str]:
    """The gaussveil commands of a console fence, continuation lines joined."""
    return re.findall(r"^\$ (gaussveil .*)$", re.sub(r"\\\n\s*", " ", text), re.MULTILINE)


def run_page(page: Path, folder: Path, command: Callable[[list[str]], int]) -> int:
    """Run every example of a page in its order and return how many there were."""
    fences = FENCE.findall(page.read_text(encoding="utf-8"))
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    names: dict[str, object] = {"__name__": "__main__"}
    for kind, text in fences:
        if kind == "console":
            for line in commands(text):
                run(line, command)
            continue
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(text, str(page), "exec"), names)
        print(output.getvalue(), end="")
        promised = PROMISE.findall(text)
        printed = output.getvalue().splitlines()
        if promised and len(printed) != len(promised):
            sys.exit(f"{page.name} promises {len(promised)} lines, the example printed {len(printed)}")
        for line, value in zip(printed, promised):
            if not line.startswith(value.removesuffix("...")):
                sys.exit(f"{page.name} promises {value!r}, the example printed {line!r}")
    return len(fences)


def main(folder: Path, page: Path, command: Callable[[list[str]], int] = outside) -> None:
    """Run a page; one without examples is a mistake in the call."""
    count = run_page(page, folder, command)
    if not count:
        sys.exit(f"{page} has no example")
    print(f"{page.name}: {count} examples run")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
