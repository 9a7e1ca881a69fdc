"""Mistakes in options, answered at once: all that is missing in one line, what is given twice, decimal commas."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand

from gaussveil.cli.options import Written
from gaussveil.cli.output import BAD_INPUT, print_error
from gaussveil.cli.project import form_defaults
from gaussveil.errors import ParameterError

TABLES = ("source", "history", "data")
"""What commands call the table that they read."""
_COMMA_NUMBER = re.compile(r"[+-]?[0-9]*,[0-9]+([eE][+-]?[0-9]+)?")


class AllMissing(TyperCommand):
    """A command that names every required option that is not there, not the first alone, and any given twice."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As click does, with all that is missing in one sentence."""
        if not ctx.resilient_parsing and not {"--help", "--version"} & set(args):
            given, _, order = self.make_parser(ctx).parse_args(args=list(args))
            _refuse_repeated(order)
            _refuse_commas(given, self.params)
            project = ctx.default_map or {}
            ctx.default_map = {**project, **_by_form(given, project, self.params)}
            values = {**ctx.default_map, **_not_empty(given)}
            lacking = {
                parameter.name: parameter
                for parameter in self.params
                if parameter.required and parameter.name not in values
            }
            written = _written(lacking.get("out"))
            if values.get("dry_run") and written is not None:
                # nothing is written: any name will do
                args = [*args, "--out", written.placeholder]
                del lacking["out"]
            if lacking:
                _refuse(
                    f"{' and '.join(map(_spoken, lacking.values()))} must be given: see {ctx.command_path} --help"
                )
        return super().parse_args(ctx, args)


def _not_empty(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given a value."""
    return {name: value for name, value in given.items() if value not in (None, ())}


def _by_form(
    given: Mapping[str, Any], project: Mapping[str, Any], parameters: Sequence[Any]
) -> dict[str, str]:
    """Values that the form of the command's table says."""
    address = next((given[name] for name in TABLES if given.get(name)), None)
    schema = given.get("schema") or project.get("schema")
    return form_defaults(address, schema, {parameter.name for parameter in parameters})


def _refuse_repeated(order: Iterable[Any]) -> None:
    """A second value would silently take the place of the first."""
    once = [
        _spoken(parameter)
        for parameter in order
        if parameter.param_type_name == "option" and _takes_one(parameter)
    ]
    twice = dict.fromkeys(option for option in once if once.count(option) > 1)
    if twice:
        _refuse(
            f"{' and '.join(twice)} must be given once, several values separated by commas where it takes them"
        )


def _refuse_commas(given: Mapping[str, Any], parameters: Sequence[Any]) -> None:
    """A number with a decimal comma: say how it is written here."""
    for parameter in parameters:
        text = given.get(parameter.name)
        is_number = vars(parameter)["type"].name.startswith("float")
        if is_number and isinstance(text, str) and _COMMA_NUMBER.fullmatch(text):
            point = text.replace(",", ".")
            _refuse(
                f"{_spoken(parameter)} takes a decimal point: {point}. Got {text!r}."
            )


def _takes_one(option: Any) -> bool:
    return not (option.multiple or option.is_flag or option.count)


def _written(parameter: Any) -> Written | None:
    """The file that a command writes, if the parameter is one."""
    if parameter is None:
        return None
    parser = getattr(vars(parameter)["type"], "func", None)
    return parser if isinstance(parser, Written) else None


def _refuse(words: str) -> NoReturn:
    print_error(ParameterError.code, words)
    raise typer.Exit(BAD_INPUT)


def _spoken(parameter: Any) -> str:
    return str(
        parameter.opts[-1]
        if parameter.param_type_name == "option"
        else parameter.metavar or parameter.name
    )


def refuse_table(command: str, commands: Collection[str]) -> None:
    """Refuse a table where a command should be, and say which command reads one."""
    is_table = "." in command and not command.startswith("-")
    if is_table and command not in commands:
        raise ParameterError(
            f"{command} is no command; of a table, gaussveil schema {command} tells what is in its columns and "
            f"gaussveil query {command} answers questions (gaussveil --help lists all commands)"
        )


def refuse_split_claim(words: Sequence[str]) -> None:
    """Refuse a claim in the two options that every other command has, and say how it is written."""
    options = {word.partition("=")[0] for word in words}
    if words[:1] in (["check"], ["audit"]) and {"--epsilon", "--delta"} & options:
        raise ParameterError(
            "--epsilon and --delta of a claim are one option: --claim EPSILON,DELTA, as in 1,1e-6"
        )
