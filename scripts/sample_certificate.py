"""Write a signed certificate and its keys, for whoever wants to try a verifier: FILE KEY."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from gaussveil import GaussianRelease
from gaussveil.accounting.certificates.keys import load_private_key, new_key

target, key = map(Path, sys.argv[1:])
new_key(key)
release = GaussianRelease(epsilon=1.0, delta=1e-5, l2_sensitivity=1.0).release(np.zeros(3))
release.certificate.signed(load_private_key(key)).write(target)
