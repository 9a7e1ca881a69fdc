from __future__ import annotations

import hashlib
import hmac

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from gaussveil.errors import ParameterError
from gaussveil.noise import DiscreteGaussianNoise
from gaussveil.noise.keyed import KeyedGenerator

KEY = bytes(range(32))


def test_the_stream_is_aes_in_counter_mode_under_a_key_from_the_label() -> None:
    seed = hmac.new(KEY, b"label", hashlib.sha384).digest()
    expected = Cipher(AES(seed[:32]), CTR(seed[32:])).encryptor().update(bytes(100))
    generator = KeyedGenerator(KEY, b"label")
    assert not generator.used
    assert generator.random_bytes(30) + generator.random_bytes(70) == expected
    assert generator.used


def test_labels_and_keys_share_nothing_and_aiming_starts_anew() -> None:
    generator = KeyedGenerator(KEY, b"a")
    first = generator.random_bytes(32)
    assert KeyedGenerator(KEY, b"b").random_bytes(32) != first
    assert KeyedGenerator(KEY[::-1], b"a").random_bytes(32) != first
    generator.aim(KEY, b"a")
    assert not generator.used
    assert generator.random_bytes(32) == first


def test_noise_follows_the_label() -> None:
    law = DiscreteGaussianNoise(10**6)
    one, again, other = (law.draw((50,), KeyedGenerator(KEY, label)).tolist() for label in (b"1", b"1", b"2"))
    assert one == again
    assert one != other


def test_a_key_has_its_length_and_stays_where_it_is() -> None:
    with pytest.raises(ParameterError, match="32 bytes"):
        KeyedGenerator(KEY[:16])
    with pytest.raises(TypeError, match="secret"):
        KeyedGenerator(KEY).__reduce__()
