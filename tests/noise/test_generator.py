from __future__ import annotations

import copy
import ctypes
import hashlib
import multiprocessing
import os
import pickle
import threading

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from gaussveil.errors import ParameterError
from gaussveil.noise import Generator, SecureGenerator, SeededGenerator, default_generator

pytestmark = pytest.mark.operating_system


def test_seeded_stream_is_aes_256_in_counter_mode() -> None:
    seed = hashlib.sha384(b"gaussveil seeded generator 7").digest()
    encryptor = Cipher(algorithms.AES(seed[:32]), modes.CTR(seed[32:])).encryptor()
    keystream = encryptor.update(bytes(1000))
    assert SeededGenerator(7).random_bytes(952) == keystream[48:]  # the first 48 bytes are the next key


def test_seeded_streams_repeat_and_differ_by_seed() -> None:
    assert np.array_equal(SeededGenerator(5).uint64(100), SeededGenerator(5).uint64(100))
    assert not np.any(SeededGenerator(5).uint64(100) == SeededGenerator(6).uint64(100))
    assert not SeededGenerator(5).is_secure
    assert SecureGenerator().is_secure


def test_stream_does_not_depend_on_how_it_is_cut() -> None:
    whole, cut = SeededGenerator(1), SeededGenerator(1)
    sizes = [0, 1, 47, 300_000, 8, 700_001]
    assert whole.random_bytes(sum(sizes)) == b"".join(cut.random_bytes(size) for size in sizes)
    assert np.array_equal(whole.uint64(3), np.frombuffer(cut.random_bytes(24), dtype="<u8"))


def test_seeded_pickle_continues_and_secure_pickle_starts_afresh() -> None:
    seeded = SeededGenerator(3)
    seeded.random_bytes(100)
    assert pickle.loads(pickle.dumps(seeded)).random_bytes(50) == copy.deepcopy(seeded).random_bytes(50)
    secure = SecureGenerator()
    secure.random_bytes(8)
    streams = {g.random_bytes(32) for g in (secure, pickle.loads(pickle.dumps(secure)), copy.deepcopy(secure))}
    assert len(streams) == 3


def read_from_child(fork: int, generator: Generator, write: int) -> None:
    if fork == 0:
        try:
            os.write(write, generator.random_bytes(32))
        finally:
            os._exit(0)


@pytest.mark.parametrize("fork", [os.fork, ctypes.CDLL(None).fork], ids=["python", "C, past Python's hooks"])
def test_children_of_a_fork_have_streams_of_their_own(fork) -> None:  # type: ignore[no-untyped-def]
    generator = default_generator()
    generator.random_bytes(8)  # a filled buffer is what a child would repeat
    read, write = os.pipe()
    for _ in range(3):
        child = fork()
        read_from_child(child, generator, write)
        os.waitpid(child, 0)
    streams = {os.read(read, 32) for _ in range(3)} | {generator.random_bytes(32)}
    os.close(read)
    os.close(write)
    assert len(streams) == 4
    assert all(len(stream) == 32 for stream in streams)


def draw_in_worker(_: int) -> bytes:
    return default_generator().random_bytes(32)


def test_multiprocessing_workers_have_streams_of_their_own() -> None:
    default_generator().random_bytes(8)
    with multiprocessing.get_context("fork").Pool(3) as pool:
        streams = pool.map(draw_in_worker, range(6), chunksize=1)
    assert len({*streams, default_generator().random_bytes(32)}) == 7


def test_a_child_forked_while_another_thread_draws_does_not_hang() -> None:
    generator = SecureGenerator()
    stop = threading.Event()

    def keep_drawing() -> None:
        while not stop.is_set():
            generator.random_bytes(1 << 20)

    thread = threading.Thread(target=keep_drawing)
    thread.start()
    read, write = os.pipe()
    for _ in range(5):
        child = os.fork()
        read_from_child(child, generator, write)
        os.waitpid(child, 0)
    stop.set()
    thread.join()
    os.close(write)
    streams = [os.read(read, 32) for _ in range(5)]
    os.close(read)
    assert len(set(streams)) == 5


def test_threads_never_receive_the_same_bytes() -> None:
    generator = SecureGenerator()
    received: list[np.ndarray] = []

    def draw() -> None:
        received.extend(generator.uint64(500) for _ in range(40))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    words = np.concatenate(received)
    assert len(np.unique(words)) == 80_000  # a repeat by chance: 2e-10


def test_secure_bits_are_balanced() -> None:
    bits = np.unpackbits(np.frombuffer(SecureGenerator().random_bytes(100_000), dtype=np.uint8))
    assert abs(bits.mean() - 0.5) < 7 * 0.5 / np.sqrt(bits.size)  # false alarm 3e-12


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ParameterError, match="count"):
        SeededGenerator(1).random_bytes(-1)
    with pytest.raises(ParameterError, match="seed must be an integer"):
        SeededGenerator("word")  # type: ignore[arg-type]
