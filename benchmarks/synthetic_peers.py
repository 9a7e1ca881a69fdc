"""MST and AIM of dpmm (marginals and Private-PGM), in an environment of its own: `python synthetic_peers.py TASK`.

TASK names a JSON file: `table` and `out` (CSV files of the codes of cells), `sizes` (number of cells of each column),
`method`, `seed`, `epsilon`, `delta`, `rows`, `iterations` (of each fit of a model; null: its own), and `megabytes` (of
the model of AIM).
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import pandas as pd
from dpmm.pipelines import AIMPipeline, MSTPipeline

warnings.simplefilter("ignore")


def main(task: dict[str, Any]) -> None:
    iterations = {} if task["iterations"] is None else {"n_iters": task["iterations"]}
    model = {"mst": MSTPipeline, "aim": AIMPipeline}[task["method"]](
        epsilon=task["epsilon"],
        delta=task["delta"],
        disable_processing=True,
        max_model_size=task["megabytes"],
        n_jobs=1,
        gen_kwargs=iterations,
    )
    table = pd.read_csv(task["table"])
    model.fit(table, task["sizes"], random_state=task["seed"])
    made = model.generate(n_records=task["rows"], random_state=task["seed"])
    made[table.columns].to_csv(task["out"], index=False)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        main(json.load(file))
