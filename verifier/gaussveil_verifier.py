"""Recompute a gaussveil certificate, trusting nobody: verified, refuted, not decided, or not a certificate.

This file imports nothing of gaussveil. A certificate charges a release for a pair of Gaussians, X ~ N(b, diag(1 - g))
and Y ~ N(0, I), given by variance gaps g, how many coordinates share each, and squared mean gaps. With

    K(s) = sum over terms of  -(s/2) m log(1 - g) - (m/2) log(1 + s g) + s (1 + s) e / (2 (1 + s g)),

delta(eps) = 1/(2 pi i) int exp(K(s) - s eps) / (s (s + 1)) ds over Re s = c > 0 is the smallest delta of X from Y. It
is enclosed in ball arithmetic (Arb) on a straight piece from c to P, and above P by a bound: there |1 + s g| grows with
Im s, and so the integrand falls, but for terms with Re(1 + P g) < 0, whose exponent rises by at most
e (1 - g) |Re(1 + P g)| / (2 g^2 |1 + P g|^2). Mean shifts and single named profiles have closed forms, sampled batches
have them in terms of the pair that is sampled.

What is checked: strict form, statements that derive from each other, delta at epsilon in both directions (over label
edges and orientations the worst) with the sampler's total variation charged at (1 + e^eps), public parameters of plain
Gaussian noise, and the Ed25519 signature. What is not: that the program which released really did as it says.
"""

from __future__ import annotations

import argparse
import ast
import base64
import cmath
import csv
import datetime
import gzip
import hashlib
import io
import itertools
import json
import math
import re
import struct
import sys
import time
import unicodedata
import zipfile
import zlib
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from flint import acb, arb, ctx

SECONDS = 4.0  # of processor time for one certificate
LARGEST_FILE = 1 << 24
LARGEST_TABLE = 1 << 28
TABLES = (".csv", ".gz", ".json", ".npy", ".npz", ".xlsx", ".parquet", ".arrow")
NOTE = "certificate.json"
CARRIED = "certificate"  # in a document of its own format
DEPTH = 32
LARGEST_COUNT = 2**53
PATTERNS = 64  # orientations that are enclosed one by one; beyond them a bound over all serves
PRECISIONS = (128, 256, 512)
ROUND_UP = 1.0 + 8 * 2.0**-53
VERIFIED, REFUTED, UNDECIDED, NO_CERTIFICATE = "verified", "refuted", "not decided", "not a certificate"

Term = tuple[Fraction, Fraction, Fraction]  # variance gap, multiplicity, energy
COLUMNS = ("variance_gap", "multiplicity", "energy")


class Refuted(Exception):
    """A statement of the certificate is proven false."""


class NoCertificate(Exception):
    """The file has not the form of a certificate, so it states nothing that could be true or false."""


class Undecided(Exception):
    """The limits of this program do not suffice to tell."""


PAIR_ALONE = "the pair alone: that the mechanism leads to it is the issuer's word"
LEADS = "the pair, and the public parameters that lead to it"


NUMBERS, ALONE = "numbers and certificate", "certificate alone; no numbers were compared"
WITHOUT_DIGEST = "certificate alone; it carries no digest of its numbers"


@dataclass(frozen=True)
class Verdict:
    """What was found; `private` tells whether a guarantee is claimed at all."""

    outcome: str
    reasons: tuple[str, ...]
    delta_lower: float
    delta_upper: float
    signature: str
    private: bool
    basis: str = PAIR_ALONE
    checked: str = ALONE
    unchecked: tuple[str, ...] = ()


class Work:
    """A budget of processor time."""

    def __init__(self, seconds: float) -> None:
        self._end = time.process_time() + seconds

    @property
    def spent(self) -> bool:
        """Whether nothing is left."""
        return time.process_time() > self._end

    def check(self) -> None:
        """Raise once the budget is spent."""
        if self.spent:
            raise Undecided("the budget of work is spent")


# --- the file ---------------------------------------------------------------------------------------------------------


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NoCertificate("an object repeats a key: readers would disagree on what it says")
    return found


def read(body: bytes) -> dict[str, Any]:
    """The JSON object of a certificate, of bounded size and depth, finite numbers and valid text only."""
    if len(body) > LARGEST_FILE:
        raise NoCertificate(f"the file has more than {LARGEST_FILE} bytes")
    try:
        record = json.loads(body.decode(), object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise NoCertificate(f"the file is not JSON: {type(error).__name__}") from None
    waiting: list[tuple[Any, int]] = [(record, 0)]
    while waiting:
        value, depth = waiting.pop()
        if depth > DEPTH:
            raise NoCertificate(f"the file is nested deeper than {DEPTH}")
        if isinstance(value, dict):
            waiting += [(item, depth + 1) for pair in value.items() for item in pair]
        elif isinstance(value, list):
            waiting += [(item, depth + 1) for item in value]
        elif isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise NoCertificate("the file holds text that is no Unicode")
        elif isinstance(value, int) and value.bit_length() > 1023:
            raise NoCertificate("the file holds a number that no double can")
        elif isinstance(value, float) and not math.isfinite(value):
            raise NoCertificate("the file holds a number that is not finite")
    return members(record, "the certificate", None)


def members(value: Any, what: str, names: str | None, optional: str = "") -> dict[str, Any]:
    """An object with exactly these members."""
    if not isinstance(value, dict):
        raise NoCertificate(f"{what} is not an object")
    if names is not None:
        wanted, known = set(names.split()), set(names.split()) | set(optional.split())
        if not wanted <= set(value) <= known:
            raise NoCertificate(
                f"{what} lacks {sorted(wanted - set(value))} or holds unknown {sorted(set(value) - known)}"
            )
    return value


def text(record: dict[str, Any], name: str) -> str:
    """A member that is text."""
    value = record[name]
    if not isinstance(value, str):
        raise NoCertificate(f"{name!r} is not text")
    return value


def number(record: dict[str, Any], name: str, low: float = 0.0, high: float = math.inf) -> float:
    """A member that is a number of a range."""
    value = record[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise NoCertificate(f"{name!r} is not a number from {low:g} to {high:g}")
    if value == 0 and math.copysign(1.0, value) < 0:
        raise Undecided(f"{name!r} is minus zero, which no two readers write alike")
    return float(value)


def whole(record: dict[str, Any], name: str, low: int, high: int) -> int:
    """A member that is a whole number of a range."""
    value = record[name]
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise NoCertificate(f"{name!r} is not a whole number from {low} to {high}")
    return value


# --- statements that derive from each other ---------------------------------------------------------------------------

FIELDS = (
    "format version release privacy_unit adjacency guarantee composition epsilon delta delta_upper assumptions "
    "parameters dominating sampler account dataset library_version"
)
SYMMETRIC = {
    "add-remove": False,
    "replace": True,
    "label-graph": False,
    "l2-ball": True,
    "event": True,
    "steps": True,
}


def check_form(record: dict[str, Any]) -> None:
    """Raise unless the certificate has the form of its version and its derived statements follow."""
    if record.get("format") != "gaussveil certificate":
        raise NoCertificate("the file is not a gaussveil certificate")
    version = record.get("version")
    if type(version) is not int or version not in (1, 2, 3):
        raise Undecided(f"format version {version!r} is unknown to this program")
    later = {1: "", 2: " ledger", 3: " ledger values"}[version]
    members(record, "the certificate", FIELDS + later, "signature")
    release = members(record["release"], "release", "id what at mechanism")
    guarantee = members(record["guarantee"], "guarantee", "kind reason")
    for part, names in ((release, "id what at mechanism"), (guarantee, "kind reason")):
        for name in names.split():
            text(part, name)
    for name in ("composition", "account", "dataset", "library_version", "privacy_unit"):
        text(record, name)
    if guarantee["kind"] not in ("worst case", "model-based", "none"):
        raise NoCertificate("the kind of guarantee is unknown")
    if guarantee["kind"] != "worst case" and not str(guarantee["reason"]).strip():
        raise NoCertificate("a guarantee that is not worst case must give its reason")
    lines = record["assumptions"]
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise NoCertificate("'assumptions' is not a list of texts")
    members(record["parameters"], "parameters", None)
    adjacency = check_adjacency(record)
    dominating = members(record["dominating"], "dominating", "orientation charge")
    edges = adjacency_edges(adjacency)
    wanted = "X: the first label of each ordered edge, Y: the second"
    if adjacency["symmetric"]:
        wanted = "X and Y: the two neighbours, in either order"
    elif edges is None:
        wanted = f"X: with the {adjacency['unit']}, Y: without it"
    if dominating["orientation"] != wanted:
        raise Refuted("the orientation does not follow from the adjacency")
    if version == 3:
        check_values_form(record["values"])
    if version > 1 and record["ledger"] is not None:
        line = members(record["ledger"], "ledger", "begins line link")
        text(line, "begins"), text(line, "link"), whole(line, "line", -(2**63), 2**63)


def check_values_form(value: Any) -> None:
    """What the certificate says of its numbers: how many, under which names, and their digest."""
    found = members(value, "values", "form rows columns names sha256")
    if whole(found, "form", 1, 2**53) != 1:
        raise Undecided("the digest of the numbers has a form that is unknown to this program")
    columns, names = whole(found, "columns", 0, 2**53), found["names"]
    whole(found, "rows", 0, 2**53)
    digest = text(found, "sha256")
    if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
        raise NoCertificate("the digest of the numbers is no digest")
    if names is not None and not (
        isinstance(names, list) and len(names) == columns and all(isinstance(name, str) for name in names)
    ):
        raise NoCertificate("the names of the columns are no list of texts, one for each")


def check_adjacency(record: dict[str, Any]) -> dict[str, Any]:
    """The neighbouring relation, which must relate something and be symmetric as its kind is."""
    found = members(record["adjacency"], "adjacency", "kind unit symmetric parameters")
    kind, known = text(found, "kind"), members(found["parameters"], "the adjacency's parameters", None)
    if kind not in SYMMETRIC or found["symmetric"] is not SYMMETRIC[kind]:
        raise NoCertificate("the adjacency is of no known kind, or not symmetric as its kind is")
    if not text(found, "unit").strip() or found["unit"] != record["privacy_unit"]:
        raise NoCertificate("the privacy unit is empty, or not that of the adjacency")
    if kind == "l2-ball":
        if not number(known, "radius") > 0 or known.get("space") not in ("spectrum", "trajectory", "vector"):
            raise NoCertificate("the ball of neighbours has no radius or no known space")
    elif kind == "event":
        if not number(known, "size") > 0 or whole(known, "length", 1, 2**1023) < 1:
            raise NoCertificate("the event has no size")
    elif kind == "steps":
        counts = (whole(known, name, 1, 2**1023) for name in ("takes", "apart"))
        if not number(known, "size") > 0 or min(counts) < 1:
            raise NoCertificate("the steps that may change have no size")
    elif kind == "label-graph":
        edges: Any = known.get("edges")
        good = isinstance(edges, list) and edges and all(isinstance(edge, list) and len(edge) == 2 for edge in edges)
        if not good or not all(isinstance(end, str) for edge in edges for end in edge):
            raise NoCertificate("the label graph has no edges")
        pairs = [tuple(edge) for edge in edges]
        if any(first == second for first, second in pairs) or len(set(pairs)) != len(pairs):
            raise NoCertificate("the label graph has an edge twice, or from a label to itself")
    return found


def adjacency_edges(adjacency: dict[str, Any]) -> int | None:
    """Number of ordered edges of a label graph."""
    edges = adjacency["parameters"].get("edges") if adjacency["kind"] == "label-graph" else None
    return len(edges) if isinstance(edges, list) else None


# --- the charge -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """Terms of every label edge (one list where there are none), or a named profile; and how often."""

    edges: list[list[Term]] | None
    profile: dict[str, Any] | None
    batched: bool
    count: int


def read_charge(record: dict[str, Any]) -> tuple[list[Part], float]:
    """Parts and the sampler's total variation of a charge."""
    dominating = members(record["dominating"], "dominating", "orientation charge")
    found = members(dominating["charge"], "the charge", "parts sampler_error", "draw_identities")
    names = found.get("draw_identities", [])
    digits = set("0123456789abcdef")
    if not isinstance(names, list) or not all(
        isinstance(one, str) and len(one) == 64 and set(one) <= digits for one in names
    ):
        raise NoCertificate("an identity of a draw is no digest")
    if record["version"] == 2 and record["ledger"] is None and not names:
        raise NoCertificate("the certificate has nothing that format version 2 is for")
    if ("draw_identities" in found and not names) or names != sorted(set(names)) or (names and record["version"] == 1):
        raise NoCertificate("identities of draws are repeated, out of order or of another version")
    listed = found["parts"]
    if not isinstance(listed, list) or not listed:
        raise NoCertificate("the charge has no parts")
    eta = number(found, "sampler_error")
    sampler = members(record["sampler"], "sampler", "total_variation charged")
    epsilon = number(record, "epsilon")
    charged = (1.0 + math.exp(epsilon)) * eta * ROUND_UP if eta and epsilon < 700 else math.inf if eta else 0.0
    if number(sampler, "total_variation") != eta or number(sampler, "charged") != charged:
        raise Refuted("the sampler's error is not the charged one, or not charged at (1 + e^epsilon)")
    return [read_part(item) for item in listed], eta


def read_part(item: Any) -> Part:
    """One loss or profile and its count."""
    found = members(item, "a part of the charge", "count", "gaussian profile")
    count = whole(found, "count", 1, LARGEST_COUNT)
    if ("gaussian" in found) == ("profile" in found):
        raise NoCertificate("a part of the charge is neither a pair nor a profile, or both")
    if "profile" in found:
        profile = members(found["profile"], "a profile", "profile version parameters")
        whole(profile, "version", 1, LARGEST_COUNT)
        return Part(None, profile, False, count)
    loss = members(found["gaussian"], "a pair", " ".join(COLUMNS))
    columns = [loss[name] for name in COLUMNS]
    if not all(isinstance(column, list) and column for column in columns):
        raise NoCertificate("a pair has no terms")
    batched = all(isinstance(row, list) for column in columns for row in column)
    rows = columns if batched else [[column] for column in columns]
    if len({len(column) for column in rows}) != 1:
        raise NoCertificate("the columns of a pair have different lengths")
    edges = [read_terms(*edge) for edge in zip(*rows, strict=True)]
    if len({len(edge) for edge in edges}) != 1:
        raise NoCertificate("the label edges of a pair have different numbers of terms")
    if any(many * count > LARGEST_COUNT for edge in edges for _, many, _ in edge):
        raise Undecided("a multiplicity times its count is beyond what doubles count")
    return Part(edges, None, batched, count)


def read_terms(gaps: list[Any], multiplicities: list[Any], energies: list[Any]) -> list[Term]:
    """The terms of one pair, as exact as they are written."""
    if not len(gaps) == len(multiplicities) == len(energies) >= 1:
        raise NoCertificate("the columns of a pair have different lengths")
    terms = []
    for triple in zip(gaps, multiplicities, energies, strict=True):
        if any(isinstance(value, bool) or not isinstance(value, int | float) for value in triple):
            raise NoCertificate("a term of a pair is not a number")
        if any(0 < abs(value) < sys.float_info.min for value in triple):
            raise Undecided("a term of a pair is too small to be told from nothing by every reader")
        gap, multiplicity, energy = (Fraction(float(value)) for value in triple)
        if not gap < 1 or multiplicity < 0 or energy < 0:
            raise NoCertificate("a variance gap is not below 1, or a multiplicity or energy is negative")
        if not multiplicity and not energy:
            raise Undecided("a term of a pair weighs nothing, and gaussveil writes none such")
        terms.append((gap, multiplicity, energy))
    return terms


def reversed_terms(terms: list[Term]) -> list[Term]:
    """The terms of Y against X, in the coordinates where X is standard: exact in fractions."""
    return [(-gap / (1 - gap), multiplicity, energy / (1 - gap)) for gap, multiplicity, energy in terms]


def merged(terms: list[Term]) -> list[Term]:
    """Equal gaps added up, terms that weigh nothing left out."""
    total: dict[Fraction, list[Fraction]] = {}
    for gap, multiplicity, energy in terms:
        place = total.setdefault(gap, [Fraction(0), Fraction(0)])
        place[0] += multiplicity
        place[1] += energy
    return [(gap, many, energy) for gap, (many, energy) in total.items() if energy or (gap and many)]


# --- delta of one pair, in balls --------------------------------------------------------------------------------------


def ball(value: Fraction) -> arb:
    """A ball around a fraction."""
    return arb(value.numerator) / arb(value.denominator)


class Pair:
    """Terms of one pair at the working precision in force."""

    def __init__(self, terms: list[Term], epsilon: float | arb, work: Work) -> None:
        self.terms = [(ball(gap), ball(many), ball(energy)) for gap, many, energy in terms]
        self.epsilon, self.work = arb(epsilon), work
        self.floats = [(float(gap), float(many), float(energy)) for gap, many, energy in terms]
        self.log_ratio = sum((many * (1 - gap).log() for gap, many, _ in self.terms), arb(0))

    def exponent(self, s: acb) -> acb:
        """K(s) - s eps; not finite where a logarithm could meet its cut.

        On a wide ball around z: value and slope at z, and half the largest curvature times the squared spread.
        """
        z = acb(s.real.mid(), s.imag.mid())
        spread = s - z
        reach = spread.abs_upper()
        wide = not reach <= arb(2) ** -40 * abs(z)
        at = z if wide else s
        value = -at * (self.epsilon + self.log_ratio / 2)
        slope, bend = acb(-self.epsilon - self.log_ratio / 2), arb(0)
        for gap, many, energy in self.terms:
            whole_ball = 1 + s * gap
            if not (whole_ball.real > 0 or whole_ball.imag > 0 or whole_ball.imag < 0):
                return acb("nan", "nan")
            w = 1 + at * gap
            value += at * (1 + at) * energy / (2 * w) - many / 2 * w.log()
            if wide:
                slope += energy * (1 + 2 * at + at * at * gap) / (2 * w * w) - many * gap / (2 * w)
                near = whole_ball.abs_lower()
                bend += many * gap * gap / (2 * near * near) + energy * (1 - gap) / near**3
        if not wide:
            return value
        rest = arb(0, (bend * reach * reach / 2).abs_upper())
        return value + slope * spread + acb(rest, rest)

    def enclose(self) -> arb:
        """A ball around delta, within [0, 1]."""
        if not self.terms:
            return arb(0)
        if all(gap.is_zero() for gap, _, _ in self.terms):
            return self._mean_shift()
        if self._largest_loss_reached():
            return arb(0)
        c = self._saddle()
        level = self._size(complex(c), 0.0)
        for direction, lengths in self._paths(c, level):
            found = self._integral(c, direction, lengths, level)
            if found is not None:
                return found
        raise Undecided("no contour was found")

    def _mean_shift(self) -> arb:
        """Phi(t/2 - eps/t) - e^eps Phi(-t/2 - eps/t), t the length of the shift."""
        t = sum((energy for _, _, energy in self.terms), arb(0)).sqrt()
        near, far = (self.epsilon / t + sign * t / 2 for sign in (-1, 1))
        root = arb(2).sqrt()
        return ((near / root).erfc() - self.epsilon.exp() * (far / root).erfc()) / 2

    def _largest_loss_reached(self) -> bool:
        if not all(gap > 0 for gap, _, _ in self.terms):
            return False
        largest = -self.log_ratio / 2 + sum((energy / (2 * gap) for gap, _, energy in self.terms), arb(0))
        return bool(largest <= self.epsilon)

    # Plain floats steer the contour; nothing rigorous depends on them.

    def _saddle(self) -> float:
        """Where the integrand is smallest on the positive real line, roughly."""
        limit = max(-min(gap for gap, _, _ in self.floats), 0.0)

        def slope(s: float) -> float:
            value = -float(self.epsilon) - float(self.log_ratio) / 2 - 1 / s - 1 / (1 + s)
            for gap, many, energy in self.floats:
                w = 1 + s * gap
                value += -many * gap / (2 * w) + energy * ((1 + 2 * s) * w - s * (1 + s) * gap) / (2 * w * w)
            return value

        low, high = -60.0, 60.0
        for _ in range(70):
            self.work.check()
            middle = (low + high) / 2
            odds = math.exp(middle)
            s = odds / (1 + odds) / limit if limit else odds
            if all(1 + s * gap > 0 for gap, _, _ in self.floats) and slope(s) < 0:
                low = middle
            else:
                high = middle
        odds = math.exp(low)
        return odds / (1 + odds) / limit if limit else odds

    def _size(self, s: complex, level: float) -> float:
        """log of the integrand's modulus over e^level."""
        value = -s * (float(self.epsilon) + float(self.log_ratio) / 2) - cmath.log(s) - cmath.log(1 + s)
        for gap, many, energy in self.floats:
            w = 1 + s * gap
            value += -many / 2 * cmath.log(w) + s * (1 + s) * energy / (2 * w)
        return value.real - level

    def _paths(self, c: float, level: float) -> list[tuple[complex, list[float]]]:
        """Straight pieces from c along which the integrand falls far enough, the shortest and lowest first."""
        found = []
        for direction in (0.5 + 0.875j, -0.5 + 0.875j, 0.25 + 1j, -0.25 + 1j, 1j):
            lengths, highest = [], 0.0
            length = c * 2.0**-12
            for _ in range(120):
                self.work.check()
                try:
                    size = self._size(c + length * direction, level)
                except (ValueError, OverflowError, ZeroDivisionError):
                    break
                highest = max(highest, size)
                lengths.append(length)
                if size < -50 - 2 * math.log(1 + length / c):
                    found.append((len(lengths) + 20 * highest, direction, lengths))
                    break
                length *= 1.5
        return [(direction, lengths) for _, direction, lengths in sorted(found, key=lambda one: one[0])]

    def _integral(self, c: float, direction: complex, lengths: list[float], level: float) -> arb | None:
        """Ball around delta from one contour; None if it is too wide to be of use."""
        start, step = acb(c), acb(direction.real, direction.imag)
        points = [start, *(start + step * length for length in lengths)]
        shift = arb(level)

        def integrand(s: acb, _: bool) -> acb:
            if self.work.spent:  # nothing can be raised through the integrator
                return acb("nan", "nan")
            return (self.exponent(s) - shift).exp() / (s * (s + 1))

        total = self._tail(points[-1], shift)
        scale = lengths[-1]
        for first, last in itertools.pairwise(points):
            part = acb.integral(
                integrand, first, last, rel_tol=arb(2) ** -60, abs_tol=arb(2) ** -75 * c, eval_limit=20000
            )
            self.work.check()
            total += part.imag
            if not total.rad() < scale:
                return None
        value = total / arb.pi() * shift.exp()
        return value if value.is_finite() else None

    def _tail(self, end: acb, level: arb) -> arb:
        """Ball around 0 that holds the integral over the half line above the end of the piece."""
        rise = arb(0)
        for gap, _, energy in self.terms:
            if gap.is_zero() or energy.is_zero():
                continue
            w = 1 + end * gap
            if not w.real > 0:
                size = w.real * w.real + w.imag * w.imag
                rise += energy * (1 - gap) * w.real.abs_upper() / (2 * gap * gap * size)
        bound = ((self.exponent(end).real - level + rise).exp() / end.imag).abs_upper()
        return arb(0, bound)


def chernoff(terms: list[list[Term]], epsilon: float, work: Work) -> arb:
    """Bound for every way round of each group: min_s exp(sum of the larger K(s) - s eps) s^s/(1+s)^(1+s)."""
    both = [(group, reversed_terms(group)) for group in terms]
    pairs = [[Pair(merged(way), 0.0, work) for way in ways] for ways in both]
    best = arb(1)
    for power in range(-24, 40):
        s = arb(2) ** (arb(power) / 3)
        total = -s * epsilon + s * s.log() - (1 + s) * (1 + s).log()
        for ways in pairs:
            values = [way.exponent(acb(s)).real for way in ways]
            if not all(value.is_finite() for value in values) or any(
                not 1 + s * gap > 0 for way in ways for gap, _, _ in way.terms
            ):
                break
            total += values[0].max(values[1])
        else:
            best = best.min(total.exp().upper())
    return best


# --- delta of the charge ----------------------------------------------------------------------------------------------


def profile_delta(part: Part, epsilon: float, work: Work) -> arb:
    """Delta of one named profile, the worse direction."""
    assert part.profile is not None
    name, known = part.profile["profile"], members(part.profile["parameters"], "a profile's parameters", None)
    if part.profile["version"] != 1 or (part.count > 1 and name != "randomised-response"):
        raise Undecided("compositions of such profiles are beyond this program")
    level = arb(epsilon)
    if name == "randomised-response":
        members(known, "a profile's parameters", "epsilon classes")
        return responses(number(known, "epsilon"), whole(known, "classes", 2, 2**53), part.count, level, work)
    if name == "laplace":
        members(known, "a profile's parameters", "shift_over_scale")
        shift = number(known, "shift_over_scale")
        return 1 - ((level - shift) / 2).exp() if epsilon < shift else arb(0)
    if name == "discrete-laplace":
        return geometric(*discrete_laplace(known), epsilon)
    if name == "poisson-subsampled":
        members(known, "a profile's parameters", "base rate backward")
        rate, columns = number(known, "rate", 1e-12, 1.0), known["base"]
        if type(known["backward"]) is not bool:
            raise NoCertificate("'backward' is neither true nor false")
        if not isinstance(columns, dict) or not all(isinstance(columns.get(one), list) for one in COLUMNS):
            raise Undecided("a batch of something else than one pair of Gaussians is beyond this program")
        members(columns, "a pair", " ".join(COLUMNS))
        if any(isinstance(value, list) for one in COLUMNS for value in columns[one]):
            raise Undecided("a batch of many pairs is beyond this program")
        return subsampled(read_terms(*(columns[one] for one in COLUMNS)), rate, level, work)
    if name in ("fixed-size-batch", "poisson-subsampled-replace"):
        members(known, "a profile's parameters", "noise_multiplier rate")
        noise, rate = number(known, "noise_multiplier", 1e-2, 1e6), number(known, "rate", 1e-12, 1.0)
        if name == "poisson-subsampled-replace":
            return replaced_in_batch(arb(noise), arb(rate), level)
        return subsampled([(Fraction(0), Fraction(1), 4 / Fraction(noise) ** 2)], rate, level, work)
    raise Undecided(f"the profile {name!r} is beyond this program")


def responses(own: float, classes: int, count: int, level: arb, work: Work) -> arb:
    """Of `count` answers i are true, j name the neighbour's class: their loss is (i - j) own, the others' is 0."""
    if count > (2000 if classes == 2 else 100):
        raise Undecided("so many randomised responses are beyond this program")
    scale, total = arb(own).exp() + (classes - 1), arb(0)
    true, false, other = (arb(own).exp() / scale, 1 / scale, arb(classes - 2) / scale)
    for i in range(count + 1):
        for j in range(count - i if classes == 2 else 0, min(i - 1, count - i) + 1):
            work.check()
            ways = math.comb(count, i) * math.comb(count - i, j)
            excess = (1 - (level - (i - j) * arb(own)).exp()).max(arb(0))
            total += ways * true**i * false**j * other ** (count - i - j) * excess
    return total


def discrete_laplace(known: dict[str, Any]) -> tuple[int, Fraction]:
    """Shift and scale of integer noise of law exp(-|i|/scale)."""
    members(known, "a profile's parameters", "shift scale")
    return whole(known, "shift", 1, 2**100), Fraction(number(known, "scale", 1e-10))


def geometric(shift: int, scale: Fraction, epsilon: float) -> arb:
    """The loss is (shift - 2j)/scale with probability r^j (1-r)/(1+r), 0 < j < shift, shift/scale with 1/(1+r)."""
    level, longest = Fraction(epsilon), shift / scale
    if level >= longest:
        return arb(0)
    steps = max(math.ceil((shift - level * scale) / 2) - 1, 0)  # j up to here leave a loss above epsilon
    r, part = (-ball(1 / scale)).exp(), (ball(level - longest)).exp()
    inner, outer = (-ball(steps / scale)).exp(), ball(steps / scale).exp()
    return ((1 - part) + r * (1 - inner) - part * (outer - 1)) / (1 + r)


def pure_loss(part: Part) -> Fraction | None:
    """The largest loss of a part of pure differential privacy; None of others."""
    if part.profile is None or part.profile["version"] != 1:
        return None
    name, known = part.profile["profile"], members(part.profile["parameters"], "a profile's parameters", None)
    if name == "discrete-laplace":
        shift, scale = discrete_laplace(known)
        return part.count * shift / scale
    if name == "laplace":
        members(known, "a profile's parameters", "shift_over_scale")
        return part.count * Fraction(number(known, "shift_over_scale"))
    return None


def subsampled(terms: list[Term], rate: float, level: arb, work: Work) -> arb:
    """H_a(qP + (1-q)Q || Q) = q H_((a-1+q)/q)(P||Q), H_a(Q || qP + (1-q)Q) = c H_(aq/c)(Q||P) with c = 1 - a(1-q)."""
    q, a = arb(rate), level.exp()
    ahead = q * Pair(merged(terms), (level.expm1() / q).log1p(), work).enclose()
    c = 1 - a * (1 - q)
    if c <= 0:
        return ahead
    if not c > 0:
        raise Undecided("whether the absence of a record can be told at all hangs on the last digit")
    return ahead.max(c * Pair(merged(reversed_terms(terms)), (a * q / c).log(), work).enclose())


def replaced_in_batch(noise: arb, rate: arb, level: arb) -> arb:
    """(1-q) N(0, s^2) + q N(1, s^2) against the same with N(-1, s^2): the likelihood ratio rises, and one x decides."""
    double = 2 * noise * noise

    def loss(x: arb) -> arb:
        ahead, back = (1 - rate + rate * ((side * 2 * x - 1) / double).exp() for side in (1, -1))
        return ahead.log() - back.log()

    low, high = arb(0), (double / 2 * (level - rate.log() + 2) + 1).upper()
    for _ in range(4 * ctx.prec):
        middle = ((low + high) / 2).mid()
        value = loss(middle)
        if not (value < level or value > level) or middle in (low, high):
            break
        low, high = (middle, high) if value < level else (low, middle)
    x, root = low.union(high), noise * arb(2).sqrt()
    ahead, back = ((1 - rate) * (x / root).erfc() + rate * ((x - side) / root).erfc() for side in (1, -1))
    return (ahead - level.exp() * back) / 2


# --- runs of steps on random batches ----------------------------------------------------------------------------------

DIGITS = 34.0  # e-foldings between the claim and each error of a run's integral
TURNS = (0.06, 0.15, 0.3, 0.5, 0.8, 1.1, 1.5)  # angles by which paths of outputs are moved, below a quarter turn
SHARES = (1.0, 0.8, 0.65, 0.5, 0.38, 0.28, 0.2)  # of the saddle, at which lines are tried
MOST_TERMS = 400_000  # nodes times points of one line


@dataclass(frozen=True)
class Law:
    """`count` steps on random batches: an output z is N(0, 1), or N(1/noise, 1) if the record takes part, at its rate.

    w(z) = 1 - q + q e^{(z - 1/(2 noise))/noise} is the ratio of densities. The loss of a record that is removed is
    log w, of one that is added its negative, of one that is replaced log w(z) - log w(-z); the moment is

        M(s) = E[w(z)^{1+s}],  E[w(z)^{-s}],  or  E[w(z)^{1+s} w(-z)^{-s}],    z ~ N(0, 1).
    """

    energy: Fraction  # 1 / noise^2, exactly
    rate: float
    count: int
    kind: str  # "removed", "added" or "replaced"

    @property
    def noise(self) -> float:
        """The noise, to steer by."""
        return 1.0 / math.sqrt(float(self.energy))

    @property
    def exact_noise(self) -> arb:
        """The noise as a ball."""
        return 1 / ball(self.energy).sqrt()

    def powers(self, order: float) -> tuple[float, float]:
        """Exponents of w(z) and of w(-z) at a real order."""
        ahead = -order if self.kind == "added" else 1.0 + order
        return ahead, -order if self.kind == "replaced" else 0.0

    def floats(self, order: float, turn: float = 0.0, height: float = 0.0) -> float:
        """log of a sum for E|..| on the path moved by `turn`, times e^{-height arg}: plain floats, to steer by."""
        noise = self.noise
        ahead, behind = self.powers(order)
        far = 9.0 + (max(ahead, 0.0) + 1.0) / self.noise
        logs, step = [], (9.0 + far) / 240
        for k in range(241):
            z = k * step - 9.0
            size = -z * z / 2 + (turn * noise) ** 2 / 2
            for side, power in ((1.0, ahead), (-1.0, behind)):
                if power == 0.0:
                    continue
                grown = min((side * z - 0.5 / noise) / noise, 600.0)
                w = 1.0 - self.rate + self.rate * cmath.exp(complex(grown, turn))
                size += power * math.log(abs(w)) - height * cmath.phase(w)
            logs.append(size)
        top = max(logs)
        return top + math.log(sum(math.exp(one - top) for one in logs) * step / math.sqrt(2 * math.pi))

    def factor(self, z: arb, side: int) -> arb:
        """log w at a point, or at the opposite one."""
        noise, rate = self.exact_noise, arb(self.rate)
        return (rate * ((side * z - 1 / (2 * noise)) / noise).expm1()).log1p()

    def beyond(self, order: float, left: arb, right: arb) -> arb:
        """At least the sum over points beyond both ends and a spacing: w^{1+s} <= 1 - q + q e^{(1+s) x}."""
        ahead, behind = self.powers(order)
        noise, rate, root = self.exact_noise, arb(self.rate), arb(2).sqrt()
        lost = ((-left / root).erfc() + (right / root).erfc()) / 2
        if ahead > 0:
            shift = arb(ahead) / noise
            grown = (arb(ahead) * (arb(ahead) - 1) / (2 * noise * noise)).exp()
            moved = (((shift - left) / root).erfc() + ((right - shift) / root).erfc()) / 2
            lost = (1 - rate) * lost + rate * grown * moved
        drop = arb(min(ahead, 0.0) + behind)
        return lost * (drop * (1 - rate).log()).exp()

    def damped(self, order: float, turn: float, height: float, work: Work) -> arb:
        """At least |M(order + it)| for t >= height: outputs move by i turn noise, where e^{-t arg w} only falls."""
        noise, rate = self.exact_noise, arb(self.rate)
        angle = acb(0, turn).exp()
        ahead, behind = self.powers(order)
        left, right = arb(-14), arb(14) + (max(arb(ahead), arb(0)) + 1) / noise

        def size(z: acb, analytic: bool) -> acb:
            if work.spent:
                return acb("nan", "nan")
            total = -z * z / 2
            for side, power in ((1, ahead), (-1, behind)):
                if power == 0.0:
                    continue
                grown = rate * ((side * z - 1 / (2 * noise)) / noise).exp()
                one, other = (
                    (1 - rate + grown * direction).log(analytic=analytic) for direction in (angle, angle.conjugate())
                )
                total += arb(power) / 2 * (one + other) + acb(0, height) / 2 * (one - other)
            return total.exp()

        total = arb(0)
        pieces = 24
        width = (right - left) / pieces
        for k in range(pieces):
            first = left + k * width
            total += acb.integral(size, first, first + width, rel_tol=arb(2) ** -50, abs_tol=arb(2) ** -70).real
        work.check()
        shrunk = (
            arb(min(ahead, 0.0) + behind) * (arb(turn) / 2).cos().log()
        ).exp()  # a negative power of a smaller |w|
        scale = ((arb(turn) * noise) ** 2 / 2).exp()
        total = total / (2 * arb.pi()).sqrt() + self.beyond(order, left, right) * shrunk
        return arb((total * scale).abs_upper())


class Run:
    """Delta of several laws together and a mean shift of the given energy, along the line Re s = c.

    The integrand is M(s)^T e^{-s eps}/(s(s+1)); |M(c + it)| <= M(c). Nodes have spacing h: their sum differs from the
    integral by at most half of the sum over both sides of M(c +- a)^T e^{-(c +- a) eps}/(c +- a)/(e^{2 pi a/h} - 1).
    What lies beyond the last node, at height U, is at most B^T e^{-c eps}/(pi U), B that of `Law.damped`. Inside M the
    outputs have a spacing g: with the line of outputs moved by d, |w(z + id)| <= w(z), >= w(z) cos(th/2) and
    |arg w| <= th, th = d/noise, so that the sum differs from M by at most 2 e^{d^2/2 + t th}/(e^{2 pi d/g} - 1) M(c),
    times cos(th/2)^{-c} where w has a negative power, and twice the angle where there are two.
    """

    def __init__(self, laws: list[Law], energy: Fraction, level: float, claimed: float, work: Work) -> None:
        self.laws, self.energy, self.level, self.work = laws, ball(energy), level, work
        self.gauss = float(energy)
        self.goal = math.log(claimed) - DIGITS

    def enclose(self) -> arb:
        """A ball around delta."""
        largest = sum(-law.count * math.log1p(-law.rate) for law in self.laws) * (1 + 1e-12)
        if self.level >= largest and all(law.kind == "added" for law in self.laws) and not self.gauss:
            return arb(0)
        saddle = self._saddle()
        plans = [plan for share in SHARES if (plan := self._plan(share * saddle)) is not None]
        if not plans or min(plans)[0] > MOST_TERMS:
            raise Undecided("no line of nodes serves this run of random batches")
        return self._sum(*min(plans)[1:])

    # Plain floats choose the line; nothing rigorous depends on them.

    def _exponent(self, c: float) -> float:
        self.work.check()
        total = c * (1 + c) * self.gauss / 2 - c * self.level
        return total + sum(law.count * law.floats(c) for law in self.laws)

    def _saddle(self) -> float:
        low, high = -6.0, 9.0
        for _ in range(24):
            first, second = low + 0.382 * (high - low), low + 0.618 * (high - low)
            values = [self._exponent(math.exp(x)) - x - math.log1p(math.exp(x)) for x in (first, second)]
            low, high = (low, second) if values[0] < values[1] else (first, high)
        return math.exp((low + high) / 2)

    def _plan(self, c: float) -> tuple[float, float, float, float, float, tuple[float, ...]] | None:
        """Cost, c, a, spacing, height and turns of a line through c; None where errors would swamp the claim."""
        peak = self._exponent(c)
        best = 0.0, 0.0
        for share in (0.8, 0.6, 0.4, 0.25, 0.12):
            grown = max(self._exponent(c - share * c), self._exponent(c + share * c)) - math.log(c - share * c)
            best = max(best, (2 * math.pi * share * c / max(grown - self.goal, 1.0), share * c))
        spacing, aside = best
        turns: tuple[float, ...] = ()
        high = c
        for _ in range(18):
            self.work.check()
            falls = [min((law.floats(c, turn, high), turn) for turn in TURNS) for law in self.laws]
            size = sum(law.count * fall for law, (fall, _) in zip(self.laws, falls, strict=True))
            size += (c * (1 + c) - high * high) * self.gauss / 2 - c * self.level - math.log(high)
            if size < self.goal:
                turns = tuple(turn for _, turn in falls)
                break
            high *= 1.6
        if not turns or peak - self.goal > 160.0:
            return None
        nodes = high / spacing
        points = sum(20.0 / self._fine(law, c, high, peak)[0] for law in self.laws)
        return nodes * points, c, aside, spacing, high, turns

    def _fine(self, law: Law, c: float, height: float, peak: float) -> tuple[float, float]:
        """Spacing of outputs and distance of the line they are moved to."""
        digits = max(peak - self.goal, DIGITS) + math.log(law.count) + 8.0
        sides = 2 if law.kind == "replaced" else 1
        best = 0.0, 0.0
        for turn in (0.2, 0.5, 1.0, 1.5, 2.2, 2.9):
            d = turn * law.noise
            cost = digits + d * d / 2 + sides * height * turn
            cost += 0.0 if law.kind == "removed" else -c * math.log(math.cos(turn / 2))
            best = max(best, (2 * math.pi * d / cost, turn))
        return best

    # From here on all is proven.

    def _sum(self, c: float, aside: float, spacing: float, height: float, turns: tuple[float, ...]) -> arb:
        nodes = math.ceil(height / spacing)
        top = nodes * spacing
        level, order, h = arb(self.level), arb(c), arb(spacing)
        peak = self._exponent(c)
        scale = (-order * level - arb(peak)).exp()
        values, tail = [acb(scale)] * (nodes + 1), scale
        beside = [(-arb(x) * level - arb(peak)).exp() / arb(x) for x in (c - aside, c + aside)]
        for law, turn in zip(self.laws, turns, strict=True):
            row, sides = self._moments(law, c, aside, spacing, nodes, peak)
            values = [value * moment**law.count for value, moment in zip(values, row, strict=True)]
            beside = [size * moment**law.count for size, moment in zip(beside, sides, strict=True)]
            tail *= law.damped(c, turn, top, self.work) ** law.count
        total = arb(0)
        for n, value in enumerate(values):
            s = acb(order, h * n)
            term = value * (s * (1 + s) * self.energy / 2 - acb(0, h * n) * level).exp() / (s * (s + 1))
            total += term.real / 2 if n == 0 else term.real
        total *= h / arb.pi()
        error = arb(0)
        for x, size in zip((c - aside, c + aside), beside, strict=True):
            error += size * (arb(x) * (1 + arb(x)) * self.energy / 2).exp()
        apart = arb(min(c - (c - aside), (c + aside) - c)) * (1 - arb(2) ** -50)
        error = error / 2 / ((2 * arb.pi() * apart / h).exp() - 1)
        shrunk = ((order * (1 + order) - h * h * nodes * nodes) * self.energy / 2).exp()
        error += tail * shrunk / (arb.pi() * h * nodes)
        if not error.is_finite():
            raise Undecided("no line of nodes serves this run of random batches")
        return (total + arb(0, error.abs_upper())) * arb(peak).exp()

    def _moments(
        self, law: Law, c: float, aside: float, spacing: float, nodes: int, peak: float
    ) -> tuple[list[acb], list[arb]]:
        """M at all nodes, and upper ends of M at c - a and c + a."""
        gap, turn = self._fine(law, c, nodes * spacing, peak)
        ahead, behind = law.powers(c + aside)
        reach = math.sqrt(2 * (max(peak - self.goal, DIGITS) + math.log(law.count) + 10.0)) + 1.0
        drop = math.sqrt(2 * max(-(min(ahead, 0.0) + behind) * -math.log1p(-law.rate), 0.0))
        first = math.floor(-(reach + drop) / gap)
        last = math.ceil((reach + drop + max(ahead, 0.0) / law.noise) / gap)
        if (last - first) * nodes > 8 * MOST_TERMS:
            raise Undecided("no line of nodes serves this run of random batches")
        unit, points = arb(gap), range(first, last + 1)
        ends = unit * (first + 1), unit * (last - 1)
        losses, weights = [], []
        for k in points:
            z = unit * k
            one = law.factor(z, 1)
            loss = -one if law.kind == "added" else one
            if law.kind == "replaced":
                loss -= law.factor(z, -1)
            base = arb(0) if law.kind == "added" else one
            losses.append(loss)
            weights.append((base + arb(c) * loss - z * z / 2).exp() * unit / (2 * arb.pi()).sqrt())
        self.work.check()
        angle, aways = arb(turn), 2 if law.kind == "replaced" else 1
        moved = angle * law.exact_noise
        share = 2 * (moved**2 / 2).exp() / ((2 * arb.pi() * moved / unit).exp() - 1)

        def slack(order: float, height: arb) -> arb:
            """The relative error of a sum."""
            found = share * (aways * height * angle).exp()
            return found if law.kind == "removed" else found * (-arb(order) * (angle / 2).cos().log()).exp()

        def upper(total: arb, order: float) -> arb:
            """At least the moment of which a sum and its relative error are known."""
            kept = 1 - slack(order, arb(0))
            if not kept > 0:
                raise Undecided("no line of nodes serves this run of random batches")
            return arb(((total + law.beyond(order, *ends)) / kept).abs_upper())

        whole = sum(weights, arb(0))
        most = upper(whole, c)
        left_out = law.beyond(c, *ends)
        step = arb(spacing)
        turned = [acb(weight) for weight in weights]
        by = [acb(0, step * loss).exp() for loss in losses]
        row = []
        for n in range(nodes + 1):
            radius = (most * slack(c, step * n) + left_out).abs_upper()
            row.append(sum(turned, acb(0)) + acb(arb(0, radius), arb(0, radius)))
            turned = [value * factor for value, factor in zip(turned, by, strict=True)]
            self.work.check()
        sides = []
        for x in (c - aside, c + aside):
            shift = arb(x) - arb(c)
            total = sum((weight * (shift * loss).exp() for weight, loss in zip(weights, losses, strict=True)), arb(0))
            sides.append(upper(total, x))
        return row, sides


def laws_of(part: Part) -> Law | None:
    """The steps on random batches that a part stands for, removed records; None of anything else."""
    if part.profile is None or part.profile["version"] != 1:
        return None
    name, known = part.profile["profile"], members(part.profile["parameters"], "a profile's parameters", None)
    if name == "poisson-subsampled-replace":
        members(known, "a profile's parameters", "noise_multiplier rate")
        noise, rate = number(known, "noise_multiplier", 1e-2, 1e6), number(known, "rate", 1e-12, 1.0)
        return Law(1 / Fraction(noise) ** 2, rate, part.count, "replaced")
    if name != "poisson-subsampled":
        return None
    members(known, "a profile's parameters", "base rate backward")
    columns = known["base"]
    if not isinstance(columns, dict) or not all(isinstance(columns.get(one), list) for one in COLUMNS):
        return None
    if any(isinstance(value, list) for one in COLUMNS for value in columns[one]):
        return None
    terms = merged(read_terms(*(columns[one] for one in COLUMNS)))
    if len(terms) != 1 or terms[0][0] != 0 or not Fraction(1, 10**12) <= terms[0][2] <= 10**4:
        return None
    if type(known["backward"]) is not bool:
        raise Refuted("'backward' is neither true nor false")
    return Law(terms[0][2], number(known, "rate", 1e-12, 1.0), part.count, "added" if known["backward"] else "removed")


def run_delta(parts: list[Part], epsilon: float, claimed: float, adjacency: dict[str, Any], work: Work) -> arb:
    """Delta of steps on random batches and mean shifts together, the worse direction."""
    laws, energy = [], Fraction(0)
    for part in parts:
        law = laws_of(part)
        terms = (
            merged(part.edges[0]) if part.edges and not part.batched else [(Fraction(1, 2), Fraction(1), Fraction(0))]
        )
        if law is not None:
            laws.append(law)
        elif part.profile is None and all(gap == 0 for gap, _, _ in terms):
            energy += part.count * sum((term[2] for term in terms), Fraction(0))
        else:
            raise Undecided("compositions of other named profiles or pairs are beyond this program")
    if not laws or not claimed or any(law.rate == 1.0 for law in laws):
        raise Undecided("a composition of this kind is beyond this program")
    if adjacency["symmetric"] and any(law.kind != "replaced" for law in laws):
        raise Undecided("a run in which entries may stand either way round is beyond this program")
    other = {"removed": "added", "added": "removed", "replaced": "replaced"}
    delta = Run(laws, energy, epsilon, claimed, work).enclose()
    if all(law.kind == "replaced" for law in laws):
        return delta
    back = [replace(law, kind=other[law.kind]) for law in laws]
    return delta.max(Run(back, energy, epsilon, claimed, work).enclose())


def groups_of(parts: list[Part], edges: int | None) -> list[list[tuple[list[Term], int]]]:
    """For every label edge the terms of each part and its count."""
    for part in parts:
        if part.batched and len(part.edges or []) != edges:
            raise NoCertificate("the charge does not have one loss per ordered edge of the adjacency")
    places = edges if edges is not None and any(part.batched for part in parts) else 1
    return [
        [((part.edges or [])[place if part.batched else 0], part.count) for part in parts] for place in range(places)
    ]


def repeated(terms: list[Term], count: int) -> list[Term]:
    """The terms of `count` independent repetitions."""
    return [(gap, multiplicity * count, energy * count) for gap, multiplicity, energy in terms]


def patterns(group: list[tuple[list[Term], int]], symmetric: bool) -> list[list[Term]] | None:
    """Terms of every orientation that must be private; None where they are too many to list."""
    both = [(terms, reversed_terms(terms), count) for terms, count in group]
    if not symmetric:
        ahead, back = [], []
        for terms, other, count in both:
            ahead += repeated(terms, count)
            back += repeated(other, count)
        return [merged(ahead), merged(back)]
    choices = [
        [count] if all(gap == 0 for gap, _, _ in terms) else list(range(min(count, PATTERNS) + 1))
        for terms, _, count in both
    ]
    free = math.prod(count + 1 for (terms, _, count) in both if any(gap for gap, _, _ in terms))
    if free > PATTERNS:
        return None
    found = []
    for chosen in itertools.product(*choices):
        pattern: list[Term] = []
        for (terms, other, count), ahead_count in zip(both, chosen, strict=True):
            pattern += repeated(terms, ahead_count) + repeated(other, count - ahead_count)
        found.append(merged([term for term in pattern if term[1] or term[2]]))
    return found


def delta_bounds(record: dict[str, Any], work: Work) -> tuple[arb, arb]:
    """Lower and upper end of the delta that the charge allows, sampler included; stops where the claim is decided."""
    epsilon, claimed = number(record, "epsilon"), number(record, "delta", 0.0, 1.0)
    adjacency = members(record["adjacency"], "adjacency", None)
    parts, eta = read_charge(record)
    groups = groups_of(parts, adjacency_edges(adjacency)) if all(part.edges for part in parts) else []
    sampler = (1 + arb(epsilon).exp()) * arb(eta)
    if any(part.profile is not None for part in parts):
        losses = [pure_loss(part) for part in parts]
        if None not in losses and sum(filter(None, losses)) <= Fraction(epsilon):  # they add up, whatever is composed
            return sampler.lower(), sampler.upper()
        alone = len(parts) == 1 and (parts[0].count == 1 or laws_of(parts[0]) is None)
        value = profile_delta(parts[0], epsilon, work) if alone else run_delta(parts, epsilon, claimed, adjacency, work)
        value = value.max(arb(0)) + sampler
        return value.lower(), value.upper()
    lowest, highest = arb(0), arb(0)
    seen = set()
    for group in groups:
        key = tuple((tuple(terms), count) for terms, count in group)
        if key in seen:
            continue
        seen.add(key)
        listed = patterns(group, bool(adjacency["symmetric"]))
        if listed is None:
            bound = chernoff([repeated(terms, count) for terms, count in group], epsilon, work) + sampler
            highest = highest.max(bound)
            continue
        for terms in listed:
            value = Pair(terms, epsilon, work).enclose().max(arb(0)) + sampler
            lowest, highest = lowest.max(value.lower()), highest.max(value.upper())
            if lowest > claimed:
                return lowest, highest
    return lowest, highest


def check_delta(record: dict[str, Any], work: Work) -> tuple[float, float]:
    """Raise unless delta at epsilon is proven to be at most the claim; its ends in floats."""
    claimed, stated = number(record, "delta", 0.0, 1.0), number(record, "delta_upper", 0.0, 1.0)
    if stated > claimed:
        raise Refuted("the stated upper end of delta exceeds the claimed delta")
    before = ctx.prec
    try:
        for precision in PRECISIONS:
            ctx.prec = precision
            lower, upper = delta_bounds(record, work)
            ends = max(float(lower.lower()), 0.0), min(float(upper.upper()), 1.0)
            if lower > claimed and claimed < 1:
                raise Refuted(
                    f"the charge allows delta {ends[0]:.6g} at epsilon {record['epsilon']}, claimed {claimed:g}"
                )
            if lower * (1 - arb("1e-9")) > stated and not stated == 1:
                raise Refuted(f"delta is at least {ends[0]:.6g}, above the stated upper end {stated:g}")
            if upper <= claimed or claimed == 1:
                return ends
        raise Undecided(
            f"delta lies in [{ends[0]:.17g}, {ends[1]:.17g}], which does not tell it from the claim {claimed:g}"
        )
    finally:
        ctx.prec = before


# --- public parameters that lead to the pair --------------------------------------------------------------------------

SQUARED = Fraction(1, 2**50)  # rounding of a squared float: what differs by less is not decided, by more is false
SMALL = "the noise is too small for the stated l2_sensitivity, grid and charged mean shift"
OPEN = "the noise covers the stated l2_sensitivity only if its last places are read in the issuer's favour"


ROWS, TOUCHED, CELLS = BOUNDS = ("rows_per_group", "groups_per_unit", "groups_in_all")
LOSSES, EPSILONS, NOISES = "squared losses", "epsilons", "noise variances"
LISTS = {"histograms": "histogram", "cumulative counts, times the least": "cumulative"}
PLACES = Fraction(1, 2**40)  # of a table's losses and variances, which are told as floats
KEPT = 2.0**-17  # of a table's mean shift, for rounding to grids
SCALED, MOVED = 2.0**-28, 2.0**-18  # of Laplace noise, whose scale is a fraction and whose rows lie on a grid
FEW = 2**17  # rows or groups, half of what rounding of bins can hide
PROFILE = "profile "  # draws of Laplace noise that share an epsilon as earlier ones tell
ONE_SIDED = ("l2_sensitivity", "shape", "grid", "rounding_l2", "noise_covariance")
WORDS = ("release", "guarantee", "composition", "assumptions", "account", "dataset", "library_version")


def check_parameters(record: dict[str, Any], work: Work) -> None:
    """Plain Gaussian noise: (D + rounding)^2 <= (variance - 4 g^2) energy in every direction; D by the adjacency.

    The noise is taken exactly as it is stated: what holds with the rounding of its entries alone is not decided.
    """
    known = members(record["parameters"], "parameters", None)
    check_ball(known, record["adjacency"])
    for name in BOUNDS:
        if name in known and (type(known[name]) is not int or known[name] < 1):
            raise Refuted(f"the parameter {name!r} is no whole number of at least 1")
    parts, _ = read_charge(record)
    if EPSILONS in known and LOSSES not in known and is_whole(known):
        check_laplace_draws(known, parts)
    if not known.keys() & {"l2_sensitivity", "mean_shift", "rounding_l2", LOSSES}:
        return
    if any(part.edges is None or part.batched or any(gap for gap, _, _ in part.edges[0]) for part in parts):
        raise Refuted("Gaussian noise is charged as one mean shift, the certificate charges something else")
    charged = sum((term[2] * part.count for part in parts for term in (part.edges or [[]])[0]), Fraction(0))
    if "mean_shift" in known and abs(positive(known, "mean_shift") ** 2 - charged) > 8 * SQUARED * charged:
        raise Refuted("the stated mean_shift is not the charged one")
    if LOSSES in known:
        check_draws(known, charged)
    if "l2_sensitivity" not in known:
        return
    shape = known.get("shape")
    if not isinstance(shape, list) or any(type(size) is not int or size < 1 for size in shape):
        raise Undecided("the parameter 'shape' is not a list of positive whole numbers")
    grid, rounding = positive(known, "grid"), positive(known, "rounding_l2")
    if rounding**2 < grid**2 * math.prod(shape):
        raise Refuted("rounding_l2 is less than grid times the root of the number of coordinates")
    if charged <= 0:
        raise Refuted("the noise is too small: nothing is charged")
    squared = (positive(known, "l2_sensitivity") + rounding) ** 2
    rows = noise_rows(known, math.prod(shape))
    if not covers(rows, squared / (charged * (1 + SQUARED) ** 2) + 4 * grid**2, SQUARED * len(rows), work):
        raise Refuted(SMALL)
    if covers(rows, squared / charged + 4 * grid**2, Fraction(0), work):
        return
    # The charged square is a rounded one: the promise itself may hold for the shift that the noise leads to.
    left = rows[0][0] - 4 * grid**2
    energy = squared / left if len(rows) == 1 and left > 0 else charged * (1 + SQUARED)
    shown = covers(rows, squared / energy + 4 * grid**2, Fraction(0), work)
    _, eta = read_charge(record)
    epsilon, claimed = number(record, "epsilon"), number(record, "delta", 0.0, 1.0)
    delta = Pair([(Fraction(0), Fraction(1), energy)], epsilon, work).enclose() + (1 + arb(epsilon).exp()) * arb(eta)
    if not (shown and delta <= claimed):
        raise Undecided(OPEN)


def check_ball(known: dict[str, Any], adjacency: dict[str, Any]) -> None:
    """Where what is released is itself what a ball of neighbours is about, its radius bounds their distance."""
    if "l2_ball" not in known:
        return
    ball = positive(known, "l2_ball")
    if adjacency["kind"] != "l2-ball" or Fraction(adjacency["parameters"]["radius"]) != ball:
        raise Refuted("the stated l2_ball is not the radius of the adjacency")
    if "l2_sensitivity" in known and positive(known, "l2_sensitivity") < ball:
        raise Refuted("the stated l2_sensitivity is less than the radius within which neighbours lie")


def basis_of(record: dict[str, Any]) -> str:
    """What the recomputed delta rests on, in words."""
    known = record["parameters"]
    if "l2_sensitivity" not in known:
        return PAIR_ALONE
    if "l2_ball" in known:
        return LEADS
    return (
        f"the owner's word that two neighbours have values at most {known['l2_sensitivity']!r} apart in l2 norm; "
        "from there on, the pair and the stated noise"
    )


def names_of_table(known: dict[str, Any]) -> list[str]:
    """The parameters that say together what a table's draws cost."""
    spent = [name for name in (LOSSES, EPSILONS) if name in known]
    spent = spent or [EPSILONS if known.get("law") == "laplace" else LOSSES]
    return ["law", *BOUNDS, *spent, NOISES]


def is_whole(known: dict[str, Any]) -> bool:
    """Whether all of them are there, and fit each other in kind."""
    if not all(name in known for name in names_of_table(known)):
        return False
    if known[TOUCHED] > known[CELLS]:
        raise Refuted("a unit counts in more groups than there are")
    if known["law"] != ("gaussian" if LOSSES in known else "laplace") or (LOSSES in known and EPSILONS in known):
        raise Refuted("the law of the noise is not that of what is spent")
    return True


def all_positive(known: dict[str, Any], name: str) -> dict[str, Fraction]:
    """An object of positive numbers."""
    if not isinstance(known[name], dict):
        raise Undecided(f"the parameter {name!r} is no object")
    return {one: positive(known[name], one) for one in known[name]}


@dataclass(frozen=True)
class Drawn:
    """A table's draw as it is stated: variances of each number, shared by all, and of sums drawn beside them.

    A unit of r rows in each of t groups at most loses r^2 times the largest j (1/a + sum 1/s) - j^2 b / (a (a + d b))
    over j <= t, with own noise a, shared noise b, variances s and d groups.
    """

    name: str
    own: Fraction
    shared: Fraction = Fraction(0)
    beside: tuple[Fraction, ...] = ()

    def lost(self, touched: int, cells: int) -> Fraction:
        """The largest squared loss at one row: a parabola in j, at its top or at the end."""
        slope = 1 / self.own + sum((1 / one for one in self.beside), Fraction(0))
        bend = self.shared / (self.own * (self.own + cells * self.shared))
        top = touched if not bend else min(touched, math.floor(slope / (2 * bend)))
        return max(slope * j - bend * j * j for j in {top, min(top + 1, touched)})


def check_draws(known: dict[str, Any], charged: Fraction) -> None:
    """A table's draws: their squared losses are what is charged, and the noise is what they and a unit need.

    Where nobody says how many groups there are, the noise may be more than that, and shared noise counts as t of it.
    """
    losses, whole_table = all_positive(known, LOSSES), is_whole(known)
    total = sum(losses.values(), Fraction(0))
    if total > charged:
        raise Refuted("the squared losses of the draws add up to more than is charged")
    left = math.sqrt(charged) - KEPT
    if whole_table and abs(float(total) - left**2) > 2.0**-36 * left**2:
        raise Refuted("the squared losses of the draws do not add up to what is charged")
    if not all(name in known for name in (ROWS, TOUCHED, NOISES)):
        return
    rows, touched = known[ROWS], known[TOUCHED]
    stated = draws_stated(known)
    for one in stated:
        if one.name not in losses:
            raise Refuted(f"the noise of {one.name} has no squared loss")
        loss = losses[one.name]
        plain_loss = touched / (one.own + touched * one.shared)
        lost = rows**2 * (one.lost(touched, known[CELLS]) if whole_table else plain_loss)
        if lost > loss * (1 + PLACES):
            raise Refuted(f"the noise of {one.name} is too small for its squared loss and the bounds of a unit")
        white = not one.shared and not one.beside
        if (whole_table or white) and lost < loss * (1 - PLACES):
            raise Refuted(f"the noise of {one.name} does not follow from its squared loss and the bounds of a unit")
    open_losses = losses.keys() - {one.name for one in stated} if whole_table else set()
    for name in open_losses:
        if name.partition(" ")[0] in ("rows", "sum", *LISTS.values()):
            raise Refuted(f"the noise of {name} is not stated")


def draws_stated(known: dict[str, Any]) -> list[Drawn]:
    """Every draw that is stated."""
    noise = known[NOISES]
    if not isinstance(noise, dict) or not noise.keys() <= {"rows", "features", "sums", *LISTS}:
        raise Undecided("the parameter 'noise variances' is not of draws that are known")
    if "features" in noise and "rows" not in noise:
        raise Undecided("the parameter 'noise variances' has sums without their counts")
    lists = {name: noise.get(name, []) for name in ("features", "sums", *LISTS)}
    pairs = [("rows", noise["rows"])] if "rows" in noise else []
    if not all(isinstance(one, list) for one in lists.values()):
        raise Undecided("the parameter 'noise variances' is not of lists")
    pairs += [(f"sum {place}", pair) for place, pair in enumerate(lists["sums"])]
    if not all(isinstance(pair, list) and len(pair) == 2 for _, pair in pairs):
        raise Undecided("a variance of the parameter 'noise variances' is not two numbers")
    found = []
    for name, (own, shared) in pairs:
        beside = tuple(positive({name: one}, name) for one in lists["features"]) if name == "rows" else ()
        none = type(shared) in (int, float) and shared == 0
        both = positive({name: own}, name), Fraction(0) if none else positive({name: shared}, name)
        found.append(Drawn(name, *both, beside))
    for entry, name in LISTS.items():
        found += [Drawn(f"{name} {place}", positive({name: own}, name)) for place, own in enumerate(lists[entry])]
    return found


def check_laplace_draws(known: dict[str, Any], parts: list[Part]) -> None:
    """Laplace noise of scale b on a grid g has variance g^2 / (2 sinh(1/(2b))^2); r t rows are the shift times g.

    Sums rounded to the grid add a step for each of t groups, halves of rows two, so that t is told apart from r. Draws
    of a profile stand there as one number that a unit moves by 1.
    """
    epsilons, variances = all_positive(known, EPSILONS), all_positive(known, NOISES)
    sources = {name: name if name in epsilons else name.partition(" ")[0] for name in variances}
    if epsilons.keys() != set(sources.values()):
        raise Refuted("the draws with noise are not those with an epsilon")
    kinds = {part.profile["profile"] if part.profile else "" for part in parts}
    if sum(part.count for part in parts) != len(variances) or kinds != {"discrete-laplace"}:
        raise Refuted("the charge is not one pair of discrete Laplace noise for each draw")
    pairs = [discrete_laplace(part.profile["parameters"]) for part in parts if part.profile for _ in range(part.count)]
    for name, variance in variances.items():
        own = float(epsilons[sources[name]]) / list(sources.values()).count(sources[name])
        bounds = (1, 1) if name.startswith(PROFILE) else (known[ROWS], known[TOUCHED])
        fitting = [pair for pair in pairs if laplace_fits(name, *pair, own, float(variance), *bounds)]
        if not fitting:
            raise Refuted(f"the noise of {name} does not follow from its epsilon and the bounds of a unit")
        pairs.remove(fitting[0])


def laplace_fits(
    name: str, shift: int, scale: Fraction, epsilon: float, variance: float, rows: int, touched: int
) -> bool:
    """Whether noise on a grid of a power of two has this epsilon and variance, for so many rows and groups."""
    if abs(shift / float(scale) - epsilon) > epsilon * 2.0**-36:
        return False
    grid = math.sqrt(2 * variance) * math.sinh(1 / (2 * float(scale)))
    if not 0 < grid < math.inf:
        return False
    power, moved = 2.0 ** round(math.log2(grid)), rows * touched
    if abs(grid - power) > SCALED * power or not moved <= shift * power <= moved * (1 + MOVED):
        return False
    kind, _, numbered = name.partition(" ")
    steps = shift - moved / Fraction(power)
    if kind == "histogram":
        return steps % touched == 0
    touches = {"sum": touched, "rows": 2 * touched}.get(kind, 0) if numbered else 0
    return steps == touches


def held(known: dict[str, Any]) -> tuple[set[str], set[str]]:
    """Parameters of which another number would not pass, where these did; and those that are told only together."""
    found = {"mean_shift"} & known.keys()
    if "l2_ball" in known:
        found |= {"l2_ball", "l2_sensitivity"}
    if not known.keys() & {LOSSES, EPSILONS} or not is_whole(known):
        return found, set()
    if EPSILONS in known:
        return found | {"law"}, {EPSILONS, NOISES} | told_by_counts(known)
    return found | {"law"}, {LOSSES, NOISES} | told_by_draws(known)


def told_by_counts(known: dict[str, Any]) -> set[str]:
    """Rows and groups by Laplace noise: bins of a histogram that are rounded tell of few of them."""
    kinds = {name.partition(" ")[0] for name in known[NOISES]} - {PROFILE.strip()}
    return {name for name in (ROWS, TOUCHED) if kinds - {"histogram"} or (kinds and known[name] < FEW)}


def told_by_draws(known: dict[str, Any]) -> set[str]:
    """Rows, groups and cells by Gaussian noise: those that cannot change by one, alone, in some draw."""
    touched, cells, stated = known[TOUCHED], known[CELLS], draws_stated(known)
    found = {ROWS} if stated else set()
    steps = {TOUCHED: ((-1, 0), (1, 0)), CELLS: ((0, -1), (0, 1))}
    for one, (name, moves) in itertools.product(stated, steps.items()):
        lost = one.lost(touched, cells)
        others = [one.lost(touched + more, cells + wider) for more, wider in moves if touched + more and cells + wider]
        if all(abs(other - lost) > 2 * PLACES * lost for other in others):
            found.add(name)
    return found


def unchecked(record: dict[str, Any], *, compared: bool) -> tuple[str, ...]:
    """Fields that may say anything without the verdict changing: the issuer's word."""
    known, adjacency, charge = record["parameters"], record["adjacency"], record["dominating"]["charge"]
    (checked, together), names = held(known), list(WORDS)
    if adjacency["parameters"]:
        names.append("adjacency.parameters.space" if "l2_ball" in known else "adjacency.parameters")
    names += ["ledger"] if record.get("ledger") is not None else []
    names += ["values"] if record.get("values") is not None and not compared else []
    if not {"mean_shift", EPSILONS} & (checked | together):
        names.append("dominating.charge")
    elif "draw_identities" in charge:
        names.append("dominating.charge.draw_identities")
    wanted: list[str] = []
    if record["release"]["mechanism"] == "table":
        wanted = names_of_table(known)
    elif known.keys() & {"l2_sensitivity", "noise_covariance", "rounding_l2"}:
        wanted = [*ONE_SIDED, "mean_shift"]
    led = ONE_SIDED if "l2_sensitivity" in known else ()
    notes = dict.fromkeys(led, " (from one side)") | dict.fromkeys(together, " (only together)")
    lines = [f"{name}{notes.get(name, '')}" for name in known if name not in checked]
    lines += [f"{name} (not stated)" for name in wanted if name not in known]
    return (*names, *(f"parameters.{line}" for line in lines))


def positive(known: dict[str, Any], name: str) -> Fraction:
    """A positive number as a fraction."""
    value = known.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise Undecided(f"the parameter {name!r} is not a positive number")
    return Fraction(value)


def noise_rows(known: dict[str, Any], coordinates: int) -> list[list[Fraction]]:
    """The covariance of the noise as it is stated; white noise has one row."""
    stated = known.get("noise_covariance")
    if not isinstance(stated, list):
        return [[positive(known, "noise_covariance")]]
    size = len(stated)
    square = size and all(isinstance(row, list) and len(row) == size for row in stated) and coordinates % size == 0
    if not square or any(isinstance(v, bool) or not isinstance(v, int | float) for row in stated for v in row):
        raise Undecided("the parameter 'noise_covariance' is no square matrix that fits 'shape'")
    return [[Fraction(value) for value in row] for row in stated]


def covers(rows: list[list[Fraction]], needed: Fraction, share: Fraction, work: Work) -> bool:
    """Whether the matrix, with a share of its diagonal added, has the needed variance in every direction.

    Cholesky of the lower half in balls: a pivot that is surely not positive decides. A single number is compared as it
    is.
    """
    size = len(rows)
    room = [share * abs(rows[i][i]) for i in range(size)]
    for i, j in itertools.combinations(range(size), 2):
        if (rows[i][j] - rows[j][i]) ** 2 > 4 * room[i] * room[j]:
            if share:
                raise Refuted("the parameter 'noise_covariance' is not symmetric")
            return False
    if size == 1:
        return rows[0][0] + room[0] >= needed
    before = ctx.prec
    try:
        for ctx.prec in PRECISIONS:
            left = [[ball(rows[i][j] + (room[i] - needed if i == j else 0)) for j in range(i + 1)] for i in range(size)]
            decided = eliminated(left, work)
            if decided is not None:
                return decided
        raise Undecided("whether the noise is large enough in every direction could not be told")
    finally:
        ctx.prec = before


def eliminated(lower: list[list[arb]], work: Work) -> bool | None:
    """Whether all pivots of a symmetric elimination are positive; None where the balls are too wide to tell."""
    size = len(lower)
    for k in range(size):
        pivot = lower[k][k]
        if pivot <= 0:
            return False
        if not pivot > 0:
            return None
        for i in range(k + 1, size):
            work.check()
            factor = lower[i][k] / pivot
            for j in range(k + 1, i + 1):
                lower[i][j] -= factor * lower[j][k]
    return True


# --- Ed25519 (RFC 8032), verification only ----------------------------------------------------------------------------

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT = pow(2, (P - 1) // 4, P)
Point = tuple[int, int, int, int]
ONE: Point = (0, 1, 1, 0)


def recovered(body: bytes) -> Point | None:
    """The point that 32 bytes encode; None where they encode none."""
    y = int.from_bytes(body, "little")
    sign, y = y >> 255, y & (2**255 - 1)
    if len(body) != 32 or y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT % P
    if (x * x - square) % P or (not x and sign):
        return None
    x = P - x if x & 1 != sign else x
    return x, y, 1, x * y % P


def added(one: Point, other: Point) -> Point:
    """Sum of two points in extended coordinates."""
    a = (one[1] - one[0]) * (other[1] - other[0]) % P
    b = (one[1] + one[0]) * (other[1] + other[0]) % P
    c, d = 2 * one[3] * other[3] * D % P, 2 * one[2] * other[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def multiplied(scalar: int, point: Point) -> Point:
    """A multiple of a point."""
    result = ONE
    while scalar:
        if scalar & 1:
            result = added(result, point)
        point, scalar = added(point, point), scalar >> 1
    return result


BASE = recovered((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def signature_holds(key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether the signature fits, by the equation S B = R + h A."""
    point, nonce = recovered(key), recovered(signature[:32])
    scalar = int.from_bytes(signature[32:], "little")
    if point is None or nonce is None or BASE is None or len(signature) != 64 or scalar >= ORDER:
        return False
    h = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % ORDER
    left, right = multiplied(scalar, BASE), added(nonce, multiplied(h, point))
    return (left[0] * right[2] - right[0] * left[2]) % P == 0 == (left[1] * right[2] - right[1] * left[2]) % P


def canonical(record: object) -> bytes:
    """The bytes that are signed: sorted keys, no spaces, shortest exact floats."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def plain_key(body: bytes) -> bytes:
    """The 32 bytes of a public key from a PEM file, or from bare base64."""
    lines = [line for line in body.decode("ascii", "replace").splitlines() if not line.startswith("-----")]
    try:
        return base64.b64decode("".join(lines), validate=True)[-32:]
    except ValueError:
        raise Refuted("the public key file holds no key") from None


def as_floats(record: dict[str, Any]) -> dict[str, Any]:
    """The record with the numbers that gaussveil reads as floats written as floats."""
    made: dict[str, Any] = json.loads(canonical(record))
    charge = made["dominating"]["charge"]
    for place, names in (
        (made, ("epsilon", "delta", "delta_upper")),
        (made["sampler"], ("total_variation", "charged")),
        (charge, ("sampler_error",)),
    ):
        for name in names:
            place[name] = float(place[name])
    for part in charge["parts"]:
        for name, column in part.get("gaussian", {}).items():
            part["gaussian"][name] = [
                [float(v) for v in row] if isinstance(row, list) else float(row) for row in column
            ]
    return made


def check_signature(record: dict[str, Any], key: bytes | None) -> str:
    """Words for what a signature shows; raises where one is wrong or missing."""
    stated = record.get("signature")
    if stated is None:
        if key is not None:
            raise Refuted("the certificate is not signed, but a public key was given")
        return "none"
    found = members(stated, "the signature", "algorithm public_key value")
    if text(found, "algorithm") != "Ed25519":
        raise Refuted("the signature is of an unknown algorithm")
    try:
        own, value = (base64.b64decode(text(found, name), validate=True) for name in ("public_key", "value"))
    except ValueError:
        raise Refuted("the signature is not base64") from None
    if key is not None and own != key:
        raise Refuted("the certificate was signed with another key than the one given")
    body = {name: value for name, value in record.items() if name != "signature"}
    if not any(signature_holds(own, canonical(one), value) for one in (body, as_floats(body))):
        raise Refuted("the signature does not fit the certificate")
    return "valid, by the given key" if key is not None else "valid, by the key inside the certificate"


# --- released numbers -------------------------------------------------------------------------------------------------

BITS = 44  # to which released numbers are kept: a detour through fifteen digits changes none
WHOLE = re.compile(r"[+-]?[0-9]{1,4000}")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
TIME = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(\.\d+)?(?:\s*(Z|[+-]\d\d:?\d\d))?)?")
MISSING = {"", "nan", "-nan", "null", "none", "na", "n/a", "<na>", "nat", "#n/a"}
INFINITE = {"inf": "inf", "+inf": "inf", "infinity": "inf", "-inf": "-inf", "-infinity": "-inf"}
Table = list[list[Any]]  # rows of cells


def cell_text(value: Any) -> str:
    """A cell in the form that files and libraries leave as it is."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return whole_text(value)
    if isinstance(value, float):
        return number_text(value)
    word = unicodedata.normalize("NFC", str(value).strip())
    lowered = word.lower()
    if lowered in MISSING:
        return ""
    if lowered in INFINITE or lowered in ("true", "false"):
        return INFINITE.get(lowered, lowered)
    if WHOLE.fullmatch(word):
        return whole_text(int(word))
    if NUMBER.fullmatch(word):
        return number_text(float(word))
    return time_text(word) if TIME.fullmatch(word) else word


def whole_text(value: int) -> str:
    """A whole number of more bits and digits than released ones keeps them; those are written exactly or in short."""
    digits = str(value)
    if len(digits) >= 300:
        return digits
    near = number_text(value)
    short = len(digits.lstrip("-").rstrip("0")) <= 13
    double = float.fromhex(near)
    return near if short or value in (int(double), int(Fraction(repr(double)))) else digits


def number_text(value: float) -> str:
    """The nearest number of so many bits, in hexadecimal."""
    try:
        mantissa, exponent = math.frexp(float(value))
        near = math.ldexp(round(mantissa * 2**BITS), exponent - BITS) if math.isfinite(mantissa) else mantissa
    except OverflowError:
        near = math.inf if value > 0 else -math.inf
    return "" if math.isnan(near) else (near + 0.0).hex()


def time_text(word: str) -> str:
    """A time without zeros at its end, on the clock of UTC where it names a zone; midnight is the day alone."""
    found = TIME.fullmatch(word)
    day, clock, fraction, zone = found.groups() if found else (word, None, None, None)
    if clock is None:
        return str(day)
    try:
        moment = datetime.datetime.fromisoformat(f"{day}T{clock}")
        if zone and zone != "Z":
            shift = datetime.timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))
            moment += -shift if zone[0] == "+" else shift
    except (ValueError, OverflowError):
        return word
    rest = (fraction or "").rstrip("0").rstrip(".") + ("Z" if zone else "")
    plain = moment.isoformat()
    return plain + rest if rest else plain.removesuffix("T00:00:00")


def digest(names: list[str] | None, rows: Table) -> str:
    """SHA-256 of one JSON text: the names, then each row."""
    cells = [[cell_text(cell) for cell in row] for row in rows]
    return hashlib.sha256(json.dumps([names, *cells], separators=(",", ":")).encode()).hexdigest()


def difference(values: dict[str, Any], rows: Table) -> str | None:
    """In words, what the rows of a file have not in common with those released; None where they are the same."""
    names, columns = values["names"], values["columns"]
    width = len(rows[0]) if rows else columns
    if any(len(row) != width for row in rows):
        return "its rows have different lengths"
    if width == columns + 1 and numbers_rows(rows):
        rows, width = [row[1:] for row in rows], columns
    if width != columns:
        return f"it has {width} columns, where {columns} were released"
    if names is None:
        bodies = [rows, rows[1:]]
    else:
        heads = [unicodedata.normalize("NFC", str(cell).strip()) for cell in rows[0]] if rows else []
        if sorted(heads) != sorted(names) or len(set(heads)) < len(heads):
            return "its columns have other names"
        places = [heads.index(name) for name in names]
        bodies = [[[row[place] for place in places] for row in rows[1:]]]
    if any(len(body) == values["rows"] and digest(names, body) == values["sha256"] for body in bodies):
        return None
    return "at least one cell was changed"


def numbers_rows(rows: Table) -> bool:
    """Whether the first column has no name, or none of its own, and only numbers the rows."""
    first = [row[0] for row in rows]
    return any(
        [cell_text(cell) for cell in first[start:]] == [cell_text(place) for place in range(len(first) - start)]
        and (start == 0 or str(first[0]).strip() in ("", "Unnamed: 0", "index"))
        for start in (0, 1)
    )


def tables_in(name: str, body: bytes) -> list[Table] | None:
    """The ways to read a file as rows, a header among them; None for formats that this program does not read."""
    ending = Path(name).suffix.lower()
    try:
        if ending == ".gz":
            return tables_in(Path(name).stem, gzip.decompress(body))
        if ending == ".csv":
            return csv_tables(body.decode("utf-8-sig"))
        if ending == ".json":
            return json_tables(json.loads(body))
        if ending == ".npy":
            return [npy_table(body)]
        if ending == ".npz":
            return [npz_leaves(body)]
        if ending == ".parquet":
            return [parquet_table(body)]
        return [sheet_table(body)] if ending == ".xlsx" else None
    except Undecided:
        return None
    except (ValueError, OSError, EOFError, LookupError, SyntaxError, zlib.error, struct.error, RecursionError):
        return []
    except (csv.Error, zipfile.BadZipFile, ElementTree.ParseError, TypeError, AttributeError, ArithmeticError):
        return []


def csv_tables(body: str) -> list[Table]:
    """Rows by every separator; a comma inside numbers is a decimal one where another separator is in use."""
    found = []
    for separator in ",;\t|":
        rows: Table = [row for row in csv.reader(io.StringIO(body, newline=""), delimiter=separator) if row]
        if separator != ",":
            rows = [[re.sub(r"^([+-]?\d+),(\d*)$", r"\1.\2", cell) for cell in row] for row in rows]
        found.append(rows)
    return found


def json_tables(content: Any) -> list[Table]:
    """Records, columns or rows; and whatever it is, as places and what stands there.

    A document that carries its own certificate, as a mixture does, is all the rest of it.
    """
    found: list[Table] = []
    if isinstance(content, dict):
        content = {name: part for name, part in content.items() if name != CARRIED}
    if isinstance(content, list) and content and all(isinstance(row, dict) for row in content):
        names = list(content[0])
        if all(list(row) == names for row in content):
            found.append([names, *([row[name] for name in names] for row in content)])
    elif isinstance(content, list) and content:
        found.append([row if isinstance(row, list) else [row] for row in content])
    elif isinstance(content, dict) and content:
        columns = [list(one.values()) if isinstance(one, dict) else one for one in content.values()]
        if all(isinstance(one, list) for one in columns) and len({len(one) for one in columns}) == 1:
            found.append([list(content), *(list(row) for row in zip(*columns, strict=True))])
    return [*found, [["place", "value"], *leaves(content, "")]]


def leaves(content: Any, place: str) -> Table:
    """Every number and text of a document with the way to it."""
    if not isinstance(content, dict | list) or not content:
        return [[place or "/", json.dumps(content) if isinstance(content, dict | list) else content]]
    items = content.items() if isinstance(content, dict) else enumerate(content)
    return [
        leaf
        for name, value in items
        for leaf in leaves(value, f"{place}/{json.dumps(name) if isinstance(name, str) else name}")
    ]


def npy_table(body: bytes) -> Table:
    """The rows of an .npy file of numbers."""
    cells, shape = npy_cells(body)
    width = len(cells) // shape[0] if len(shape) > 1 and shape[0] else 1
    return [cells[place : place + width] for place in range(0, len(cells), width)]


def npy_cells(body: bytes) -> tuple[list[Any], tuple[int, ...]]:
    """The cells of an .npy file, numbers or texts, in the order of its rows, and its shape."""
    if body[:6] != b"\x93NUMPY":
        raise ValueError
    wide = body[6] > 1
    start = 12 if wide else 10
    (length,) = struct.unpack_from("<I" if wide else "<H", body, 8)
    header = ast.literal_eval(body[start : start + length].decode("latin-1"))
    kinds = {"f8": "d", "f4": "f", "i8": "q", "i4": "i", "u8": "Q", "u4": "I", "b1": "?"}
    order, code, shape = header["descr"][0], header["descr"][1:], header["shape"]
    if header["fortran_order"] and len(shape) > 1:
        raise ValueError
    count, endian = math.prod(shape), ">" if order == ">" else "<"
    if code[0] == "U":
        size = 4 * int(code[1:])
        coding = "utf-32-be" if endian == ">" else "utf-32-le"
        first = start + length
        texts = (body[place : place + size] for place in range(first, first + count * size, size))
        return [text.decode(coding).rstrip("\0") for text in texts], shape
    return list(struct.unpack_from(f"{endian}{count}{kinds[code]}", body, start + length)), shape


def npz_leaves(body: bytes) -> Table:
    """The arrays of an .npz file by name, as places and what stands there."""
    document: dict[str, Any] = {}
    with zipfile.ZipFile(io.BytesIO(body)) as parcel:
        if any(one.file_size > LARGEST_TABLE for one in parcel.infolist()):
            raise ValueError
        for name in parcel.namelist():
            cells, shape = npy_cells(parcel.read(name))
            document[name.removesuffix(".npy")] = nested(cells, shape)
    return [["place", "value"], *leaves(document, "")]


def nested(cells: list[Any], shape: tuple[int, ...]) -> Any:
    """Cells as lists of lists of a shape."""
    if not shape:
        return cells[0]
    step = len(cells) // shape[0] if shape[0] else 0
    return [nested(cells[place * step : (place + 1) * step], shape[1:]) for place in range(shape[0])]


PARQUET_CELLS = 1 << 23  # more are not read here
PLAIN, PLAIN_DICTIONARY, RLE, RLE_DICTIONARY = 0, 2, 3, 8  # encodings
TICKS = {1: 10**3, 2: 10**6, 3: 10**9}  # of a second, by the name of a timestamp's unit
FIXED = {1: ("i", 4), 2: ("q", 8), 4: ("f", 4), 5: ("d", 8)}  # physical types: int32, int64, float, double


class Thrift:
    """The compact protocol in which Parquet describes itself: structures as mappings of numbered fields."""

    def __init__(self, body: bytes, place: int) -> None:
        self.body, self.place = body, place

    def byte(self) -> int:
        """The next byte."""
        self.place += 1
        return self.body[self.place - 1]

    def plain(self) -> int:
        """An unsigned number, seven bits a byte, the lowest first."""
        value = 0
        for power in range(0, 70, 7):
            byte = self.byte()
            value |= (byte & 127) << power
            if byte < 128:
                return value
        raise ValueError

    def signed(self) -> int:
        """A number whose lowest bit says its sign."""
        value = self.plain()
        return value >> 1 ^ -(value & 1)

    def structure(self, depth: int = 0) -> dict[int, Any]:
        """Fields by their numbers, until a zero."""
        fields: dict[int, Any] = {}
        name = 0
        while (head := self.byte()) != 0:
            name = name + (head >> 4) if head >> 4 else self.signed()
            if name in fields:
                raise ValueError
            fields[name] = self.value(head & 15, depth + 1)
        return fields

    def value(self, kind: int, depth: int, *, listed: bool = False) -> Any:
        """A value of a kind; truth values stand in the kind itself, but for those in a list."""
        if depth > DEPTH:
            raise ValueError
        if kind in (1, 2):
            return (self.byte() if listed else kind) == 1
        if kind == 3:
            return self.byte()
        if kind in (4, 5, 6):
            return self.signed()
        if kind == 7:
            self.place += 8
            return None
        if kind == 8:
            length = self.plain()
            self.place += length
            return self.body[self.place - length : self.place]
        if kind in (9, 10):
            head = self.byte()
            count = head >> 4 if head >> 4 < 15 else self.plain()
            if count > len(self.body):
                raise ValueError
            return [self.value(head & 15, depth + 1, listed=True) for _ in range(count)]
        if kind == 12:
            return self.structure(depth)
        raise ValueError


def parquet_table(body: bytes) -> Table:
    """The rows of a Parquet file of plain columns, as pyarrow, pandas and DuckDB write them; others are not decided."""
    (length,) = struct.unpack_from("<I", body, len(body) - 8)
    if body[:4] != b"PAR1" or body[-4:] != b"PAR1" or length > len(body) - 12:
        raise ValueError
    described = Thrift(body, len(body) - 8 - length).structure()
    root, *leaves_of = described[2]
    groups, rows = described[4], described[3]
    if any(5 in one or one.get(3, 0) > 1 for one in leaves_of) or rows * len(leaves_of) > PARQUET_CELLS:
        raise Undecided("nested columns, or more cells than this program reads")
    if root[5] != len(leaves_of) or any(len(group[1]) != len(leaves_of) for group in groups):
        raise ValueError
    columns = [
        [cell for group in groups for cell in parquet_cells(body, group[1][place], leaf, group[3])]
        for place, leaf in enumerate(leaves_of)
    ]
    if any(len(column) != rows for column in columns):
        raise ValueError
    return [[leaf[4].decode() for leaf in leaves_of], *map(list, zip(*columns, strict=True))]


def parquet_cells(body: bytes, chunk: dict[int, Any], leaf: dict[int, Any], rows: int) -> list[Any]:
    """The cells of one column in one group of rows."""
    described = chunk[3]
    if 1 in chunk or described[1] != leaf[1] or described[3] != [leaf[4]] or described[5] != rows:
        raise ValueError
    if not rows:
        return []
    start = described[9] if 11 not in described else min(described[9], described[11] or described[9])
    end = start + described[7]
    if start < 4 or end > len(body):
        raise ValueError
    known: list[Any] | None = None
    values: list[Any] = []
    while start < end:
        header = Thrift(body, start)
        page = header.structure()
        start = header.place + page[3]
        content = body[header.place : start]
        if page[1] == 2:
            if known is not None or values or page[7][2] not in (PLAIN, PLAIN_DICTIONARY):
                raise ValueError
            known = parquet_plain(unsqueezed(content, described[4], page[2]), leaf, page[7][1])
        elif page[1] in (0, 3):
            values += parquet_page(content, page, described[4], leaf, known)
        if len(values) > rows:
            raise ValueError
    if start != end or len(values) != rows:
        raise ValueError
    return values


def parquet_page(
    content: bytes, page: dict[int, Any], codec: int, leaf: dict[int, Any], known: list[Any] | None
) -> list[Any]:
    """The cells of one page of data, of the first or the second kind."""
    optional = leaf.get(3, 0) == 1
    second = page[1] == 3
    described = page[8] if second else page[5]
    count, encoding = described[1], described[4] if second else described[2]
    if not 0 <= count <= PARQUET_CELLS:
        raise ValueError
    if second:
        split = described[5]
        if described[6]:
            raise ValueError
        levels, content = content[:split], content[split:]
        if described.get(7, True):
            content = unsqueezed(content, codec, page[2] - split)
    else:
        content, levels = unsqueezed(content, codec, page[2]), b""
        if optional:
            levels, content = prefixed(content)
    present = runs(levels, 1, count) if optional else [1] * count
    filled = sum(present)
    if encoding == PLAIN:
        cells = parquet_plain(content, leaf, filled)
    elif encoding in (PLAIN_DICTIONARY, RLE_DICTIONARY) and known is not None:
        cells = [known[place] for place in runs(content[1:], content[0], filled)] if filled else []
    elif encoding == RLE and leaf[1] == 0:
        cells = [bit == 1 for bit in runs(prefixed(content)[0], 1, filled)]
    else:
        raise Undecided("an encoding that this program does not read")
    rest = iter(cells)
    return [next(rest) if one else None for one in present]


def prefixed(content: bytes) -> tuple[bytes, bytes]:
    """Bytes that follow their length, and what follows them."""
    (length,) = struct.unpack_from("<I", content)
    if length > len(content) - 4:
        raise ValueError
    return content[4 : 4 + length], content[4 + length :]


def runs(content: bytes, width: int, count: int) -> list[int]:
    """Numbers of so many bits, in runs of one number or packed by eights."""
    if width > 32:
        raise ValueError
    stream, found = Thrift(content, 0), list[int]()
    size = (width + 7) // 8
    while len(found) < count:
        head = stream.plain()
        if head < 2:
            raise ValueError
        taken = (head >> 1) * width if head & 1 else size
        piece = content[stream.place : stream.place + taken]
        stream.place += taken
        if len(piece) < taken:
            raise ValueError
        if head & 1 and width == 0:
            found += [0] * min(8 * (head >> 1), count - len(found))
        elif head & 1:
            eights = (int.from_bytes(piece[at : at + width], "little") for at in range(0, taken, width))
            found += [eight >> place * width & (1 << width) - 1 for eight in eights for place in range(8)]
        else:
            found += [int.from_bytes(piece, "little")] * min(head >> 1, count - len(found))
    return found[:count]


def parquet_plain(content: bytes, leaf: dict[int, Any], count: int) -> list[Any]:
    """So many values one after the other, as cells."""
    kind = leaf[1]
    if not 0 <= count <= PARQUET_CELLS:
        raise ValueError
    if kind == 0:
        return [content[place >> 3] >> (place & 7) & 1 == 1 for place in range(count)]
    if kind == 6:
        return parquet_texts(content, leaf, count)
    if kind not in FIXED:
        raise Undecided("a type that this program does not read")
    return parquet_logical(list(struct.unpack_from(f"<{count}{FIXED[kind][0]}", content)), leaf)


def parquet_texts(content: bytes, leaf: dict[int, Any], count: int) -> list[Any]:
    """Texts, each after its length."""
    logical = leaf.get(10)
    if 1 not in logical if logical else leaf.get(6) != 0:
        raise Undecided("bytes that are no text")
    found, place = list[Any](), 0
    for _ in range(count):
        (length,) = struct.unpack_from("<I", content, place)
        place += 4 + length
        if place > len(content):
            raise ValueError
        found.append(content[place - length : place].decode())
    return found


def parquet_logical(numbers: list[Any], leaf: dict[int, Any]) -> list[Any]:
    """Numbers as what their column says they are: numbers, days or moments."""
    converted, logical = leaf.get(6), leaf.get(10, {})
    bits = 32 if leaf[1] == 1 else 64
    if 6 in logical or converted == 6:
        return [(datetime.date(1970, 1, 1) + datetime.timedelta(days=number)).isoformat() for number in numbers]
    if 8 in logical:
        (unit,) = logical[8][2]
        return [moment(number, TICKS[unit], "Z" if logical[8][1] else "") for number in numbers]
    if converted in (9, 10):
        return [moment(number, TICKS[converted - 8], "Z") for number in numbers]
    if (10 in logical and not logical[10][2]) or converted in (11, 12, 13, 14):
        return [number % 2**bits for number in numbers]
    if not {*logical} <= {10, 11} or converted not in (None, 15, 16, 17, 18):
        raise Undecided("a type that this program does not read")
    return numbers


def moment(ticks: int, ticks_a_second: int, zone: str) -> str:
    """A point in time since 1970."""
    seconds, rest = divmod(ticks, ticks_a_second)
    day = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    return f"{day.isoformat()}.{rest:0{len(str(ticks_a_second)) - 1}d}{zone}"


def unsqueezed(content: bytes, codec: int, size: int) -> bytes:
    """Bytes as they were before they were compressed."""
    if not 0 <= size <= LARGEST_TABLE:
        raise ValueError
    if codec == 1:
        plain_bytes = unsnapped(content)
    elif codec == 2:
        plain_bytes = zlib.decompressobj(31).decompress(content, size + 1)
    elif codec == 0:
        plain_bytes = content
    else:
        raise Undecided("compressed in a way that this program does not read")
    if len(plain_bytes) != size:
        raise ValueError
    return plain_bytes


def unsnapped(content: bytes) -> bytes:
    """What Snappy compressed: pieces as they are, and copies of what came before."""
    stream, found = Thrift(content, 0), bytearray()
    size = stream.plain()
    if size > LARGEST_TABLE:
        raise ValueError
    while stream.place < len(content):
        tag = stream.byte()
        kind, length = tag & 3, (tag >> 2) + 1
        if kind == 0:
            if length > 60:
                extra = length - 60
                length = int.from_bytes(content[stream.place : stream.place + extra], "little") + 1
                stream.place += extra
            found += content[stream.place : stream.place + length]
            stream.place += length
            continue
        if kind == 1:
            length = (tag >> 2 & 7) + 4
            offset = (tag >> 5) << 8 | stream.byte()
        else:
            width = 2 if kind == 2 else 4
            offset = int.from_bytes(content[stream.place : stream.place + width], "little")
            stream.place += width
        if not 0 < offset <= len(found) or len(found) + length > size:
            raise ValueError
        first = len(found) - offset
        piece = found[first : first + length]
        found += (piece * (length // len(piece) + 1))[:length]
    if len(found) != size or stream.place != len(content):
        raise ValueError
    return bytes(found)


SHEET = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
DAYS = {*range(14, 23), *range(45, 48)}  # built-in formats of dates and times


def sheet_table(body: bytes) -> Table:
    """The rows of the first sheet of an Excel file, dates by the formats of their cells."""
    with zipfile.ZipFile(io.BytesIO(body)) as parcel:
        if any(one.file_size > LARGEST_TABLE for one in parcel.infolist()):
            raise ValueError
        inside = {name: parcel.read(name) for name in parcel.namelist() if name.endswith(".xml")}
    if any(b"<!DOCTYPE" in one or b"<!ENTITY" in one for one in inside.values()):
        raise ValueError
    shared = [
        "".join(part.text or "" for part in one.iter(f"{SHEET}t"))
        for one in ElementTree.fromstring(inside.get("xl/sharedStrings.xml", b"<none/>")).iter(f"{SHEET}si")
    ]
    days = day_styles(inside.get("xl/styles.xml", b"<none/>"))
    sheets = sorted(name for name in inside if name.startswith("xl/worksheets/sheet"))
    rows: Table = []
    for row in ElementTree.fromstring(inside[sheets[0]]).iter(f"{SHEET}row"):
        cells: dict[int, Any] = {}
        for cell in row.iter(f"{SHEET}c"):
            letters = re.match("[A-Z]+", cell.get("r", ""))  # where a cell says no place, it stands beside the last one
            places = [
                (ord(letter) - 64) * 26**power for power, letter in enumerate(letters[0][::-1] if letters else "")
            ]
            cells[sum(places) - 1 if places else max(cells, default=-1) + 1] = sheet_cell(cell, shared, days)
        rows.append([cells.get(place) for place in range(max(cells, default=-1) + 1)])
    width = max(map(len, rows), default=0)
    return [row + [None] * (width - len(row)) for row in rows]


def day_styles(body: bytes) -> set[int]:
    """The places of cell formats that show a day or a clock."""
    styles = ElementTree.fromstring(body)
    own = {
        int(one.get("numFmtId", "0"))
        for one in styles.iter(f"{SHEET}numFmt")
        if re.search("[ymdhs]", re.sub(r'"[^"]*"|\[[^\]]*\]|\\.', "", one.get("formatCode", "").lower()))
    }
    formats = styles.find(f"{SHEET}cellXfs")
    listed = [] if formats is None else [int(one.get("numFmtId", "0")) for one in formats]
    return {place for place, one in enumerate(listed) if one in DAYS | own}


def sheet_cell(cell: ElementTree.Element, shared: list[str], days: set[int]) -> Any:
    """A text, truth value, number or time."""
    kind, value = cell.get("t", "n"), cell.findtext(f"{SHEET}v")
    if kind == "inlineStr":
        return "".join(part.text or "" for part in cell.iter(f"{SHEET}t"))
    if value is None:
        return None
    if kind == "s":
        return shared[int(value)]
    if kind == "b":
        return value == "1"
    if kind != "n":
        return value
    if int(cell.get("s", "0")) not in days:
        return float(value)
    moment = datetime.datetime(1899, 12, 30) + datetime.timedelta(microseconds=round(float(value) * 86400e3) * 1000)
    return moment.isoformat()


ALSO = "; the same table as CSV has the same digest"


def check_numbers(record: dict[str, Any], tables: dict[str, bytes]) -> tuple[str, list[str], list[str]]:
    """What was checked, what is false and what is open, in words."""
    if record["version"] < 3:
        return WITHOUT_DIGEST, [], [f"{name} was compared with nothing: no digest is there" for name in tables]
    false, unread = [], []
    for name, body in tables.items():
        found = tables_in(name, body)
        if found is None:
            unread.append(f"{name} is of a format that this program does not read{ALSO}")
            continue
        words = [difference(record["values"], rows) for rows in found] or ["it holds no table"]
        if None not in words:
            false.append(f"the numbers of {name} are not those that the certificate was issued for: {words[0]}")
    compared = [name for name in tables if not any(line.startswith(f"{name} is of") for line in unread)]
    return (f"{NUMBERS} ({', '.join(compared)})" if compared else ALONE), false, unread


# --- all of it --------------------------------------------------------------------------------------------------------


def verify(
    body: bytes, public_key: bytes | None = None, seconds: float = SECONDS, tables: dict[str, bytes] | None = None
) -> Verdict:
    """Verdict on the bytes of a certificate file; with a key (32 bytes) it must be signed by that.

    The bytes of `tables`, by the names of their files, must hold the numbers that were released.
    """
    work = Work(seconds)
    refuted, open_questions, malformed = [], [], []
    lower, upper, signature, private, basis, checked = 0.0, 1.0, "none", False, PAIR_ALONE, ALONE
    open_fields: tuple[str, ...] = ()
    try:
        record = read(body)
        check_form(record)
        private = members(record["guarantee"], "guarantee", None)["kind"] != "none"
        read_charge(record)
        signature = check_signature(record, public_key)
        basis = basis_of(record)
        checked, false, unread = check_numbers(record, tables or {})
        refuted += false
        open_questions += unread
        for check in (check_parameters, check_delta):
            try:
                found = check(record, work)
                lower, upper = found or (lower, upper)
            except Undecided as reason:
                open_questions.append(str(reason))
        open_fields = unchecked(record, compared=record["version"] == 3 and bool(tables))
    except Refuted as reason:
        refuted.append(str(reason))
    except NoCertificate as reason:
        malformed.append(str(reason))
    except Undecided as reason:
        open_questions.append(str(reason))
    except (ArithmeticError, ValueError, KeyError, TypeError, RecursionError) as error:
        open_questions.append(f"this program failed on it ({type(error).__name__})")
    outcome = next(
        (word for word, said in ((NO_CERTIFICATE, malformed), (REFUTED, refuted), (UNDECIDED, open_questions)) if said),
        VERIFIED,
    )
    return Verdict(
        outcome,
        tuple(malformed + refuted + open_questions),
        *(lower, upper, signature, private, basis, checked),
        open_fields,
    )


def plain(line: str) -> str:
    """Text for one line of a terminal."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in line)


def subject(file: Path, note: Path | None) -> tuple[bytes, dict[str, bytes], list[str]]:
    """A certificate, the tables that it must fit, and the names of what is neither."""
    ending = file.suffix.lower()
    if ending == ".zip" and note is None:
        with zipfile.ZipFile(file) as parcel:
            inside = [one for one in parcel.infolist() if not one.is_dir()]
            notes = [one for one in inside if one.filename.endswith(NOTE)]
            tables = [one for one in inside if one not in notes and Path(one.filename).suffix.lower() in TABLES]
            if len(notes) != 1 or len({one.filename for one in inside}) < len(inside):
                raise ValueError(f"a package holds one {NOTE} and no file twice")
            if any(one.file_size > LARGEST_TABLE for one in inside):
                raise ValueError("the package holds a file that is too large")
            others = [one.filename for one in inside if one not in notes and one not in tables]
            return parcel.read(notes[0]), {one.filename: parcel.read(one) for one in tables}, others
    beside = file.with_name(f"{file.name}.{NOTE}")
    if note is None and (beside.is_file() or (ending in TABLES and ending != ".json")):
        note = beside
    table: Path | None = file
    if note is None:
        note, table = file, file.with_name(file.name.removesuffix(f".{NOTE}"))
        table = table if table != file and table.suffix.lower() in TABLES and table.is_file() else None
    with note.open("rb") as stream:
        body = stream.read(LARGEST_TABLE + 1)
    carried = carried_certificate(body) if note == file else None
    if carried is not None:
        return carried, {file.name: body}, []
    return body, {} if table is None else {table.name: table.read_bytes()}, []


def carried_certificate(body: bytes) -> bytes | None:
    """The certificate inside a document of released numbers, as a mixture is; None where the file is something else."""
    try:
        content = json.loads(body, object_pairs_hook=_object)
    except (ValueError, RecursionError, NoCertificate):
        return None
    held = content.get(CARRIED) if isinstance(content, dict) else None
    return json.dumps(held).encode() if isinstance(held, dict) else None


def main(words: list[str] | None = None) -> int:
    """The command: 0 verified, 1 refuted, 2 not a certificate, 3 not decided."""
    parser = argparse.ArgumentParser(prog="gaussveil-verifier", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("file", type=Path, help="certificate, released table or package (.zip)")
    parser.add_argument("--certificate", type=Path, help="of the table, where it does not lie beside it")
    parser.add_argument("--public-key", type=Path, help="file of the key that must have signed it")
    given = parser.parse_args(words)
    try:
        key = plain_key(given.public_key.read_bytes()) if given.public_key else None
        body, tables, others = subject(given.file, given.certificate)
        found = verify(body, key, tables=tables)
    except (OSError, ValueError, zipfile.BadZipFile, zlib.error, Refuted) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    print(plain(f"checked: {found.checked}{'; not checked: ' if others else ''}{', '.join(others)}"))
    for reason in found.reasons:
        print(plain(reason))
    print(f"delta in [{found.delta_lower:.17g}, {found.delta_upper:.17g}]; signature: {found.signature}")
    if found.outcome == VERIFIED:
        print(plain(f"it rests on {found.basis}"))
        print(plain(f"not checked, by the issuer's word: {', '.join(found.unchecked)}"))
    print(found.outcome + ("" if found.private or found.outcome != VERIFIED else ", but no guarantee is claimed"))
    return {VERIFIED: 0, REFUTED: 1, NO_CERTIFICATE: 2, UNDECIDED: 3}[found.outcome]


if __name__ == "__main__":
    sys.exit(main())
