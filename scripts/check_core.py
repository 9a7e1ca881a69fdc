"""What the light core must do with its four packages alone; run in an empty environment."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import gaussveil
from gaussveil import DPSGD, Accountant, Gaussian, GaussianPair, calibrate, compose
from gaussveil.audit import audit
from gaussveil.errors import install

CORE = {"array-api-compat", "gaussveil", "numpy", "python-flint", "scipy"}

present = {found.metadata["Name"].lower().replace("_", "-") for found in distributions()} - {"pip", "setuptools"}
if "--blocked" not in sys.argv:
    assert present == CORE, present
pair = GaussianPair([1.0, 0.0], [[1.5, 0.1], [0.1, 1.0]], [0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]])
joined = compose(pair, GaussianPair.mean_shift(0.5))
ends = joined.enclose(1.0)
assert ends.lower <= joined.delta(1.0) * (1 + 1e-9) <= ends.upper * (1 + 2e-9)
assert 0.0 < joined.dp_epsilon(1e-5) < 20.0
run = Accountant().add(DPSGD(noise_multiplier=1.0, sampling_rate=0.02), steps=100).add(Gaussian(noise_multiplier=20))
assert run.delta(run.epsilon(1e-5)) <= 1e-5
noise = calibrate(Gaussian(), epsilon=1.0, delta=1e-5)
assert abs(noise - 3.7304) < 1e-3
assert callable(audit)
try:
    refusal = f"not refused: {gaussveil.GaussianRelease}"
except ImportError as error:
    refusal = str(error)
assert refusal.endswith(install("standard")), refusal
script = Path(sys.executable).with_name("gaussveil")
if script.exists() and "--blocked" not in sys.argv:
    done = subprocess.run([script, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done
    assert install("standard") in done.stderr, done.stderr
print("the light core works alone")
