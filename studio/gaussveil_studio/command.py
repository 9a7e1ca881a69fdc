"""`gaussveil studio`: start the server and say where it is. Mounted by the command line by name, without an import."""

from __future__ import annotations

import importlib.util
import json as json_format
import os
import socket
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from gaussveil.errors import MissingDependencyError, SourceError, install
from gaussveil.files import PRIVATE, write_whole
from gaussveil_studio.settings import (
    MEBIBYTE,
    Settings,
    held_alone,
    private_folder,
    read_password,
    require_protection,
)

NEEDED = ("fastapi", "multipart", "uvicorn")
# One thread for linear algebra: pairs are small here, while threads cost memory and a start.
LEAN = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def studio(
    ledger: Annotated[
        Path, typer.Option(help="Ledger file; made when the first account is opened.")
    ] = Path("gaussveil.ledger"),
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="Folder, file or address of tables that may be released; may be repeated."
        ),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")
    ] = 0,
    host: Annotated[
        str,
        typer.Option(help="Address; others than this machine need a password and TLS."),
    ] = "127.0.0.1",
    name: Annotated[
        list[str] | None,
        typer.Option(help="Name by which others reach this machine; may be repeated."),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(help="Folder of releases and uploads; beside the ledger."),
    ] = None,
    diagnostics: Annotated[
        bool, typer.Option("--diagnostics", help="Add the page of private diagnostics.")
    ] = False,
    upload_limit: Annotated[
        int, typer.Option(min=1, max=65536, help="Largest upload, MiB.")
    ] = 256,
    keep_days: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="At the start remove files of releases older than this; all stay by default.",
        ),
    ] = None,
    signing_key: Annotated[
        Path | None,
        typer.Option(
            help="Private key of `gaussveil key new` that certificates can be signed with."
        ),
    ] = None,
    password_file: Annotated[
        Path | None,
        typer.Option(help="File whose first line is the password; mode 600."),
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="TLS certificate, PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its private key, PEM.")] = None,
    proxy: Annotated[
        str | None,
        typer.Option(
            help="Address of a proxy in front, whose X-Forwarded-For is believed; none by default."
        ),
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the link in a browser.")
    ] = True,
    json: Annotated[
        bool, typer.Option("--json", help="Print the address as one JSON object.")
    ] = False,
) -> None:
    """Explore, release, keep the books and verify in a browser; serves until it is stopped (Ctrl-C).

    Example: gaussveil studio --ledger home.ledger --data tables --no-browser
    """
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        raise MissingDependencyError(
            f"the studio needs {', '.join(missing)}: {install('studio')}"
        )
    for variable, value in LEAN.items():
        os.environ.setdefault(variable, value)
    if password_file is None:
        password = None
    else:
        password = read_password(password_file)
    require_protection(host, password, tls_cert, tls_key)
    if signing_key is not None:
        from gaussveil.accounting.certificates.keys import load_private_key

        load_private_key(
            signing_key
        )  # a wrong one is told now, not when somebody signs
    folder = private_folder((state or Path(f"{ledger}.studio")).absolute())
    with held_alone(folder):
        listener = _bound(host, port)
        settings = Settings(
            host=host,
            port=listener.getsockname()[1],
            other_names=tuple(name or ()),
            ledger=ledger.absolute(),
            tables=tuple(data or ()),
            state=folder,
            diagnostics=diagnostics,
            upload_limit=upload_limit * MEBIBYTE,
            keep_days=keep_days,
            signing_key=signing_key,
            password=password,
            tls_certificate=tls_cert,
            tls_key=tls_key,
            proxy=proxy,
        )
        if json:
            if password is not None:
                token = None
            else:
                token = settings.token
            known = {
                "link": settings.link,
                "pages": settings.pages,
                "address": settings.address,
                "token": token,
            }
            print(json_format.dumps(known))
        else:
            print(f"gaussveil studio: {settings.link}")
        sys.stdout.flush()
        if browser:
            webbrowser.open(
                settings.link if password is not None else _doorstep(settings)
            )
        from gaussveil_studio.server import serve

        serve(settings, listener)


def _doorstep(settings: Settings) -> str:
    """A page that leads to the link and that we alone can read: everybody on the machine sees a browser's arguments."""
    page = settings.state / "open.html"
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>gaussveil studio</title>'
        f'<meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0; url={settings.link}">'
        f'</head><body><p><a href="{settings.link}">gaussveil studio</a></p></body></html>\n'
    )
    return write_whole(page, text, PRIVATE).as_uri()


def _bound(host: str, port: int) -> socket.socket:
    if ":" in host:
        family = socket.AF_INET6
    else:
        family = socket.AF_INET
    try:
        return listening(family, host, port)
    except OSError as error:
        raise SourceError(
            f"cannot listen on {host}:{port} ({error.strerror})"
        ) from None


def listening(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    """A listening socket whose connections send small answers at once, without waiting for the last one's receipt."""
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind((host, port))
        listener.listen()  # at once, so that whoever opens the link early waits instead of being refused
    except OSError:
        listener.close()
        raise
    return listener
