"""Training steps as the accountant adds them: fixed batches, allocations, Renyi bounds."""

import numpy as np
import pytest

from gaussveil import DPSGD, Accountant, Allocation, Gaussian, GaussianPair, ZeroConcentrated
from gaussveil.errors import InputError
from gaussveil.spectrum.subsampled.loss import SubsampledLoss
from gaussveil.spectrum.subsampled.step import Step


def test_one_batch_of_a_fixed_size_is_enclosed_exactly():
    run = Accountant("replace").add(DPSGD(noise_multiplier=1.0, sampling_rate=0.01, fixed_size=True))
    found = run.enclose(1.0)
    assert found.lower <= found.upper <= found.lower * (1 + 1e-9)


def test_batches_of_a_fixed_size_lie_between_data_sets_and_the_bound():
    run = Accountant("replace").add(DPSGD(noise_multiplier=2.0, sampling_rate=0.05, fixed_size=True), 50)
    found = run.enclose(0.5)
    # other records equal to the one replaced: two standard deviations of the noise's half apart, or nothing
    equal = SubsampledLoss([(Step(1.0, 0.05), 50)])
    assert found.lower >= equal.enclose(0.5).lower
    assert found.lower <= found.upper <= 4 * found.lower


def test_allocations_join_other_mechanisms():
    run = Accountant().add(Allocation(noise_multiplier=2.0, steps=12, takes=3))
    alone = run.delta(0.5)
    together = run.add(Gaussian(noise_multiplier=2.0)).delta(0.5)
    worst = float(GaussianPair.mean_shift(np.sqrt(4) / 2.0).delta(0.5))  # three steps that surely hold the record
    assert alone < together < worst


def test_an_allocation_costs_about_what_sampling_does():
    allocated = Accountant().add(Allocation(noise_multiplier=1.0, steps=100)).enclose(0.3)
    sampled = Accountant().add(DPSGD(noise_multiplier=1.0, sampling_rate=0.01), 100).delta(0.3)
    assert 0.05 * sampled < allocated.lower <= allocated.upper < 1.02 * sampled


def test_zero_concentrated_mechanisms_join():
    run = Accountant().add(ZeroConcentrated(0.01), 10).add(Gaussian(noise_multiplier=2.0))
    exact = float(GaussianPair.mean_shift(np.sqrt(0.2 + 0.25)).delta(1.0))
    assert exact <= run.delta(1.0)
    assert run.enclose(1.0).lower == pytest.approx(float(GaussianPair.mean_shift(0.5).delta(1.0)), rel=1e-9)


@pytest.mark.parametrize(
    ("relation", "mechanism"),
    [
        ("add-remove", DPSGD(noise_multiplier=1.0, sampling_rate=0.1, fixed_size=True)),
        ("replace", Allocation(noise_multiplier=1.0, steps=10)),
    ],
)
def test_what_is_not_covered_is_refused(relation, mechanism):
    with pytest.raises(InputError):
        Accountant(relation).add(mechanism)
