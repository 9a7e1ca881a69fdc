"""The `gaussveil` command: mounts each room's commands and turns errors into one line and an exit code.

Command modules import the numerical code inside their functions, so that `gaussveil --help` answers at once.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from gaussveil.cli import spectrum
from gaussveil.cli.accountant import accountant
from gaussveil.cli.audit import audit
from gaussveil.cli.backup import backup, restore
from gaussveil.cli.budget import budget_app
from gaussveil.cli.certificates import key_app, verify
from gaussveil.cli.demo import demo
from gaussveil.cli.forecast import forecast
from gaussveil.cli.missing import AllMissing, refuse_former
from gaussveil.cli.mixture import label_mixture, mixture, sample
from gaussveil.cli.output import BAD_INPUT, EXIT_CODE_HELP, exit_code, print_error
from gaussveil.cli.posterior import gp, logistic
from gaussveil.cli.project import project_defaults
from gaussveil.cli.query import query
from gaussveil.cli.regression import pca, regress
from gaussveil.cli.release import release_app
from gaussveil.cli.sketch import sketch
from gaussveil.cli.stream import stream_app
from gaussveil.cli.study import study
from gaussveil.cli.tables import with_file_options
from gaussveil.errors import GaussveilError, SourceError

LARGE_MATRICES = ("gp", "sketch")
STOPPED = 130  # what a shell expects after Ctrl-C

app = typer.Typer(
    name="gaussveil",
    help="Exact differential privacy for Gaussian releases.",
    epilog=EXIT_CODE_HELP,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
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
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
    memory_limit: Annotated[
        str | None, typer.Option(help="Memory for tables before they spill to disk, such as 4GB (default 2GB).")
    ] = None,
) -> None:
    """Exact differential privacy for Gaussian releases."""
    if memory_limit is not None:
        os.environ["GAUSSVEIL_MEMORY_LIMIT"] = memory_limit
    context.default_map = project_defaults(context.command, Path.cwd())


for _command_name, _command in spectrum.COMMANDS.items():
    app.command(_command_name, epilog=EXIT_CODE_HELP)(_command)
for _command in (
    accountant,
    query,
    sketch,
    regress,
    pca,
    logistic,
    gp,
    mixture,
    sample,
    forecast,
    audit,
    verify,
    demo,
    study,
    backup,
    restore,
):
    app.command(_command.__name__, epilog=EXIT_CODE_HELP)(_command)
app.command("label-mixture", epilog=EXIT_CODE_HELP)(label_mixture)
for _group in (release_app, stream_app, budget_app, key_app):
    app.add_typer(_group)
# The studio stands beside this room, so it is mounted by name: neither knows the other's code.
app.command("studio", epilog=EXIT_CODE_HELP)(import_module("gaussveil.studio.command").studio)
for _mounted in (app, *(group.typer_instance for group in app.registered_groups)):
    for _info in _mounted.registered_commands if _mounted else ():
        _info.callback = _info.callback and with_file_options(_info.callback)
        _info.cls = AllMissing


def main() -> None:
    """Run the command line; every failure ends as ``error CODE: message`` and an exit code, never as a traceback."""
    words = sys.argv[3:] if sys.argv[1:2] == ["--memory-limit"] else sys.argv[1:]
    command = words[0] if words else ""
    if command not in LARGE_MATRICES:
        for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            os.environ.setdefault(variable, "1")  # on small matrices the threads of BLAS only wait for each other
    try:
        refuse_former(sys.argv[1:])
        app()
    except GaussveilError as error:
        print_error(error.code, str(error))
        sys.exit(exit_code(error))
    except SystemExit as end:
        if end.code == STOPPED and (command == "demo" or any(word.startswith("--ledger") for word in sys.argv)):
            print("stopped; what was debited by then counts as spent: gaussveil budget show LEDGER", file=sys.stderr)
        raise
    except BrokenPipeError:  # whoever reads has read enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        # A file that could not be written or read by a command: the path and the system's own words suffice.
        print_error(SourceError.code, f"{error.filename or 'file'}: {error.strerror or error}")
        sys.exit(BAD_INPUT)
