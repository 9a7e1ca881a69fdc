"""What of a certificate no verifier can hold against anything: it stands there by the issuer's word alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any

from gaussveil.accounting.certificates.table_parameters import table_names

WORDS = (
    "release",
    "guarantee",
    "composition",
    "assumptions",
    "account",
    "dataset",
    "library_version",
)
# Of noise on values of a stated sensitivity: what would be refuted is only that there is less of it than is needed.
ONE_SIDED = ("l2_sensitivity", "shape", "grid", "rounding_l2", "noise_covariance")


def unchecked(
    record: Mapping[str, Any],
    checked: Set[str],
    together: Set[str] = frozenset(),
    *,
    compared: bool,
) -> tuple[str, ...]:
    """Fields that may say anything without a verdict changing, in the order of the certificate.

    Args:
        record: the certificate as it is stored.
        checked: parameters that were held against others.
        together: those of which only what they say together is determined.
        compared: whether the released numbers were held against their digest.

    Returns:
        Names, those inside others after a point; "(from one side)" where only less noise than needed would show,
        "(only together)" where several at once might say something else, "(not stated)" of what a certificate of this
        kind should say.
    """
    stated = record["parameters"]
    unchecked = list(WORDS)
    unchecked += _neighbours(record["adjacency"], stated)
    if record.get("ledger") is not None:
        unchecked.append("ledger")
    if record.get("values") is not None and not compared:
        unchecked.append("values")
    charge = record["dominating"]["charge"]
    if not {"mean_shift", "epsilons"} & (checked | together):
        unchecked.append("dominating.charge")
    elif "draw_identities" in charge:
        unchecked.append("dominating.charge.draw_identities")
    return (
        *unchecked,
        *(f"parameters.{line}" for line in _parameters(record, checked, together)),
    )


def _neighbours(adjacency: Any, known: Mapping[str, object]) -> Iterator[str]:
    if adjacency["parameters"]:
        if "l2_ball" in known:
            yield "adjacency.parameters.space"
        else:
            yield "adjacency.parameters"


def _parameters(
    record: Mapping[str, Any], checked: Set[str], together: Set[str]
) -> Iterator[str]:
    stated = record["parameters"]
    names: tuple[str, ...] = ()
    if record["release"]["mechanism"] == "table":
        names = table_names(stated)
    elif stated.keys() & {"l2_sensitivity", "noise_covariance", "rounding_l2"}:
        names = (*ONE_SIDED, "mean_shift")
    led = "l2_sensitivity" in stated
    for name in stated:
        if name in checked:
            continue
        if name in together:
            yield f"{name} (only together)"
        elif led and name in ONE_SIDED:
            yield f"{name} (from one side)"
        else:
            yield name
    yield from (f"{name} (not stated)" for name in names if name not in stated)
