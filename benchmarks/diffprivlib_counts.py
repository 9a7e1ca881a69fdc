"""diffprivlib's side of bench_table_laws.py: `python diffprivlib_counts.py VALUES.json` prints its errors as JSON."""

from __future__ import annotations

import json
import sys
import warnings

import numpy as np
from diffprivlib import tools

warnings.simplefilter("ignore")


def main(path: str) -> None:
    with open(path, encoding="utf-8") as file:
        asked = json.load(file)
    values, bins, ends = np.array(asked["values"]), asked["bins"], tuple(asked["ends"])
    truth = np.histogram(values, bins, ends)[0]
    draws = range(asked["draws"])
    found = [tools.histogram(values, epsilon=1.0, bins=bins, range=ends, random_state=seed)[0] for seed in draws]
    ones = np.repeat([1.0, 0.0], len(values))  # its counts end at the size of what is counted: one amid is in question
    counts = [tools.count_nonzero(ones, epsilon=1.0, random_state=seed) for seed in range(asked["counts"])]
    errors = {
        "histogram": float(np.sqrt(np.mean(np.square(np.array(found) - truth)))),
        "count": float(np.sqrt(np.mean(np.square(np.array(counts, dtype=float) - len(values))))),
    }
    print(json.dumps(errors))


if __name__ == "__main__":
    main(sys.argv[1])
