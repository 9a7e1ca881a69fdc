"""`gaussveil study simulator`: the simulated town beside 404 real homes."""

from __future__ import annotations

from gaussveil.typing import Progress
from gaussveil_studies.real_data import swiss_homes
from gaussveil_studies.simulator import resemblance
from gaussveil_studies.study import (
    Options,
    Part,
    Picture,
    Step,
    Study,
    Table,
    Value,
    judged,
)
from gaussveil_studies.summaries import SUMMARIES, SWISS_HOMES

FIRST_SEED = 10  # the constants were tuned on the towns before


def _resemblance(options: Options, progress: Progress) -> Part:
    seeds = range(FIRST_SEED, FIRST_SEED + options.pick(1, 5, 20))
    found = resemblance.run(swiss_homes(options.folder()).values, seeds, progress)
    rows: list[dict[str, Value]] = [
        {"name": label, "real": found.real[name], "worst": f"{found.worst(name):+.1%}"}
        for name, label in resemblance.NAMES.items()
    ]
    return Part(
        title="The simulated town and the real one",
        paragraphs=(
            f"Towns of {resemblance.HOMES} homes over {resemblance.DAYS} days, seeds {seeds[0]} to {seeds[-1]}, "
            "against as many Swiss homes of late 2018. Quantiles are of all readings together; the autocorrelation is "
            "the mean over the homes.",
        ),
        tables=(
            Table.of(
                "resemblance",
                rows,
                "name: ; real: real homes; worst: largest deviation of a town",
            ),
        ),
        pictures=(
            Picture.of(
                "resemblance",
                resemblance.figure(found),
                "Simulated towns beside the real homes.",
            ),
        ),
        claims=tuple(
            judged(
                f"simulator.{name}",
                f"{label} within 15 % of the real homes",
                "15 %",
                f"{abs(found.worst(name)):.1%} at most, {len(seeds)} towns",
                agrees=found.resembles(name),
            )
            for name, label in resemblance.NAMES.items()
        ),
    )


STUDY = Study(
    name="simulator",
    title="Does the simulated town resemble real homes?",
    summary=SUMMARIES["simulator"],
    steps=(
        Step(
            "resemblance",
            "The simulated town and the real one",
            _resemblance,
            files=(SWISS_HOMES,),
        ),
    ),
)
