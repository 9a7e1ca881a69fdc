"""A certificate as a page for people: the promise and to whom, the curve anyone can recompute, then details folded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gaussveil.accounting import Certificate, Verification
from gaussveil.accounting.proofs import words
from gaussveil.report.figures import privacy_curves, svg
from gaussveil.report.html import Report, Section
from gaussveil.spectrum import PrivacyLoss

SHORT = 6  # numbers that a line may hold


def certificate_report(
    certificate: Certificate, verification: Verification | None = None
) -> Report:
    """Lay a certificate out as a report; with the outcome of `verify`, say that too.

    Holds only what the certificate holds: released and public values.
    """
    return Report(
        title=certificate.released,
        summary=_promise(certificate),
        sections=(
            Section(heading="Promise", facts=_promise_facts(certificate)),
            *_checked(verification),
            *_curve(certificate),
            Section(
                heading="What it rests on",
                facts=_ground_facts(certificate),
                folded=True,
            ),
        ),
        footer=(
            f"Release {certificate.release_id}, {certificate.released_at}. "
            f"Made by gaussveil {certificate.gaussveil_version}; "
            f"{'signed (Ed25519)' if certificate.signature else 'not signed'}. "
            "Recompute it with `gaussveil verify` on the certificate file."
        ),
    )


def _promise(certificate: Certificate) -> str:
    if certificate.guarantee.kind == "none":
        return f"No privacy is promised: {certificate.guarantee.reason}."
    return (
        f"({certificate.epsilon:.6g}, {certificate.delta:.6g})-differential privacy "
        f"for {certificate.adjacency.protected}, {certificate.guarantee}."
    )


def _promise_facts(certificate: Certificate) -> tuple[tuple[str, str], ...]:
    # Ends of enclosures are shown with every digit: rounded for reading, an upper end would no longer be one.
    if certificate.guarantee.kind == "none":
        design = "design value, not a promise"
    else:
        design = "claimed"
    return (
        ("Neighbours", str(certificate.adjacency)),
        ("epsilon", f"{certificate.epsilon} ({design})"),
        (
            "delta",
            f"{certificate.delta} ({design}); {words(proven=certificate.proven)} {certificate.delta_upper}",
        ),
        ("Composition", certificate.composition),
        (
            "Account",
            certificate.account
            + (f", dataset {certificate.dataset}" if certificate.dataset else ""),
        ),
    )


def _ground_facts(certificate: Certificate) -> tuple[tuple[str, str], ...]:
    charge = certificate.charge
    return (
        ("Mechanism", certificate.mechanism),
        ("Dominating", f"{charge.describe()}; {certificate.orientation}"),
        (
            "Sampler",
            f"total variation {charge.sampler_error:.3g}, charged {certificate.sampler_charge:.3g} of delta",
        ),
        *(("Assumption", line) for line in certificate.assumptions),
        *(
            (str(name).replace("_", " "), _shown(value))
            for name, value in certificate.parameters.items()
        ),
    )


def _is_short(values: Sequence[object]) -> bool:
    """Whether a list is of few parts, and none of them is a list again."""
    if len(values) > SHORT:
        return False
    return not any(isinstance(part, Sequence | Mapping) and part for part in values)


def _shown(value: object) -> str:
    """A parameter as people read it: of what is long or nested, how much there is of it."""
    if isinstance(value, Mapping):
        return "; ".join(
            f"{str(name).replace('_', ' ')}: {_shown(part)}"
            for name, part in value.items()
        )
    if isinstance(value, Sequence) and not isinstance(value, str):
        if _is_short(value) or all(isinstance(part, str) for part in value):
            return ", ".join(map(_shown, value)) or "none"
        return f"{len(value)} entries, in the certificate's file"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def _checked(verification: Verification | None) -> tuple[Section, ...]:
    if verification is None:
        return ()
    facts = [
        ("Verdict", "every statement holds" if verification.ok else "does not verify"),
        ("Recomputed delta", _between(verification)),
        ("Recomputed from", verification.rests_on),
        ("Not checked, the issuer's word", verification.on_trust),
        ("Signature", verification.signature),
        *(("Problem", problem) for problem in verification.problems),
    ]
    return (Section(heading="Recomputed", facts=facts),)


def _between(verification: Verification) -> str:
    ends = f"between {verification.delta_lower} and {verification.delta_upper}"
    if verification.proven:
        return ends
    return f"{ends}, computed in doubles, not proven"


def _curve(certificate: Certificate) -> tuple[Section, ...]:
    """Draw the curve of a single Gaussian loss; label graphs and profiles have no one curve to show."""
    (part, *others) = certificate.charge.parts
    if others or not isinstance(part.source, PrivacyLoss) or part.source.batch_shape:
        return ()
    if part.count == 1:
        loss = part.source
    else:
        loss = part.source**part.count
    right = max(float(loss.dp_epsilon(1e-10)), 1.25 * certificate.epsilon)
    claim = (certificate.epsilon, certificate.delta)
    figure = privacy_curves(
        [("this release", loss)], np.linspace(0.0, right, 121), claim=claim
    )
    description = "Privacy curve of this release in both directions, with the claimed epsilon and delta marked."
    return (
        Section(
            heading="Privacy curve",
            paragraphs=(
                f"Exact, both directions ({certificate.orientation}), before the sampler's error is charged. The ring "
                "marks the claim.",
            ),
            figure=svg(figure, "curve", description),
        ),
    )
