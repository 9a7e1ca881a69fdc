from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import mpmath
import pytest

from gaussveil.report.pair_files import read_pair

Run = Callable[..., tuple[int, str, str]]
Files = dict[str, Path]


def mean_shift_delta(shift: float, epsilon: float) -> float:
    """Return the delta of N(shift, 1) against N(0, 1) from the closed form at 40 digits."""
    with mpmath.workdps(40):
        t, e = mpmath.mpf(shift), mpmath.mpf(epsilon)
        return float(mpmath.ncdf(t / 2 - e / t) - mpmath.exp(e) * mpmath.ncdf(-t / 2 - e / t))


@pytest.fixture
def unit_shift(tmp_path: Path) -> Path:
    path = tmp_path / "shift.json"
    path.write_text('{"variance_gap": [0], "mean_gap": [1]}', encoding="utf-8")
    return path


def answer(run: Run, *arguments: object) -> dict[str, object]:
    code, out, err = run(*arguments, "--json")
    assert err == ""
    assert code in (0, 1)
    content: dict[str, object] = json.loads(out)
    return content


def test_delta_is_the_closed_form_of_a_mean_shift(run: Run, unit_shift: Path) -> None:
    got = answer(run, "delta", unit_shift, "--epsilon", "1", "--certified")
    exact = mean_shift_delta(1.0, 1.0)
    assert got["delta"] == pytest.approx(exact, rel=1e-12)
    assert float(str(got["delta_lower"])) <= exact <= float(str(got["delta_upper"]))


def test_times_composes(run: Run, unit_shift: Path) -> None:
    got = answer(run, "delta", unit_shift, "--epsilon", "3", "--times", "4")
    assert got["delta"] == pytest.approx(mean_shift_delta(2.0, 3.0), rel=1e-12)


def test_delta_is_the_worse_of_both_directions(run: Run, pair_files: Files) -> None:
    got = answer(run, "delta", pair_files["json"], "--epsilon", "1")
    loss = read_pair(pair_files["json"])
    assert got["delta_x_y"] == loss.delta(1.0)
    assert got["delta_y_x"] == loss.reversed().delta(1.0)
    assert got["delta_x_y"] != got["delta_y_x"]
    assert got["delta"] == max(float(str(got["delta_x_y"])), float(str(got["delta_y_x"])))


def test_epsilon_is_on_the_private_side(run: Run, unit_shift: Path) -> None:
    got = answer(run, "epsilon", unit_shift, "--delta", "1e-6")
    epsilon = float(str(got["epsilon"]))
    assert mean_shift_delta(1.0, epsilon) <= 1e-6 < mean_shift_delta(1.0, epsilon * (1 - 1e-9))


def test_an_unbounded_epsilon_is_said_in_valid_json(run: Run, unit_shift: Path) -> None:
    assert answer(run, "epsilon", unit_shift, "--delta", "0")["epsilon"] == "inf"


@pytest.mark.parametrize(("claim", "verdict", "code"), [("1,0.13", "holds", 0), ("1,0.12", "refuted", 1)])
def test_check_decides_a_claim(run: Run, unit_shift: Path, claim: str, verdict: str, code: int) -> None:
    assert 0.12 < mean_shift_delta(1.0, 1.0) < 0.13
    ended, out, _ = run("check", unit_shift, "--claim", claim, "--json")
    got = json.loads(out)
    assert (ended, got["verdict"]) == (code, verdict)
    assert got["delta_lower"] <= mean_shift_delta(1.0, 1.0) <= got["delta_upper"]
    ended, out, _ = run("check", unit_shift, "--claim", claim)
    assert ended == code
    assert verdict in out


def test_check_uses_the_direction_that_is_worse(run: Run, pair_files: Files) -> None:
    loss = read_pair(pair_files["json"])
    forward, backward = float(loss.delta(1.0)), float(loss.reversed().delta(1.0))
    between = math.sqrt(forward * backward)
    code, out, _ = run("check", pair_files["json"], "--claim", f"1,{between}", "--json")
    assert (code, json.loads(out)["verdict"]) == (1, "refuted")


def test_check_within_the_enclosure_is_undecided(run: Run, unit_shift: Path) -> None:
    got = answer(run, "delta", unit_shift, "--epsilon", "1", "--certified")
    lower, upper = float(str(got["delta_lower"])), float(str(got["delta_upper"]))
    assert lower < upper
    code, out, _ = run("check", unit_shift, "--claim", f"1,{lower!r}", "--json")
    assert (code, json.loads(out)["verdict"]) == (3, "undecided")
    assert run("check", unit_shift, "--claim", f"1,{upper!r}")[0] == 0


def test_curve_gives_both_directions_of_every_pair(run: Run, pair_files: Files, tmp_path: Path) -> None:
    plot = tmp_path / "curves.svg"
    pairs = (pair_files["json"], pair_files["other"])
    got = answer(run, "curve", *pairs, "--times", "2", "--points", "5", "--epsilon-max", "2", "--plot", plot)
    assert got["epsilon"] == [0.0, 0.5, 1.0, 1.5, 2.0]
    curves = got["curves"]
    assert isinstance(curves, list)
    for path, curve in zip(pairs, curves, strict=True):
        loss = read_pair(path) ** 2
        assert curve["delta_x_y"] == loss.delta(got["epsilon"]).tolist()
        assert curve["delta_y_x"] == loss.reversed().delta(got["epsilon"]).tolist()
    assert plot.read_text(encoding="utf-8").startswith("<?xml")


def test_curve_chooses_a_range_and_prints_a_table(run: Run, pair_files: Files) -> None:
    code, out, err = run("curve", pair_files["json"], "--points", "21")
    assert (code, err) == (0, "")
    assert len(out.strip().splitlines()) == 12
    assert "X||Y" in out


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("delta", "absent.json", "--epsilon", "1"), "error GV450: absent.json: no such file"),
        (("delta", "{json}", "--epsilon", "-1"), "error GV105: "),
        (("delta", "{json}", "--epsilon", "nan"), "error GV10"),
        (("epsilon", "{json}", "--delta", "2"), "error GV105: "),
        (("check", "{json}", "--claim", "1"), "error GV105: --claim must be two numbers"),
        (("check", "{json}", "--claim", "1,2"), "error GV105: --claim needs"),
        (("check", "{json}", "--claim", "-1,0.5"), "error GV105: --claim needs"),
        (("curve", "{json}", "--epsilon-max", "0"), "error GV105: --epsilon-max"),
        (("curve", "{json}", "--plot", "curve.gif"), "error GV107: curve.gif"),
        (("delta", "{json}"), "--epsilon must be given"),
        (("delta", "{json}", "--epsilon", "one"), "Invalid value"),
        (("nothing",), "No such command"),
    ],
)
def test_bad_input_ends_with_code_2_and_one_clear_line(
    run: Run, pair_files: Files, arguments: tuple[str, ...], error: str
) -> None:
    code, out, err = run(*(argument.replace("{json}", str(pair_files["json"])) for argument in arguments))
    assert code == 2
    assert out == ""
    assert error in err
    assert "Traceback" not in err


def test_a_plot_that_cannot_be_written_is_no_traceback(run: Run, pair_files: Files, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="utf-8")
    code, _, err = run("curve", pair_files["json"], "--points", "3", "--plot", blocked / "curve.svg")
    assert code == 2
    assert err.startswith("error GV450: ")
