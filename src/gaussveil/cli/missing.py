"""Mistakes in options, answered at once: everything that is missing in one line, and old names with the new one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import typer
from typer.core import TyperCommand

from gaussveil.cli.options import Written
from gaussveil.cli.output import BAD_INPUT, print_error
from gaussveil.cli.project import form_defaults
from gaussveil.errors import ParameterError

TABLES = ("source", "history", "data")
"""What commands call the table that they read."""
FORMER = {
    "--household-column": "--household",
    "--time-column": "--time",
    "--power-column": "--power",
    "--sensitivity": "--l2-sensitivity",
    "--components": "--n-components",
    "--size": "--nominal-size",
}


class AllMissing(TyperCommand):
    """A command that names every required option that is not there, not the first alone, and any given twice."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As click does, with all that is missing in one sentence."""
        if not ctx.resilient_parsing and not {"--help", "--version"} & set(args):
            given, _, order = self.make_parser(ctx).parse_args(args=list(args))
            # A second value would silently take the place of the first.
            options: list[Any] = [
                one for one in order if one.param_type_name == "option"
            ]
            once = [
                _spoken(one)
                for one in options
                if not (one.multiple or one.is_flag or one.count)
            ]
            if twice := dict.fromkeys(
                option for option in once if once.count(option) > 1
            ):
                told = (
                    f"{' and '.join(twice)} must be given once, "
                    "several values separated by commas where it takes them"
                )
                print_error(ParameterError.code, told)
                raise typer.Exit(BAD_INPUT)
            ctx.default_map = {
                **(ctx.default_map or {}),
                **_by_form(given, ctx.default_map or {}, self.params),
            }
            known = {
                **ctx.default_map,
                **{
                    name: value
                    for name, value in given.items()
                    if value not in (None, ())
                },
            }
            lacking = {
                one.name: one
                for one in self.params
                if one.required and one.name not in known
            }
            if "out" in lacking:
                written = getattr(vars(lacking["out"])["type"], "func", None)
            else:
                written = None
            if known.get("dry_run") and isinstance(
                written, Written
            ):  # nothing is written: any name will do
                args = [*args, "--out", written.placeholder]
                del lacking["out"]
            if lacking:
                told = f"{' and '.join(map(_spoken, lacking.values()))} must be given: see {ctx.command_path} --help"
                print_error(ParameterError.code, told)
                raise typer.Exit(BAD_INPUT)
        return super().parse_args(ctx, args)


def _by_form(
    given: Mapping[str, Any], project: Mapping[str, Any], parameters: Sequence[Any]
) -> dict[str, str]:
    """Values that the form of the command's table says."""
    address = next((given[name] for name in TABLES if given.get(name)), None)
    schema = given.get("schema") or project.get("schema")
    return form_defaults(address, schema, {one.name for one in parameters})


def _spoken(parameter: Any) -> str:
    return str(
        parameter.opts[-1]
        if parameter.param_type_name == "option"
        else parameter.metavar or parameter.name
    )


def refuse_former(words: Sequence[str]) -> None:
    """Refuse options that have another name now."""
    options = [word.partition("=")[0] for word in words]
    for option in options:
        if option in FORMER:
            raise ParameterError(f"{option} is called {FORMER[option]} now")
    if words[:1] in (["check"], ["audit"]) and {"--epsilon", "--delta"} & {*options}:
        raise ParameterError(
            "--epsilon and --delta of a claim are one option: --claim EPSILON,DELTA, as in 1,1e-6"
        )
    if words[:1] in (["forecast"], ["demo"]) and "--unit" in options:
        raise ParameterError(
            "--unit is called --in now: a unit is whose row it is, power is measured in kW"
        )
