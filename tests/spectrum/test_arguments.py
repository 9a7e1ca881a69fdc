"""Bad input gets an error that names the argument and the rule; harmless input is promoted."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest
import scipy.sparse

from gaussveil.errors import (
    FormatError,
    GaussveilError,
    InputError,
    NotFiniteError,
    NotPositiveDefiniteError,
    NotSymmetricError,
    ParameterError,
    ShapeError,
)
from gaussveil.spectrum import GaussianPair, PrivacyLoss, compose

EYE = np.eye(2)
ZERO = np.zeros(2)
BAD_PAIRS = {
    "asymmetric": ((ZERO, [[1, 0.5], [0.4, 1]], ZERO, EYE), NotSymmetricError, "cov_x"),
    "indefinite": ((ZERO, EYE, ZERO, [[1, 2], [2, 1]]), NotPositiveDefiniteError, "cov_y"),
    "negative variance": ((ZERO, EYE, ZERO, -EYE), NotPositiveDefiniteError, "cov_y"),
    "singular x": ((ZERO, [[1, 1], [1, 1]], ZERO, EYE), NotPositiveDefiniteError, "cov_x"),
    "singular y": ((ZERO, EYE, ZERO, [[1, 1], [1, 1]]), NotPositiveDefiniteError, "cov_y"),
    "zero": ((ZERO, 0 * EYE, ZERO, EYE), NotPositiveDefiniteError, "cov_x"),
    "nan": (([np.nan, 0], EYE, ZERO, EYE), NotFiniteError, "mean_x"),
    "inf": ((ZERO, EYE, ZERO, [[np.inf, 0], [0, 1]]), NotFiniteError, "cov_y"),
    "sizes": ((np.zeros(3), EYE, ZERO, EYE), ShapeError, "one dimension"),
    "flat covariance": ((ZERO, [1.0, 1.0], ZERO, EYE), ShapeError, "cov_x"),
    "scalar mean": ((0.0, EYE, ZERO, EYE), ShapeError, "mean_x"),
    "batches": ((np.zeros((3, 2)), EYE, np.zeros((4, 2)), EYE), ShapeError, "broadcast"),
    "text": ((["a", "b"], EYE, ZERO, EYE), InputError, "mean_x"),
    "complex": ((ZERO, EYE * (1 + 0j), ZERO, EYE), InputError, "cov_x"),
    "ragged": ((ZERO, [[1.0], [0.0, 1.0]], ZERO, EYE), InputError, "cov_x"),
}


@pytest.mark.parametrize("name", BAD_PAIRS)
def test_bad_pairs_are_refused(name: str) -> None:
    arguments, error, words = BAD_PAIRS[name]
    with pytest.raises(error, match=words) as caught:
        GaussianPair(*arguments)
    assert caught.value.code.startswith("GV1")


def test_the_bad_member_of_a_batch_is_named() -> None:
    covariances = np.broadcast_to(EYE, (5, 2, 2)).copy()
    covariances[3] = [[1, 2], [2, 1]]
    with pytest.raises(NotPositiveDefiniteError, match="index 3"):
        GaussianPair(ZERO, EYE, ZERO, covariances)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda pair: pair.delta(-0.1), "epsilon"),
        (lambda pair: pair.log_delta([0.0, -1.0]), "epsilon"),
        (lambda pair: pair.delta(np.nan), "epsilon"),
        (lambda pair: pair.epsilon(1.5), "delta"),
        (lambda pair: pair.epsilon(-1e-9), "delta"),
        (lambda pair: pair.epsilon(np.nan), "delta"),
        (lambda pair: pair.renyi(0.0), "order"),
        (lambda pair: pair.tradeoff(1.2), "type_one_error"),
        (lambda pair: pair.loss_tail(np.nan), "epsilon"),
        (lambda pair: pair.delta("one"), "epsilon"),
    ],
)
def test_bad_arguments_are_named(call: object, words: str) -> None:
    with pytest.raises(GaussveilError, match=words):
        call(GaussianPair.mean_shift(1.0))


@pytest.mark.parametrize(
    "terms",
    [([1.0], [1.0], [0.0]), ([0.5], [-1.0], [0.0]), ([0.5], [1.0], [-1.0]), ([np.nan], [1.0], [0.0]), ([], [], [])],
)
def test_bad_terms_are_refused(terms: tuple) -> None:
    with pytest.raises(InputError):
        PrivacyLoss.from_terms(*terms)


def test_a_variance_gap_of_one_is_refused() -> None:
    with pytest.raises(ParameterError, match="variance_gap"):
        GaussianPair.from_reduced([1.0], [0.0])


def test_lists_integers_and_float32_are_promoted() -> None:
    exact = GaussianPair(np.ones(2), 2 * EYE, ZERO, EYE).delta(1.0)
    assert GaussianPair([1, 1], [[2, 0], [0, 2]], [0, 0], [[1, 0], [0, 1]]).delta(1) == exact
    assert (
        GaussianPair(np.ones(2, np.float32), np.float32(2) * EYE.astype(np.float32), ZERO, EYE).delta(np.float32(1))
        == exact
    )
    assert isinstance(exact, float)


STRICT = array_api_strict.asarray([0.5, 0.5])
MIXED = {
    "pair": lambda: GaussianPair(STRICT, np.eye(2), np.zeros(2), np.eye(2)),
    "epsilon": lambda: GaussianPair.mean_shift(1.0).delta(STRICT),
    "composition": lambda: compose(PrivacyLoss.from_terms(STRICT, [1.0], [0.1]), GaussianPair.mean_shift(1.0)),
}


@pytest.mark.parametrize("name", MIXED)
def test_arrays_of_two_libraries_are_refused_in_one_sentence(name: str) -> None:
    with pytest.raises(InputError, match="must all come from one library"):
        MIXED[name]()


def test_sparse_matrices_and_lists_are_refused() -> None:
    with pytest.raises(InputError, match="array of real numbers"):
        GaussianPair([0.0, 0.0], scipy.sparse.eye(2), [0.0, 1.0], scipy.sparse.eye(2))
    with pytest.raises(FormatError, match="must be a JSON object"):
        PrivacyLoss.from_dict([1])  # type: ignore[arg-type]


TENSORS = {
    "a gradient": ({"requires_grad": True}, r"must carry no gradient.*detach"),
    "a sparse layout": ({"layout": "torch.sparse_coo"}, r"must be dense.*to_dense"),
    "another device": ({"device": "cuda:0"}, r"one device.*cuda:0"),
}


@pytest.mark.parametrize("name", TENSORS)
def test_tensors_of_other_kinds_are_refused(name: str) -> None:
    """An array of another library that says of itself what a tensor of PyTorch says; `make test-peers` has PyTorch."""
    said, words = TENSORS[name]
    marked = array_api_strict.asarray([0.5, 0.5])
    marked.__class__ = type("Marked", (type(marked),), {"__slots__": (), **said})
    for attempt in (
        lambda: GaussianPair(marked, STRICT, STRICT, STRICT),
        lambda: PrivacyLoss.from_terms(marked, STRICT, STRICT),
        lambda: GaussianPair.mean_shift(STRICT).delta(marked),
    ):
        with pytest.raises(InputError, match=words):
            attempt()
