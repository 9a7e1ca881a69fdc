"""The file of a released mixture: what must stand in it, whoever wrote it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from gaussveil.accounting.canonical import fields, parse_json
from gaussveil.accounting.certificates.certificate import Certificate
from gaussveil.errors import FormatError
from gaussveil.typing import Floats

FORMAT = "gaussveil mixture"
VERSION = 2  # the first had neither label nor log
LARGEST_FILE = 2**28  # characters; ten classes in a thousand columns take a fifth of it
_FIELDS = (
    "format",
    "version",
    "columns",
    "classes",
    "weights",
    "means",
    "covariances",
    "certificate",
)
_NEWER = ("label", "log")


def text_of(path: str | os.PathLike[str]) -> str:
    """What a model's file holds, and one character more where that is too much for a model."""
    try:
        with Path(path).open(encoding="utf-8") as stream:
            return stream.read(LARGEST_FILE + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(
            f"the mixture model {path} cannot be read: {error}"
        ) from error


def stated_model(body: str) -> dict[str, Any]:
    """Arguments of the model that a file's text states; every field is checked, and no other may stand there."""
    what = "a mixture model"
    if len(body) > LARGEST_FILE:
        raise FormatError(f"{what} must be a file of at most {LARGEST_FILE >> 20} MiB")
    stated = _stated_fields(body, what)
    if not _are_names(stated["classes"], str | int | float):
        raise FormatError(f"{what} needs 'classes' as a list of text or numbers")
    if not _are_names(stated["columns"], str):
        raise FormatError(f"{what} needs 'columns' as a list of text")
    label = stated.get("label", "class")
    log = stated.get("log")
    is_number = isinstance(log, int | float | None) and not isinstance(log, bool)
    if not isinstance(label, str) or not is_number:
        raise FormatError(f"{what} needs 'label' as text and 'log' as a number or null")
    certificate = None
    if stated["certificate"] is not None:
        certificate = Certificate.from_dict(stated["certificate"])
    return {
        "weights": _numbers(stated["weights"], "weights"),
        "means": _numbers(stated["means"], "means"),
        "covariances": _numbers(stated["covariances"], "covariances"),
        "classes": tuple(stated["classes"]),
        "columns": tuple(stated["columns"]),
        "certificate": certificate,
        "label": label,
        "log": log,
    }


def _numbers(value: object, name: str) -> Floats:
    """Nested lists of numbers, all of them numbers, as an array."""
    try:
        numbers = np.array(value)
    except ValueError:
        numbers = np.array(None)  # lists of different lengths
    if not isinstance(value, list) or numbers.dtype.kind not in "iuf":
        raise FormatError(
            f"a mixture model needs {name!r} as nested lists of numbers of one length"
        )
    return numbers.astype(np.float64)


def _are_names(names: object, kind: Any) -> bool:
    if not isinstance(names, list):
        return False
    return all(isinstance(name, kind) for name in names)


def _stated_fields(body: str, what: str) -> dict[str, Any]:
    """The fields of a model's file, all of which its version knows."""
    stated = fields(parse_json(body, what), what, ("format", "version"))
    version = stated["version"]
    if stated["format"] != FORMAT:
        raise FormatError(f"the file is not a {FORMAT!r} file")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise FormatError(
            f"a mixture model of version {VERSION} or earlier is needed. Got {version!r}."
        )
    of_version = _FIELDS if version == 1 else (*_FIELDS, *_NEWER)
    stated = fields(stated, what, of_version)
    for name in stated:
        if name not in of_version:
            raise FormatError(f"{what} has a field that nobody reads: {name!r}")
    return dict(stated)
