"""MST and AIM of dpmm (marginals and Private-PGM), in an environment of its own: `python synthetic_peers.py TASK`.

TASK names a JSON file: `table` and `out` (CSV files), `method`, `seed`, `epsilon`, `delta`, `between`, `values`, and
`rows`. A tenth of epsilon goes into its PrivTree cells, which is what its pipelines do unless told otherwise.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from typing import Any

import pandas as pd
from dpmm.pipelines import AIMPipeline, MSTPipeline

warnings.simplefilter("ignore")
BINNING = 0.1  # of epsilon


def main(task: dict[str, Any]) -> None:
    table = pd.read_csv(task["table"])
    for name, values in task["values"].items():
        table[name] = pd.Categorical(table[name], categories=values)
    domain: dict[str, Any] = {name: {"lower": low, "upper": high} for name, (low, high) in task["between"].items()}
    domain |= {name: {"categories": values} for name, values in task["values"].items()}
    start = time.perf_counter()
    model = {"mst": MSTPipeline, "aim": AIMPipeline}[task["method"]](
        epsilon=(1 - BINNING) * task["epsilon"],
        delta=task["delta"],
        proc_epsilon=BINNING * task["epsilon"],
        n_jobs=1,
    )
    model.fit(table, domain, random_state=task["seed"])
    made = model.generate(n_records=task["rows"], random_state=task["seed"])
    print(json.dumps({"seconds": time.perf_counter() - start}))
    made[table.columns].to_csv(task["out"], index=False)


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        main(json.load(file))
