"""Drop-ins run for real: a training run with Opacus, and the accounting of jax_privacy (run by `make test-peers`)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import dp_accounting
import pytest
import torch
from dp_accounting import NeighboringRelation
from jax_privacy import accounting
from jax_privacy.experimental.accounting import amplified_bandmf_event
from opacus import PrivacyEngine
from opacus.accountants import create_accountant

from gaussveil import DPSGD, Accountant
from gaussveil.accounting.exchange.google import ExactAccountant
from gaussveil.accounting.exchange.opacus import ExactAccountant as OpacusAccountant


def test_a_training_run_with_opacus() -> None:
    torch.manual_seed(1)
    features = torch.randn(64, 3)
    data = torch.utils.data.TensorDataset(features, (features.sum(dim=1) > 0).long())
    model = torch.nn.Linear(3, 2)
    engine = PrivacyEngine()
    engine.accountant = OpacusAccountant()
    model, optimiser, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=torch.utils.data.DataLoader(data, batch_size=8),
        noise_multiplier=1.1,
        max_grad_norm=1.0,
    )
    for _ in range(3):
        for batch, labels in loader:
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(model(batch), labels).backward()
            optimiser.step()
    steps = len(engine.accountant)
    assert steps == 3 * len(loader)
    found = engine.get_epsilon(1e-5)
    run = Accountant().add(DPSGD(noise_multiplier=1.1, sampling_rate=1 / len(loader)), steps)
    assert found == pytest.approx(run.epsilon(1e-5), rel=1e-12)
    theirs = {}
    for name in ("rdp", "prv"):
        other = create_accountant(mechanism=name)
        other.history = [(1.1, 1 / len(loader), steps)]
        theirs[name] = other.get_epsilon(delta=1e-5)
    print(f"\nepsilon after {steps} steps: ours {found:.6f}, Opacus prv {theirs['prv']:.6f}, rdp {theirs['rdp']:.6f}")
    assert found <= theirs["rdp"]
    assert found == pytest.approx(theirs["prv"], rel=0.05)
    state = engine.accountant.state_dict()
    again = OpacusAccountant()
    again.load_state_dict(state)
    assert again.get_epsilon(1e-5) == found


class OurConfig(accounting.DpAccountantConfig):
    def create_accountant(self) -> dp_accounting.PrivacyAccountant:
        return ExactAccountant()


def test_jax_privacy_accounts_and_calibrates() -> None:
    parameters = accounting.DpParams(
        num_samples=50_000, batch_size=500, noise_multipliers=1.0, delta=1e-5, is_finite_guarantee=True
    )
    ours = accounting.DpsgdTrainingAccountant(dp_accountant_config=OurConfig()).compute_epsilon(1000, parameters)
    theirs = accounting.DpsgdTrainingAccountant(
        dp_accountant_config=accounting.PldAccountantConfig(value_discretization_interval=1e-3)
    ).compute_epsilon(1000, parameters)
    print(f"\nepsilon of 1000 steps: ours {ours:.9f}, jax_privacy's PLD {theirs:.9f}")
    assert ours == pytest.approx(Accountant().add(DPSGD(noise_multiplier=1.0, sampling_rate=0.01), 1000).epsilon(1e-5))
    assert ours <= theirs * (1 + 1e-6)
    assert ours == pytest.approx(theirs, rel=1e-3)


def test_banded_noise_of_jax_privacy() -> None:
    """Amplified banded noise is bounded by Poisson-sampled steps, one for each band's turn, as jax_privacy does."""
    event = amplified_bandmf_event(2.0, 100, num_bands=4, sampling_prob=0.05)
    ours = ExactAccountant(NeighboringRelation.REPLACE_SPECIAL).compose(event).get_epsilon(1e-5)
    theirs = dp_accounting.pld.PLDAccountant(NeighboringRelation.REPLACE_SPECIAL).compose(event).get_epsilon(1e-5)
    print(f"\nbanded noise: ours {ours:.9f}, jax_privacy's PLD {theirs:.9f}")
    assert ours <= theirs * (1 + 1e-6)
    assert ours == pytest.approx(theirs, rel=1e-2)


def test_the_how_to_audits_a_training_run() -> None:
    """The page as it is printed: the run's own claim stands, that of ten times the noise is refuted."""
    page = Path(__file__).parents[1] / "docs" / "how-to" / "audit-a-training-run.md"
    blocks = re.findall(r"^```\{code-block\} python\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec("".join(blocks), names)
    audit, claimed = names["audit"], names["run"].epsilon(1e-5)
    print(f"\naudited: claimed {claimed:.3f}, at least {audit.epsilon_lower:.3f}, p-value {audit.p_value:.3g}")
    assert not audit.refuted
    assert 1.0 < audit.epsilon_lower <= claimed
    assert audit.epsilon_lower <= audit.gaussian_epsilon_lower <= claimed
    assert names["less"].refuted
