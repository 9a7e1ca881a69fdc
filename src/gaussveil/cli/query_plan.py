"""What a query's plan tells before anything is spent: noise, laws, advice, and what would help."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from gaussveil.cli.output import print_table, tell

MISSING = "marks for missing cells, such as -999, are read as numbers unless you say them: --missing -999"
QUANTILES = (
    "bands of quantiles hold less often than with 95 % where many rows share a value, as whole years of age do: "
    "widen them to the next whole numbers there"
)
MOST_NAMED = 2
_OPTIONS = ("rows_per_group", "groups_per_unit", "rows_per_unit", "between", "whole")
_MODELS = "PrivateLinearRegression or PrivateGaussianMixture"


def as_typed(words: str) -> str:
    """Advice in the words of the command line, where the library says it in Python's."""
    words = words.replace("whole=True", "--whole-rows").replace(
        _MODELS, "gaussveil regression or gaussveil mixture"
    )
    for name in _OPTIONS:
        option = "--" + name.replace("_", "-")
        words = re.sub(
            rf"\b{name}=\(?([^(), ]+)(?:, ([^)]+)\))?", _given(option), words
        )
    return words


def _given(option: str) -> Callable[[re.Match[str]], str]:
    def written(found: re.Match[str]) -> str:
        numbers = [text.removesuffix(".0") for text in found.groups() if text]
        return f"{option} {','.join(numbers)}"

    return written


def advice(plan: Any, units: int | None = None) -> list[str]:
    """How many units learnt bounds need, which keys look mistyped, marks of missing cells: whatever the table holds."""
    from gaussveil.mechanisms import Quantile

    lines = [f"mistyped? {doubt}" for doubt in plan.doubts]
    if plan.fewest_units:
        words = "bounds are learnt: trust them where there are at least {} units, else state them (--between)"
        unseen = "of {:,} units in all, up to {} far beyond the others (-999, 99999) may go unseen by values and bands"
        many = units or max(1000, plan.fewest_units)
        lines[:0] = [
            words.format(plan.fewest_units),
            unseen.format(many, plan.unseen(many)),
        ]
    if plan.request.numbers and not os.environ.get("GAUSSVEIL_MISSING"):
        lines.append(MISSING)
    if any(isinstance(answer, Quantile) for answer in plan.request.answers):
        lines.append(QUANTILES)
    return lines


def tell_plan(plan: Any, json: bool, units: int | None) -> None:
    """The plan on standard output, in words and tables or as JSON."""
    from gaussveil.mechanisms import Mean, Sum

    if json:
        tell(_facts(plan, units), [], json=True)
        return
    _tell_laws(plan)
    sizes = " with values of size 1" if plan.is_nominal else ""
    print_table(("answer", f"sd at 1000 units a group{sizes}"), _deviations(plan))
    for line in advice(plan, units):
        print(line)
    print(as_typed(str(plan.useful(units))))
    if plan.request.in_rows:
        print(as_typed(plan.request.in_rows))
    for name, words in plan.layouts().items():
        print(as_typed(f"{name} is read {words}"))
    if any(isinstance(answer, Mean | Sum) for answer in plan.request.answers):
        print(plan.request.averaged)
    _tell_alternatives(plan)


def _tell_alternatives(plan: Any) -> None:
    """What the noise would be with other bounds, and which of them helps most."""
    factors = plan.alternatives_of_each()
    if not factors:
        return
    crowded = plan.alternatives_of_each(crowded=True)
    rows = []
    for words, each in factors.items():
        rows.append((as_typed(words), _of_each(each)))
        if crowded[words] != each:
            worst = f"  where units are in {plan.request.touched} groups each"
            rows.append((worst, _of_each(crowded[words])))
    print_table(("what if", "times the sd"), rows)
    change, mean = plan.costliest
    if mean < 1:
        print(as_typed(f"What helps most: {change}, noise {mean:.3f} times as wide"))
        print("  (the geometric mean over the answers). " + as_typed(_meaning(change)))


def _of_each(factors: Mapping[str, float]) -> str:
    """Factors of the numbers: one where all are alike, else each with those that it is of."""
    named: dict[str, list[str]] = {}
    for name, factor in factors.items():
        named.setdefault(f"{factor:.3f}", []).append(name)
    if len(named) == 1:
        return next(iter(named))
    return ", ".join(f"{told} {_some(names)}" for told, names in sorted(named.items()))


def _some(names: list[str]) -> str:
    if len(names) > MOST_NAMED:
        return f"{names[0]} and {len(names) - 1} more"
    return " and ".join(names)


def _meaning(change: str) -> str:
    """What a change of the request takes away."""
    option, _, number = change.partition("=")
    if change.startswith("without "):
        return "That answer is then not given."
    if option == "groups_per_unit":
        return (
            f"A unit then counts in {number} of its groups at most: its rows in the others are left out. Where units "
            "are in more groups than that, groups lose units; this is of units that are in all that they may be in."
        )
    if option == "rows_per_group":
        return f"A unit then weighs {number} of its rows in a group at most."
    if option.endswith(": between"):
        return "Values beyond that range count as its end."
    return "A unit then counts in whole rows."


def _deviations(plan: Any) -> list[tuple[str, str]]:
    """The noise of every number in the middle of its range, of means at the ends, too."""
    from gaussveil.mechanisms import Mean

    ends = plan.deviations(at_ends=True)
    means = [answer.name for answer in plan.request.answers if isinstance(answer, Mean)]
    rows = []
    for name, sd in plan.deviations().items():
        told = f"{sd:.4g}"
        if name in means and ends[name] > 1.01 * sd:
            told += f" in the middle of its range, {ends[name]:.4g} at the ends"
        rows.append((name, told))
    return rows


def _facts(plan: Any, units: int | None) -> dict[str, Any]:
    useful = plan.useful(units)
    return {
        "deviations_at_1000_units": plan.deviations(),
        "deviations_at_ends": plan.deviations(at_ends=True),
        "shares": plan.shares,
        "alternatives": plan.alternatives(),
        "alternatives_of_each": plan.alternatives_of_each(),
        "alternatives_crowded": plan.alternatives_of_each(crowded=True),
        "useful": useful.verdict,
        "units_needed": useful.needed,
        "advice": str(useful),
        "law": plan.law,
        "laws": {name: vars(law) for name, law in plan.laws().items()},
    }


def _tell_laws(plan: Any) -> None:
    for name, law in plan.laws().items():
        verdict = f"{law.error:.3g} times the error"
        if name == plan.law:
            verdict = "taken"
        epsilon, delta = law.of_ten
        ten = f"ten such releases of one account: epsilon {epsilon:.3g} at delta {delta:.3g}"
        print(
            f"{name} noise: {verdict}; epsilon {law.epsilon:g}, delta {law.delta:g}; {ten}"
        )
