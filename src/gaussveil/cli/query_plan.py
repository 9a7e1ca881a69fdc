"""What a query's plan tells before anything is spent: noise, laws, advice, and what would help."""

from __future__ import annotations

from typing import Any

from gaussveil.cli.output import digits, print_table, tell


def advice(plan: Any) -> list[str]:
    """How many units learnt bounds need, and which keys look mistyped; it is said whatever the table holds."""
    lines = [f"mistyped? {doubt}" for doubt in plan.doubts]
    if plan.fewest_units:
        words = "bounds are learnt: trust them where there are at least {} units, else state them (--between)"
        lines.insert(0, words.format(plan.fewest_units))
    return lines


def tell_plan(plan: Any, json: bool, units: int | None) -> None:
    """The plan on standard output, in words and tables or as JSON."""
    from gaussveil.mechanisms import Mean, Sum

    if json:
        tell(_facts(plan, units), [], json=True)
        return
    _tell_laws(plan)
    sizes = " with values of size 1" if plan.is_nominal else ""
    deviations = [(name, digits(sd)[:8]) for name, sd in plan.deviations().items()]
    print_table(("answer", f"sd at 1000 units a group{sizes}"), deviations)
    for line in advice(plan):
        print(line)
    print(plan.useful(units))
    for name, words in plan.layouts().items():
        print(f"{name} is read {words}")
    if any(isinstance(one, Mean | Sum) for one in plan.request.answers):
        print(plan.request.averaged)
    factors = plan.alternatives()
    if factors:
        rows = [(words, f"{factor:.3f}") for words, factor in factors.items()]
        print_table(("what if", "times the sd"), rows)
        words = "What helps most: {}, with noise {:.3f} times as wide."
        print(words.format(*plan.costliest))


def _facts(plan: Any, units: int | None) -> dict[str, Any]:
    useful = plan.useful(units)
    return {
        "deviations_at_1000_units": plan.deviations(),
        "shares": plan.shares,
        "alternatives": plan.alternatives(),
        "useful": useful.verdict,
        "units_needed": useful.needed,
        "advice": str(useful),
        "law": plan.law,
        "laws": {name: vars(law) for name, law in plan.laws().items()},
    }


def _tell_laws(plan: Any) -> None:
    for name, law in plan.laws().items():
        taken = f"{law.error:.3g} times the error"
        if name == plan.law:
            taken = "taken"
        epsilon, delta = law.of_ten
        ten = f"ten such releases of one account: epsilon {epsilon:.3g} at delta {delta:.3g}"
        print(
            f"{name} noise: {taken}; epsilon {law.epsilon:g}, delta {law.delta:g}; {ten}"
        )
