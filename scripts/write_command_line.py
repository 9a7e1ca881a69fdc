"""Write a Markdown page from the commands themselves: python scripts/write_command_line.py PAGE; `make docs` does.

One section per command: what it does, its arguments and options, what is required, what is meant by default.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

TOP = """# Command line

Every command, as `gaussveil COMMAND --help` tells it; this page is written from the commands. How they end:
[exit codes](exit-codes.md). What all commands of a project share: [`gaussveil.toml`](sources.md#a-projects-own-names).
"""


def page() -> str:
    """The whole page."""
    os.environ.pop("GAUSSVEIL_MEMORY_LIMIT", None)
    from gaussveil.cli.main import app

    return "\n".join([TOP, *(section for section in sections(typer.main.get_command(app), ()))])


def sections(group: Any, path: tuple[str, ...]) -> Iterator[str]:
    """A section per command, those of groups after them in place."""
    for name, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield from sections(command, (*path, name))
        elif not command.hidden:
            yield section(" ".join((*path, name)), command)


def section(name: str, command: Any) -> str:
    """What a command does and takes."""
    said = [" ".join(part.split()) for part in inspect.cleandoc(command.help or "").split("\n\n")]
    text, example = said[:-1] if said[-1].startswith("Example:") else said, said[-1].removeprefix("Example: ")
    rows = [row(parameter) for parameter in command.params if not getattr(parameter, "hidden", False)]
    shown = [f"## {name}\n", *(f"{plain(part)}\n" for part in text), f"    $ {example}\n"]
    return "\n".join([*shown, "| option | what it is | |\n|---|---|---|", *rows, ""])


def row(parameter: Any) -> str:
    """One line of the table."""
    option = parameter.param_type_name == "option"
    name = (
        ", ".join(f"`{one}`" for one in parameter.opts)
        if option
        else f"`{parameter.metavar or parameter.name.upper()}`"
    )
    words = plain(parameter.help or "")
    given = parameter.default if parameter.show_default is not False else None
    empty = given is None or given is False or given in ("", []) or callable(given)
    note = "required" if parameter.required else "" if empty else f"`{getattr(given, 'value', given)}`"
    return f"| {name} | {words} | {note} |"


def plain(text: str) -> str:
    """Text that Markdown and a table leave as it is."""
    return text.replace("|", "\\|").replace("*", "\\*").replace("{", "\\{")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
