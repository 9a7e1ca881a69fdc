"""Ed25519 keys and signatures over canonical JSON (RFC 8032, through `cryptography`)."""

from __future__ import annotations

import base64
import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaussveil.accounting.canonical import canonical_json
from gaussveil.errors import (
    FormatError,
    MissingDependencyError,
    ParameterError,
    install,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

Location = str | os.PathLike[str]


def _cryptography(module: str) -> Any:
    """A module of the library that unsigned certificates do without."""
    try:
        return import_module(f"cryptography.{module}")
    except ImportError as error:
        raise MissingDependencyError(
            f"signatures need cryptography: {install('standard')}"
        ) from error


def _ed25519() -> Any:
    return _cryptography("hazmat.primitives.asymmetric.ed25519")


def new_key(path: Location) -> tuple[Path, Path]:
    """Write a new private key (mode 0600) at `path` and its public key at `path`.pub; never overwrite either."""
    private_path = Path(path)
    public_path = private_path.with_name(private_path.name + ".pub")
    for target in (private_path, public_path):
        if target.exists():
            raise ParameterError(
                f"path must not exist yet: {target} is there already; choose another name"
            )
    key = _ed25519().Ed25519PrivateKey.generate()
    serialization = _cryptography("hazmat.primitives.serialization")
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    for target, body, mode in (
        (private_path, private, 0o600),
        (public_path, public, 0o644),
    ):
        with os.fdopen(
            os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb"
        ) as stream:
            stream.write(body)
    return private_path, public_path


def load_private_key(path: Location) -> Ed25519PrivateKey:
    """Read a private key that `new_key` wrote; one that others can read is refused, since they can sign with it."""
    body = _read(path)
    exceptions = _cryptography("exceptions")
    try:
        key = _cryptography("hazmat.primitives.serialization").load_pem_private_key(
            body, password=None
        )
    except (ValueError, TypeError, exceptions.UnsupportedAlgorithm) as error:
        raise FormatError(
            f"{Path(path).name} is not a private key file; make one with `gaussveil key new`"
        ) from error
    private: Ed25519PrivateKey = _of_kind(key, "Ed25519PrivateKey", path)
    if os.stat(path).st_mode & 0o077:
        raise ParameterError(
            f"a private key must be readable by its owner only. Run chmod 600 {Path(path).name}, or make a new one if "
            "others may have read it"
        )
    return private


def load_public_key(path: Location) -> Ed25519PublicKey:
    """Read a public key that `new_key` wrote."""
    body = _read(path)
    exceptions = _cryptography("exceptions")
    try:
        key = _cryptography("hazmat.primitives.serialization").load_pem_public_key(body)
    except (ValueError, TypeError, exceptions.UnsupportedAlgorithm) as error:
        raise FormatError(
            f"{Path(path).name} is not a public key file; it should end in .pub"
        ) from error
    public: Ed25519PublicKey = _of_kind(key, "Ed25519PublicKey", path)
    return public


def _of_kind(key: Any, kind: str, path: Location) -> Any:
    if not isinstance(key, getattr(_ed25519(), kind)):
        raise FormatError(
            f"{Path(path).name} must hold an Ed25519 key. Got {type(key).__name__}."
        )
    return key


def public_text(key: Ed25519PublicKey) -> str:
    """Give the 32 raw bytes of a public key in base64."""
    return base64.b64encode(key.public_bytes_raw()).decode()


def sign(record: object, key: Ed25519PrivateKey) -> dict[str, str]:
    """Sign the canonical JSON of a record."""
    value = base64.b64encode(key.sign(canonical_json(record).encode())).decode()
    return {
        "algorithm": "Ed25519",
        "public_key": public_text(key.public_key()),
        "value": value,
    }


def signature_holds(record: object, value: str, key: Ed25519PublicKey) -> bool:
    """Whether `value` signs the canonical JSON of the record under this key."""
    try:
        key.verify(
            base64.b64decode(value, validate=True), canonical_json(record).encode()
        )
    except (_cryptography("exceptions").InvalidSignature, ValueError):
        return False
    return True


def key_from_text(text: str) -> Ed25519PublicKey:
    """Inverse of `public_text`."""
    try:
        key: Ed25519PublicKey = _ed25519().Ed25519PublicKey.from_public_bytes(
            base64.b64decode(text, validate=True)
        )
        return key
    except ValueError as error:
        raise FormatError(
            "the signature's public key must be 32 bytes in base64"
        ) from error


def _read(path: Location) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ParameterError(
            f"the key file {path} cannot be read: {error.strerror}"
        ) from error
