"""`gaussveil delta`, `epsilon`, `curve` and `check`: exact privacy of the pairs in files.

Quoted values are those of differential privacy: the worse of both directions.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gaussveil.cli.files import check_targets
from gaussveil.cli.options import Claim, Json, Plot, parse_claim
from gaussveil.cli.output import (
    DONE,
    NO,
    UNDECIDED,
    digits,
    print_json,
    print_line,
    print_table,
)
from gaussveil.errors import ParameterError

if TYPE_CHECKING:
    from gaussveil.spectrum import PrivacyLoss
    from gaussveil.typing import Floats

PairFile = Annotated[
    Path,
    typer.Argument(
        metavar="PAIR",
        help="Pair of Gaussians in JSON, NPZ or CSV.",
        show_default=False,
    ),
]
PairFiles = Annotated[
    list[Path],
    typer.Argument(metavar="PAIR...", help="Pairs of Gaussians in JSON, NPZ or CSV."),
]
Times = Annotated[
    int, typer.Option(min=1, help="Compose the pair with itself this many times.")
]

# How far a curve is drawn unless --epsilon-max says otherwise: deltas below this interest nobody.
_SMALLEST_DRAWN_DELTA = 1e-10


def delta(
    pair: PairFile,
    epsilon: Annotated[
        float, typer.Option(help="Privacy level at which to evaluate delta.")
    ],
    certified: Annotated[
        bool, typer.Option("--certified", help="Add the rigorous enclosure.")
    ] = False,
    times: Times = 1,
    json: Json = False,
) -> None:
    """Exact delta at a given epsilon, the worse of both directions.

    Example: gaussveil delta pair.json --epsilon 1 --certified
    """
    loss = _read(pair, times)
    forward = float(loss.delta(epsilon))
    backward = float(loss.reversed().delta(epsilon))
    answer: dict[str, object] = {
        "pair": str(pair),
        "times": times,
        "epsilon": epsilon,
        "delta": float(loss.dp_delta(epsilon)),
        "delta_x_y": forward,
        "delta_y_x": backward,
    }
    if certified:
        lower, upper = _enclose(loss, epsilon)
        answer |= {"delta_lower": lower, "delta_upper": upper}
    if json:
        print_json(answer)
        return
    rows = [
        ("delta", str(answer["delta"])),
        ("  X against Y", str(forward)),
        ("  Y against X", str(backward)),
    ]
    if certified:
        rows.append(
            ("certified", f"[{answer['delta_lower']}, {answer['delta_upper']}]")
        )
    print_table(("", f"epsilon = {digits(epsilon)}"), rows, title=_title(pair, times))


def epsilon(
    pair: PairFile,
    delta: Annotated[float, typer.Option(help="Target delta.")],
    times: Times = 1,
    json: Json = False,
) -> None:
    """Smallest epsilon at a given delta, rounded to the private side, the worse of both directions.

    Example: gaussveil epsilon pair.json --delta 1e-6
    """
    loss = _read(pair, times)
    answer = {
        "pair": str(pair),
        "times": times,
        "delta": delta,
        "epsilon": float(loss.dp_epsilon(delta)),
        "epsilon_x_y": float(loss.epsilon(delta)),
        "epsilon_y_x": float(loss.reversed().epsilon(delta)),
    }
    if json:
        print_json(answer)
        return
    rows = (
        ("epsilon", str(answer["epsilon"])),
        ("  X against Y", str(answer["epsilon_x_y"])),
        ("  Y against X", str(answer["epsilon_y_x"])),
    )
    print_table(("", f"delta = {digits(delta)}"), rows, title=_title(pair, times))


def curve(
    pairs: PairFiles,
    plot: Plot = None,
    times: Times = 1,
    epsilon_max: Annotated[
        float | None, typer.Option(help="Right end; by default where delta is 1e-10.")
    ] = None,
    points: Annotated[
        int, typer.Option(min=2, max=10_000, help="Number of epsilons.")
    ] = 101,
    json: Json = False,
) -> None:
    """Privacy curves delta(epsilon) of several pairs, both directions.

    Example: gaussveil curve pair.json other.csv --times 10 --plot curves.svg
    """
    import numpy as np

    check_targets(plot, inputs=pairs, force=True)
    losses = [_read(pair, times) for pair in pairs]
    epsilons = np.linspace(0.0, _right_end(epsilon_max, losses), points)
    ending = "" if times == 1 else f", {times} times"
    names = [f"{pair.stem}{ending}" for pair in pairs]
    curves = [
        (name, loss.delta(epsilons), loss.reversed().delta(epsilons))
        for name, loss in zip(names, losses)
    ]
    if plot is not None:
        from gaussveil.report.figures import privacy_curves, save

        save(privacy_curves(list(zip(names, losses)), epsilons), plot)
    if json:
        facts = {
            "times": times,
            "epsilon": epsilons.tolist(),
            "curves": _curve_facts(pairs, curves),
            "plot": plot and str(plot),
        }
        print_json(facts)
        return
    _print_curves(epsilons, curves)
    if plot is not None:
        print_line(f"drawn in {plot}")


def _right_end(epsilon_max: float | None, losses: list[PrivacyLoss]) -> float:
    """The largest epsilon of the curves: the one asked for, or where all deltas are as good as none."""
    if epsilon_max is None:
        reach = [float(loss.dp_epsilon(_SMALLEST_DRAWN_DELTA)) for loss in losses]
        # Identical distributions have delta 0 everywhere; any range shows that.
        epsilon_max = max(reach) or 1.0
    if not 0.0 < epsilon_max < float("inf"):
        raise ParameterError(
            f"--epsilon-max must be a positive number. Got {epsilon_max}."
        )
    return epsilon_max


def _curve_facts(
    pairs: list[Path], curves: list[tuple[str, Floats, Floats]]
) -> list[dict[str, object]]:
    """The curves of each file, both directions, as JSON holds them."""
    return [
        {
            "pair": str(pair),
            "delta_x_y": forward.tolist(),
            "delta_y_x": backward.tolist(),
        }
        for pair, (_, forward, backward) in zip(pairs, curves)
    ]


def _print_curves(epsilons: Floats, curves: list[tuple[str, Floats, Floats]]) -> None:
    """Eleven places of each curve, both directions side by side."""
    columns = ["epsilon"]
    for name, _, _ in curves:
        columns += [f"{name} X||Y", f"{name} Y||X"]
    import numpy as np

    points = len(epsilons)
    places = np.linspace(0, points - 1, min(points, 11)).round().astype(int)
    rows = []
    for index in places:
        row = [f"{epsilons[index]:.4g}"]
        for _, forward, backward in curves:
            row += [f"{float(forward[index]):.6g}", f"{float(backward[index]):.6g}"]
        rows.append(row)
    print_table(columns, rows)


def check(pair: PairFile, claim: Claim, times: Times = 1, json: Json = False) -> None:
    """Decide a claimed (epsilon, delta) by rigorous enclosures of both directions (NDIS section 7).

    The lower end refutes, the upper end certifies. Exit code 0: holds, 1: refuted, 3: undecided.

    Example: gaussveil check pair.json --claim 1,0.5
    """
    claimed_epsilon, claimed_delta = parse_claim(claim)
    loss = _read(pair, times)
    forward = float(loss.delta(claimed_epsilon))
    backward = float(loss.reversed().delta(claimed_epsilon))
    lower, upper = _enclose(loss, claimed_epsilon)
    if upper <= claimed_delta:
        verdict = "holds"
    elif lower > claimed_delta:
        verdict = "refuted"
    else:
        verdict = "undecided"
    if json:
        print_json(
            {
                "pair": str(pair),
                "times": times,
                "claim": {"epsilon": claimed_epsilon, "delta": claimed_delta},
                "verdict": verdict,
                "delta": max(forward, backward),
                "delta_x_y": forward,
                "delta_y_x": backward,
                "delta_lower": lower,
                "delta_upper": upper,
            }
        )
    else:
        colour = {"holds": "green", "refuted": "red", "undecided": "yellow"}[verdict]
        rows = (
            ("claimed delta", str(claimed_delta)),
            ("exact, X against Y", str(forward)),
            ("exact, Y against X", str(backward)),
            ("certified", f"[{lower}, {upper}]"),
        )
        print_line(
            f"({digits(claimed_epsilon)}, {digits(claimed_delta)})-DP: ",
            verdict,
            colour,
        )
        print_table(
            ("", f"epsilon = {digits(claimed_epsilon)}"),
            rows,
            title=_title(pair, times),
        )
    raise typer.Exit({"holds": DONE, "refuted": NO, "undecided": UNDECIDED}[verdict])


def _read(path: Path, times: int) -> PrivacyLoss:
    from gaussveil.report.pair_files import read_pair

    loss = read_pair(path)
    if times == 1:
        return loss
    return loss**times


def _enclose(loss: PrivacyLoss, epsilon: float) -> tuple[float, float]:
    """Enclose the worse direction: the largest lower end and the largest upper end."""
    both = (loss.enclose(epsilon), loss.reversed().enclose(epsilon))
    return max(float(e.lower) for e in both), max(float(e.upper) for e in both)


def _title(path: Path, times: int) -> str:
    if times == 1:
        return str(path)
    return f"{path}, composed {times} times"
