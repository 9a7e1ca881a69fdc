"""A keyed hash of table rows that every engine computes alike: who is kept, who is sampled.

Each cell becomes one 16-byte block (numbers: their bits and a tag; text: a keyed BLAKE2b digest). Equal numbers are
equal cells and so are equal instants, whatever types hold them, and who a row belongs to is text. A row's hash is the
AES-256 CBC-MAC of its blocks after a first block that states their number: prefix-free, hence a pseudorandom function.
It runs down whole columns, one OpenSSL call per cell position.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from gaussveil import checks
from gaussveil.errors import SchemaError
from gaussveil.statistics.block import floats, is_number, plain, words
from gaussveil.statistics.column_types import holds

BOUND_KEY = hashlib.blake2b(
    b"gaussveil: rows kept per privacy unit, version 2", digest_size=32
).digest()
"""Public key of the rule that picks which rows of a unit are kept."""

_COIN_BITS = 63
_EXACT = 2**53
_INTEGER = 2  # the tag of integers that no float holds
_OUT_OF_REACH = 0x7FFF_FFFF_FFFF_FFF0  # no high word of 38 digits comes near it


def derive_key(key: bytes, purpose: bytes) -> bytes:
    """An independent 32-byte key for one purpose."""
    return hashlib.blake2b(purpose, key=key, digest_size=32).digest()


def hash_rows(
    columns: Sequence[pa.Array], key: bytes, unit: int | None = None
) -> NDArray[np.int64]:
    """63-bit keyed hash of each row of equally long columns, uniform on [0, 2**63) to whoever lacks the key.

    `unit` is the place of the column, if any, that names whose row it is.
    """
    if unit is not None:
        columns = [
            identifiers(cells) if place == unit else cells
            for place, cells in enumerate(columns)
        ]
    rows = len(columns[0])
    encryptor = Cipher(
        algorithms.AES(key), modes.ECB()
    ).encryptor()  # ECB is the bare block cipher inside the MAC
    state = np.zeros((rows, 2), dtype=np.uint64)
    state[:, 0] = len(columns)
    for cells in (None, *columns):
        if cells is not None:
            state = state ^ _cells(cells, key)
        state = np.frombuffer(encryptor.update(state.tobytes()), dtype="<u8").reshape(
            rows, 2
        )
    return (state[:, 0] >> np.uint64(1)).astype(np.int64)


def coin_threshold(rate: float) -> int:
    """A row is sampled when its hash is below this: probability rate, rounded down to a multiple of 2**-63."""
    checks.real("rate", rate, "(0, 1]")
    return min(math.floor(math.ldexp(rate, _COIN_BITS)), (1 << _COIN_BITS) - 1)


def is_hashable(kind: pa.DataType) -> bool:
    """Whether a column of this type can take part in a row hash."""
    if pa.types.is_decimal256(kind):  # no engine agrees with another on these
        return False
    if pa.types.is_null(kind):  # nobody has seen a cell
        return True
    return is_number(kind) or is_identifier(kind) or pa.types.is_temporal(kind)


def is_identifier(kind: pa.DataType) -> bool:
    """Whether a column of this type can name a privacy unit: text or integers."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    text = (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
    )
    return bool(
        text or pa.types.is_integer(kind) or _is_whole(kind) or pa.types.is_null(kind)
    )


def identifiers(column: pa.Array) -> pa.Array:
    """Who rows belong to, as text: integers are their digits, and an integer is the unit that its digits are."""
    column = plain(column)
    if pa.types.is_string(column.type):
        return column
    return column.cast(pa.string())


def require_hashable(schema: pa.Schema, names: Sequence[str]) -> None:
    """Refuse columns whose values have no canonical bytes."""
    for name in names:
        if not is_hashable(schema.field(name).type):
            raise SchemaError(
                f"column {name!r} of {holds(schema.field(name).type)} cannot identify a row: select others first."
            )


def _cells(column: pa.Array, key: bytes) -> NDArray[np.uint64]:
    """One 16-byte block per cell; null and NaN are the same cell."""
    column = plain(column)
    cells = np.zeros((len(column), 2), dtype=np.uint64)
    if pa.types.is_null(column.type):
        missing = column.is_null()
    elif pa.types.is_string(column.type):
        encoded = column.fill_null("").dictionary_encode()
        texts = encoded.dictionary.cast(
            pa.binary()
        ).to_pylist()  # bytes: those of a table need not be UTF-8
        digests = b"".join(
            hashlib.blake2b(text, key=key, digest_size=16).digest() for text in texts
        )
        cells[:] = np.frombuffer(digests, dtype="<u8").reshape(-1, 2)[
            encoded.indices.to_numpy(zero_copy_only=False)
        ]
        missing = column.is_null()
    else:
        if _is_whole(column.type):
            beyond = _beyond(column)
        else:
            beyond = None
        is_time = pa.types.is_temporal(column.type)
        unsigned = pa.types.is_uint64(column.type)
        column = _eight_bytes(column)
        missing = column.is_null(nan_is_null=True)
        values: NDArray[Any] = np.from_dlpack(
            column.fill_null(0) if column.null_count else column
        )
        cells[:] = _instants(values) if is_time else _canonical(values, unsigned)
        if beyond is not None:
            cells[beyond != 0, 0] = values.view(np.uint64)[beyond != 0]
            cells[beyond != 0, 1] = beyond[beyond != 0]
    cells[np.from_dlpack(missing.cast(pa.uint8())) == 1] = (
        0,
        1,
    )  # `to_numpy` would load pandas first
    return cells


def _instants(values: NDArray[np.int64]) -> NDArray[np.uint64]:
    return np.stack(
        [values.view(np.uint64), np.zeros(len(values), dtype=np.uint64)], axis=1
    )


def _canonical(values: NDArray[Any], unsigned: bool) -> NDArray[np.uint64]:
    """Blocks of numbers that do not depend on their type: floats where those are exact, beyond 2**53 integers."""
    blocks = np.zeros((len(values), 2), dtype=np.uint64)
    if values.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            large = (np.abs(values) > _EXACT) & (np.abs(values) < 2.0**63)
        # Adding 0 turns -0.0 into 0.0: equal numbers are equal cells.
        blocks[:, 0] = (values + values.dtype.type(0)).view(np.uint64)
        blocks[large, 0] = values[large].astype(np.int64).view(np.uint64)
    else:
        if not unsigned:
            large = (values > _EXACT) | (values < -_EXACT)
        else:
            large = values.view(np.uint64) > np.uint64(_EXACT)
        blocks[:, 0] = values.astype(np.float64).view(np.uint64)
        blocks[large, 0] = values[large].view(np.uint64)
    blocks[large, 1] = _INTEGER
    return blocks


def _eight_bytes(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        zone = getattr(kind, "tz", None)
        return column.cast(pa.timestamp("us", zone), safe=False).cast(pa.int64())
    if pa.types.is_time(kind):
        return column.cast(pa.time64("us"), safe=False).cast(pa.int64())
    if pa.types.is_temporal(kind):
        return column.cast(pa.int64())
    if _is_whole(kind):
        # Modulo 2**64, as the integers of an integer type are hashed.
        return pa.array(
            words(column)[:, 0].copy(),
            mask=column.is_null().to_numpy(zero_copy_only=False),
        )
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return column.cast(pa.int64(), safe=False)
    return floats(column)


def _is_whole(kind: pa.DataType) -> bool:
    """Decimals without a fraction: what Spark calls an unsigned integer of 8 bytes."""
    return bool(
        pa.types.is_decimal(kind)
        and not pa.types.is_decimal256(kind)
        and kind.scale == 0
    )


def _beyond(column: pa.Array) -> NDArray[np.uint64]:
    """Tags of integers that no signed integer of 8 bytes holds; 0 for all others, never the mark of a missing cell."""
    low, high = words(column).T
    held = ((high == 0) & (low >= 0)) | ((high == -1) & (low < 0))
    tags = np.where(held, 0, high ^ np.int64(_OUT_OF_REACH)).view(np.uint64)
    return np.where((high == 0) & (low < 0), np.uint64(_INTEGER), tags)
