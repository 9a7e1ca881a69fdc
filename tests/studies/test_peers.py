"""The study's own steps, without network: noise that peers calibrated once (recorded), forms, a missing peer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from gaussveil.audit import audit
from gaussveil.errors import MissingDependencyError
from gaussveil.spectrum import GaussianPair
from gaussveil_studies.peers import script
from gaussveil_studies.peers.environments import SCRIPT, Peer
from gaussveil_studies.peers.questions import ACCOUNTANTS, CALIBRATORS, chi_square_forms

RECORDED = [  # peer, epsilon, delta, the noise it calibrated, how many times too large delta is
    ("diffprivlib 0.6.6", 5.0, 1e-17, 1.5976763621852599, 60.4),
    ("diffprivlib 0.6.6", 10.0, 9.8e-23, 0.8934045782009093, 32_646.0),
    ("autodp 0.2.3.1", 10.0, 9.8e-23, 0.8345119301206996, 6.32e6),
    ("opendp 0.16.0", 5.0, 1e-17, 1.7407646873665465, 0.1208),
    ("opendp 0.16.0", 10.0, 9.8e-23, 1.0218337304037055, 0.1039),
    ("dp-accounting 0.6.0", 5.0, 1e-17, 1.6933642040598373, 1.0),
    ("dp-accounting 0.6.0", 10.0, 9.8e-23, 1.0000126582379276, 1.0),
]


@pytest.mark.parametrize(("peer", "epsilon", "delta", "sigma", "times"), RECORDED)
def test_auditor_refutes_exactly_the_calibrations_that_overspend(
    peer: str, epsilon: float, delta: float, sigma: float, times: float
) -> None:
    found = audit(GaussianPair.mean_shift(1.0 / sigma), claim=(epsilon, delta))
    assert found.verdict == ("refuted" if times > 1 else "holds-on-these-neighbours")
    assert found.findings[0].lower / delta == pytest.approx(times, rel=1e-2)


def test_forms_are_the_privacy_loss() -> None:
    """Draw X and Y, evaluate L from densities and from the forms' normal variables: the same numbers."""
    gap, shift, epsilon = np.array([0.3, -0.8, 0.0]), np.array([0.4, 0.1, 0.7]), 0.2
    pair = GaussianPair.from_reduced(gap, shift)
    rng = np.random.default_rng(1)
    for form, deviation, mean in zip(
        chi_square_forms(pair, epsilon), (np.sqrt(1 - gap), np.ones(3)), (shift, np.zeros(3))
    ):
        sample = mean + deviation * rng.normal(size=(200_000, 3))
        loss = np.sum(norm.logpdf(sample, shift, np.sqrt(1 - gap)) - norm.logpdf(sample), axis=1)
        z = rng.normal(size=(200_000, 3))
        value = form["m"] + form["s"] * z[:, 2]
        value += (np.array(form["w"]) * (z[:, :2] + np.sqrt(form["l"])) ** 2).sum(axis=1)
        # Frequencies of 200,000 draws agree to six standard deviations.
        assert np.mean(value > epsilon) == pytest.approx(np.mean(loss > epsilon), abs=6 * np.sqrt(0.5 / 200_000))
        assert np.mean(value) == pytest.approx(np.mean(loss), abs=6 * np.sqrt(2 * np.var(loss) / 200_000))


def test_a_peer_that_cannot_be_installed_says_so(tmp_path: Path) -> None:
    nobody = Peer("nobody", (str(tmp_path / "nowhere"),))
    assert nobody.ask("gx2_tails", {}, tmp_path)["absent"]
    with pytest.raises(MissingDependencyError, match="nobody cannot be installed"):
        nobody.install(tmp_path)
    assert not (tmp_path / ".venv-peers-nobody" / ".installed").exists()


def test_tasks_exist_and_the_script_imports_nothing_of_ours() -> None:
    assert {*CALIBRATORS.values(), *ACCOUNTANTS.values(), "gx2_tails"} == set(script.TASKS)
    code = f"import runpy, sys; runpy.run_path({str(SCRIPT)!r}); print(*(m for m in sys.modules if 'gaussveil' in m))"
    assert subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True).stdout.strip() == ""
    asked = json.dumps({"task": "dp_accounting_delta", "case": {"sigma": 1.0, "count": 1, "epsilon": 1.0}})
    done = subprocess.run([sys.executable, str(SCRIPT)], input=asked, capture_output=True, text=True)
    assert json.loads(done.stdout.splitlines()[-1])["delta"] == pytest.approx(0.126936737507, rel=1e-6)


def test_a_peer_that_wants_too_much_memory_gives_no_answer(tmp_path: Path) -> None:
    """A grid of ten million points a composition: it may not take the machine's memory."""
    home = tmp_path / ".venv-peers-dp-accounting"
    (home / "bin").mkdir(parents=True)
    (home / ".installed").write_text("any", encoding="utf-8")
    (home / "bin" / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n', encoding="utf-8")
    (home / "bin" / "python").chmod(0o755)
    case = {"sigma": 1e-6, "count": 1, "epsilon": 1.0}
    found = Peer("dp-accounting", ("any",)).ask("dp_accounting_delta", case, tmp_path)
    assert found == {"failed": "more than 4 GiB of memory"}
