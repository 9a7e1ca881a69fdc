"""Run a Markdown file's Python examples and `gaussveil` commands in the environment that runs this script.

usage: python scripts/run_readme.py README.md WORK_FOLDER

A fence marked ```python is executed; the lines it prints must start with the values promised by its comments
`# -> value`. A fence marked ```console runs each line after `$ ` that calls gaussveil. Everything happens inside
WORK_FOLDER, away from the source tree.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

FENCE = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(command: list[str], folder: Path) -> str:
    """Run a command in a clean environment and return what it printed; stop where it fails."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    print(done.stdout, end="")
    if done.returncode:
        sys.exit(f"README example failed with {done.returncode}: {' '.join(command)}\n{done.stderr}")
    return done.stdout


def main(readme: Path, folder: Path) -> None:
    """Run every example, in the order of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    examples = FENCE.findall(readme.read_text(encoding="utf-8"))
    if not any(kind == "python" for kind, _ in examples):
        sys.exit(f"{readme} has no Python example")
    for kind, text in examples:
        if kind == "python":
            printed = run([sys.executable, "-c", text], folder).splitlines()
            expected = re.findall(r"# -> (.*)$", text, re.MULTILINE)
            for line, value in zip(printed, expected, strict=True):
                if not line.startswith(value.removesuffix("...")):
                    sys.exit(f"README promises {value!r}, the example printed {line!r}")
        else:
            for line in re.findall(r"^\$ (gaussveil .*)$", text, re.MULTILINE):
                run(shlex.split(line), folder)
    print(f"{readme.name}: {len(examples)} examples run")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
