"""The `gaussveil` command: mounts each room's commands and turns errors into one line and an exit code.

A command's module is imported when it is called, and the numerical code inside its function, so that `gaussveil --help`
answers at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache, wraps
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from gaussveil.cli.missing import AllMissing, refuse_split_claim, refuse_table
from gaussveil.cli.output import (
    BAD_INPUT,
    EXIT_CODE_HELP,
    OUR_FAULT,
    exit_code,
    print_error,
    print_unexpected,
)
from gaussveil.errors import GaussveilError, SourceError

LARGE_MATRICES = ("gp", "sketch")
STOPPED = 130  # what a shell expects after Ctrl-C

# Every command: where it lives, and its line in the help. Studio and demo stand beside the library: by name alone.
COMMANDS = {
    "demo": (
        "gaussveil_town.demo:demo",
        "A utility's whole job on a simulated town, or on your readings.",
    ),
    "schema": (
        "gaussveil.cli.schema:schema",
        "The form of a table: how it is written, for a person to keep.",
    ),
    "query": (
        "gaussveil.cli.query:query",
        "Counts, means, histograms, quantiles of a table by group.",
    ),
    "release": (
        "gaussveil.cli.release:release_app",
        "A vector, matrix or time series with noise.",
    ),
    "mixture": (
        "gaussveil.cli.mixture:mixture",
        "A distribution to sample synthetic rows from and to classify with.",
    ),
    "label-mixture": (
        "gaussveil.cli.mixture:label_mixture",
        "The same where labels alone are private.",
    ),
    "synthesise": (
        "gaussveil.cli.synthesise:synthesise",
        "A synthetic table: same columns and types, rows of nobody.",
    ),
    "sample": (
        "gaussveil.cli.mixture:sample",
        "Synthetic rows from a released mixture; free.",
    ),
    "classify": (
        "gaussveil.cli.mixture:classify",
        "The classes of a table's rows by a released mixture; free.",
    ),
    "regress": (
        "gaussveil.cli.regression:regress",
        "A linear regression with intervals.",
    ),
    "pca": (
        "gaussveil.cli.regression:pca",
        "Principal components of a table, with intervals.",
    ),
    "logistic": ("gaussveil.cli.posterior:logistic", "A Bayesian logistic regression."),
    "gp": ("gaussveil.cli.posterior:gp", "A Gaussian process at public points."),
    "sketch": (
        "gaussveil.cli.sketch:sketch",
        "A random projection of a table: moments, regression, components.",
    ),
    "forecast": (
        "gaussveil.cli.forecast:forecast",
        "A load forecast that hides which household it is.",
    ),
    "stream": (
        "gaussveil.cli.stream:stream_app",
        "Private meter streams: design and run.",
    ),
    "budget": (
        "gaussveil.cli.budget:budget_app",
        "Privacy budgets: new, plan, show, history, check, export, void.",
    ),
    "verify": ("gaussveil.cli.certificates:verify", "Recompute a certificate."),
    "key": ("gaussveil.cli.certificates:key_app", "Keys that sign certificates."),
    "delta": (
        "gaussveil.cli.spectrum:delta",
        "Exact delta of a pair of Gaussians at an epsilon.",
    ),
    "epsilon": (
        "gaussveil.cli.spectrum:epsilon",
        "Smallest epsilon of a pair at a delta.",
    ),
    "curve": ("gaussveil.cli.spectrum:curve", "Privacy curves of several pairs."),
    "check": (
        "gaussveil.cli.spectrum:check",
        "Decide a claimed (epsilon, delta) by a proof.",
    ),
    "accountant": (
        "gaussveil.cli.accountant:accountant",
        "Privacy of DP-SGD and repeated noise, or the noise for it.",
    ),
    "calibrate": (
        "gaussveil.cli.calibrate:calibrate",
        "The least noise that keeps a promise.",
    ),
    "audit": (
        "gaussveil.cli.audit:audit",
        "Test a claim on every neighbour of the data.",
    ),
    "backup": (
        "gaussveil.cli.backup:backup",
        "A ledger, or a gateway's state, to one archive.",
    ),
    "restore": ("gaussveil.cli.backup:restore", "Check an archive and unpack it."),
    "study": (
        "gaussveil.cli.study:study",
        "Recompute a paper's figures, tables and claims.",
    ),
    "studio": (
        "gaussveil_studio.command:studio",
        "Explore, release and keep the books in a browser.",
    ),
}


class _Loaded(Mapping[str, Any]):
    """The commands by name, each imported when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        return _load(name, COMMANDS[name][0])

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _Commands(TyperGroup):
    """The commands, of which the help tells what it knows without importing them."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = _Loaded()  # type: ignore[assignment]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """A line for each command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in COMMANDS.items()])


@cache
def _load(name: str, place: str) -> Any:
    """The command or group of commands at `module:name`, with the options that every command of its kind has."""
    from gaussveil.cli.tables import with_file_options

    module, _, attribute = place.partition(":")
    command = getattr(import_module(module), attribute)
    group = isinstance(command, typer.Typer)
    if group:
        mounted = command
    else:
        mounted = typer.Typer()
    if not group:
        mounted.command(name, epilog=EXIT_CODE_HELP)(command)
    mounted.rich_markup_mode = None
    mounted._add_completion = False
    for info in mounted.registered_commands:
        info.callback = info.callback and _answered(with_file_options(info.callback))
        info.cls = AllMissing
    if group:
        return typer.main.get_group(mounted)
    return typer.main.get_command(mounted)


def _answered(command: Callable[..., None]) -> Callable[..., None]:
    """The command, whose end of a file that nobody foresaw is a mistake like others: Typer would end with 1 for it."""

    @wraps(command)
    def run(**given: Any) -> None:
        try:
            command(**given)
        except EOFError as error:
            raise RuntimeError("a file ended early") from error

    return run


app = typer.Typer(
    name="gaussveil",
    cls=_Commands,
    help="Exact differential privacy for Gaussian releases.",
    epilog=EXIT_CODE_HELP,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"max_content_width": 120},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from gaussveil import __version__

        print(f"gaussveil {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Print the version.",
        ),
    ] = False,
    memory_limit: Annotated[
        str | None,
        typer.Option(
            help="Memory for tables before they spill to disk, such as 4GB (default 2GB)."
        ),
    ] = None,
) -> None:
    """Exact differential privacy for Gaussian releases."""
    if memory_limit is not None:
        os.environ["GAUSSVEIL_MEMORY_LIMIT"] = memory_limit
    if (file := Path.cwd() / "gaussveil.toml").is_file():
        from gaussveil.cli.project import project_defaults

        context.default_map = project_defaults(
            context.command, context.invoked_subcommand or "", file
        )


def main() -> None:
    """Run the command line; every failure ends as ``error CODE: message`` and an exit code, never as a traceback."""
    command = _command()
    if command not in LARGE_MATRICES:
        # on small matrices the threads of BLAS only wait for each other
        for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            os.environ.setdefault(variable, "1")
    try:
        refuse_table(command, COMMANDS)
        refuse_split_claim(sys.argv[1:])
        app()
    except GaussveilError as error:
        print_error(error.code, str(error))
        sys.exit(exit_code(error))
    except SystemExit as end:
        _ended(end, command)
        raise
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        # A file that could not be written or read by a command: the path and the system's own words suffice.
        print_error(
            SourceError.code,
            f"{error.filename or 'standard output'}: {error.strerror or error}",
        )
        sys.exit(BAD_INPUT)
    except Exception as error:  # of a library, or a mistake of ours: never a traceback, never a code that is an answer
        print_unexpected(error)
        raise SystemExit(OUR_FAULT) from None


def _command() -> str:
    """The command's name, the first word but for the one option that all share."""
    words = sys.argv[1:]
    if words[:1] == ["--memory-limit"]:
        words = words[2:]
    return words[0] if words else ""


def _ended(end: SystemExit, command: str) -> None:
    """What there is to say when a command ends before its end."""
    # what Typer does with a broken pipe: whoever reads has read enough, as `head` does
    if end.code == 1 and type(sys.stdout).__name__ == "PacifyFlushWrapper":
        sys.exit(0)
    pays = command == "demo" or any(word.startswith("--ledger") for word in sys.argv)
    if end.code == STOPPED and pays:
        print(
            "stopped; what was debited by then counts as spent: gaussveil budget show LEDGER",
            file=sys.stderr,
        )
