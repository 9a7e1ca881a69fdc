"""What the studio was started with: address, ledger, tables, limits. Nothing here changes afterwards."""

from __future__ import annotations

import fcntl
import ipaddress
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gaussveil.errors import ParameterError, SourceError

MEBIBYTE = 1 << 20
SHORTEST_PASSWORD = 12
RESOLVED = (
    "127.0.0.1",
    "::1",
    "localhost",
)  # where browsers look for every name that ends in .localhost


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that a request cannot change."""

    host: str = "127.0.0.1"
    port: int
    other_names: tuple[str, ...] = ()
    ledger: Path
    tables: tuple[str, ...] = ()
    state: Path
    diagnostics: bool = False
    upload_limit: int = 256 * MEBIBYTE
    keep_days: int | None = None
    signing_key: Path | None = None
    password: str | None = None
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    proxy: str | None = None
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    own_name: str = field(
        default_factory=lambda: f"studio-{secrets.token_hex(16)}.localhost", repr=False
    )

    def __post_init__(self) -> None:
        require_protection(self.host, self.password, self.tls_certificate, self.tls_key)

    @property
    def tour_ledger(self) -> Path:
        """The ledger of the tour, whose accounts pay for rows of nobody and for nothing else."""
        return self.state / "tour.ledger"

    @property
    def scheme(self) -> str:
        """How the address begins."""
        if self.tls_certificate is None:
            return "http"
        return "https"

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts by which we may be called; any other name is somebody else's idea."""
        if ":" in self.host:
            plain = f"[{self.host}]"
        else:
            plain = self.host
        return (
            *self.other_names,
            plain,
            *(["localhost", self.own_name] if is_loopback(self.host) else []),
        )

    @property
    def page_hosts(self) -> tuple[str, ...]:
        """Hosts of pages, the only ones where a browser has a session.

        Browsers send the cookies of a host to each of its ports, and on this machine other people may listen there. So
        pages have a host of their own that nobody can guess, unless the owner has named one.
        """
        return self.other_names or (
            (self.own_name,) if is_loopback(self.host) else self.hosts
        )

    def origins(self, hosts: Sequence[str]) -> tuple[str, ...]:
        """Hosts with our port, as browsers say where a request comes from."""
        if self.scheme == "http":
            default = 80
        else:
            default = 443
        named = tuple(f"{name}:{self.port}" for name in hosts) + (
            tuple(hosts) if self.port == default else ()
        )
        return tuple(f"{self.scheme}://{name}" for name in named)

    @property
    def address(self) -> str:
        """Where programs find the studio."""
        return self.origins(self.hosts)[0]

    @property
    def pages(self) -> str:
        """Where browsers find its pages."""
        return self.origins(self.page_hosts)[0]

    @property
    def link(self) -> str:
        """What the user opens: the token is in it, unless a password is asked for."""
        if self.password is not None:
            return f"{self.pages}/"
        return f"{self.pages}/?token={self.token}"


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def require_protection(
    host: str, password: str | None, certificate: Path | None, key: Path | None
) -> None:
    """Refuse an address that others can reach without a password and TLS; to be called before anything listens."""
    if (certificate is None) != (key is None):
        raise ParameterError("--tls-cert and --tls-key must be given together")
    if not is_loopback(host) and (password is None or certificate is None):
        raise ParameterError(
            f"--host {host} can be reached by others: give --password-file, --tls-cert and --tls-key, "
            "or stay on 127.0.0.1"
        )
    if is_loopback(host) and host not in RESOLVED:
        raise ParameterError(
            f"--host on this machine must be one of {', '.join(RESOLVED)}. Got {host}."
        )
    for file in (certificate, key):
        if file is not None and not file.is_file():
            raise SourceError(f"{file}: there is no such file")


def read_password(path: Path) -> str:
    """The first line of a file that nobody else can read."""
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise ParameterError(
                f"{path.name}: others can read the password; run chmod 600 on it"
            )
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(
            f"{path.name}: the password file cannot be read ({type(error).__name__})"
        ) from None
    if not lines or len(lines[0]) < SHORTEST_PASSWORD:
        raise ParameterError(
            f"{path.name}: the password must have at least {SHORTEST_PASSWORD} characters"
        )
    return lines[0]


def private_folder(path: Path) -> Path:
    """A folder that only its owner can enter, made if need be."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.chmod(path, 0o700)
    except OSError as error:
        raise SourceError(
            f"{path.name}: the folder cannot be made ({error.strerror})"
        ) from None
    return path


@contextmanager
def held_alone(folder: Path) -> Iterator[None]:
    """Hold a folder: two studios on it would not know of each other's releases."""
    with open(folder / "studio.lock", "ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SourceError(
                f"{folder.name}: another studio runs on this folder; stop it, or give --state"
            ) from None
        yield
