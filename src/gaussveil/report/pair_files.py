"""Read one pair of Gaussians from a JSON, NPZ or CSV file, in one of the forms of docs/exit-codes.md, "Pair files".

Matrices (mean_x, cov_x, mean_y, cov_y), the reduced form (variance_gap, mean_gap) or the terms of a composed loss
(variance_gap, multiplicity, energy). X is the release with the record, Y without it.
"""

from __future__ import annotations

import csv
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gaussveil.errors import FormatError, ShapeError, SourceError
from gaussveil.files import read_json
from gaussveil.report.number_files import LYING_HEADER, line_of_numbers

if TYPE_CHECKING:
    from gaussveil.spectrum import PrivacyLoss

MATRICES = ("mean_x", "cov_x", "mean_y", "cov_y")
REDUCED = ("variance_gap", "mean_gap")
TERMS = ("variance_gap", "multiplicity", "energy")


def read_pair(path: Path, *, batch: bool = False) -> PrivacyLoss:
    """Read the pair in a file; the name's ending says the format. An NPZ file may hold a `batch` where one will do."""
    readers = {".json": _read_json, ".npz": _read_npz, ".csv": _read_csv}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise FormatError(
            f"{path}: a pair is read from .json, .npz or .csv. Got the ending {path.suffix or 'none'!r}."
        )
    if not path.exists():
        raise SourceError(
            f"{path}: no such file; give the path of a pair in JSON, NPZ or CSV"
        )
    try:
        fields = reader(path)
    except OSError as error:
        raise SourceError(
            f"{path}: cannot be read ({error.strerror or error}); check the path and its permissions"
        ) from None
    return _build(path, fields, batch=batch and reader is _read_npz)


def _build(path: Path, fields: Mapping[str, object], *, batch: bool) -> PrivacyLoss:
    from gaussveil.spectrum import GaussianPair, PrivacyLoss

    keys = set(fields)
    if keys == set(MATRICES):
        loss: PrivacyLoss = GaussianPair(
            *(_numbers(path, name, fields[name]) for name in MATRICES)
        )
    elif keys == set(REDUCED):
        loss = GaussianPair.from_reduced(
            *(_numbers(path, name, fields[name]) for name in REDUCED)
        )
    elif keys == set(TERMS):
        loss = PrivacyLoss.from_terms(
            *(_numbers(path, name, fields[name]) for name in TERMS)
        )
    else:
        raise FormatError(
            f"{path}: expected exactly the keys {', '.join(MATRICES)}, or {', '.join(REDUCED)}, or {', '.join(TERMS)}. "
            f"Got {', '.join(sorted(keys)) or 'none'}."
        )
    if loss.batch_shape and not batch:
        raise ShapeError(
            f"{path}: a file holds one pair. Got a batch of shape {loss.batch_shape}: write one file for each."
        )
    return loss


def _numbers(path: Path, name: str, value: object) -> object:
    import numpy as np

    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise FormatError(
            f"{path}: {name} must be a number or a rectangular list of numbers"
        ) from None
    if np.asarray(value).dtype.kind in "US":
        raise FormatError(f"{path}: {name} must hold numbers. Got text.")
    return array


def _read_json(path: Path) -> Mapping[str, object]:
    content = read_json(path)
    if not isinstance(content, dict):
        raise FormatError(
            f"{path}: expected a JSON object with named fields. Got {type(content).__name__}."
        )
    return content


def _read_npz(path: Path) -> Mapping[str, object]:
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (*LYING_HEADER, AttributeError, zlib.error):
        raise FormatError(
            f"{path}: not an NPZ archive of plain arrays; write it with numpy.savez"
        ) from None


def _csv_rows(path: Path) -> list[list[str]]:
    """The cells of a CSV file's rows; empty rows are left out."""
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            cells = [[cell.strip() for cell in row] for row in csv.reader(stream)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise FormatError(f"{path}: not a CSV table ({error})") from None
    return list(filter(any, cells))


def _read_csv(path: Path) -> Mapping[str, object]:
    rows = _csv_rows(path)
    header = rows[0] if rows else []
    body = rows[1:]
    if header == list(REDUCED):
        numbers = [
            line_of_numbers(path, line, row, len(header))
            for line, row in enumerate(body, start=2)
        ]
        return {
            name: [row[index] for row in numbers] for index, name in enumerate(REDUCED)
        }
    dimension = len(header) - 2
    covariances = [f"cov_{place + 1}" for place in range(dimension)]
    if covariances and header == ["distribution", "mean", *covariances]:
        return _csv_matrices(path, body, dimension)
    raise FormatError(
        f"{path}: the first line must be {','.join(REDUCED)} or distribution,mean,cov_1,...,cov_d. "
        f"Got {','.join(header)!r}."
    )


def _csv_matrices(
    path: Path, body: list[list[str]], dimension: int
) -> Mapping[str, object]:
    labels = [row[0] for row in body]
    if labels != ["X"] * dimension + ["Y"] * dimension:
        raise ShapeError(
            f"{path}: {dimension} covariance columns need {dimension} lines that start with X, then as many with Y. "
            f"Got {labels.count('X')} with X and {labels.count('Y')} with Y in {len(body)} lines."
        )
    numbers = [
        line_of_numbers(path, line, row[1:], dimension + 1)
        for line, row in enumerate(body, start=2)
    ]
    x = numbers[:dimension]
    y = numbers[dimension:]
    return {
        "mean_x": [row[0] for row in x],
        "cov_x": [row[1:] for row in x],
        "mean_y": [row[0] for row in y],
        "cov_y": [row[1:] for row in y],
    }
