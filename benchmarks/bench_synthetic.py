"""Synthetic tables at (1, 1e-6) beside MST, AIM and histograms by class: columns, pairs, what is learnt from them.

Five tables (synthetic_sets.py): skewed columns and Gaussian ones, 10,000 rows; a mixed one like Adult, 30,000 rows;
days of Swiss homes by hour (GAUSSVEIL_DATA); days of simulated homes, on which nothing was chosen.
Distances are to the private table, areas under curves on 20,000 rows that
nobody saw (synthetic_scores.py). Means of ten draws of ours (DRAWS) and of fewer of the peers, which take minutes to an
hour (PEER_DRAWS, 0 leaves them out; SETS names tables). MST and AIM are those of dpmm, which is built on Private-PGM.
They get more than they may: 32 cells between quantiles of the private numbers, frequent numbers apart, for nothing.
PEER_ITERATIONS (1,000) and PEER_MEGABYTES (80, AIM's own) bound their fits. Histograms: 32 even cells, or values.
Bands of `summary()` are counted in COVERAGE_DRAWS releases of each set ("4", or "skewed:30 homes:5"), from
COVERAGE_REPLAYS replays each: how many hold the private table's own number, of all, and of the trusted ones by kind of
statement.
Ours and histograms are drawn side by side (WORKERS), peers, which take gigabytes, one after the other. With
RESUME=FOLDER a run that was ended goes on there, draw by draw. Rows of sets that SETS leaves out, and what PEER_DRAWS=0
leaves out of peers, stay as they are stored, and say so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import synthetic_scores as scores
import synthetic_sets as sets
from gaussveil import SyntheticTable
from gaussveil.calibration import mean_shift_for
from gaussveil.postprocessing.synthetic.summary import StatedNumber, statements
from run import RESULTS, stored
from side_by_side import kept, side_by_side

HERE = Path(__file__).parent
DRAWS = int(os.environ.get("DRAWS", "10"))
COVERAGE_DRAWS = os.environ.get("COVERAGE_DRAWS", "3")
COVERAGE_REPLAYS = int(os.environ.get("COVERAGE_REPLAYS", "16"))
COVERAGE = (0.93, 0.99)
KINDS = ("mean", "quantile", "share", "correlation")
PEER_DRAWS = int(os.environ.get("PEER_DRAWS", "1"))
PEER_PYTHON = os.environ.get("PEER_PYTHON") or str(HERE.parent / ".venv-peers-synthetic" / "bin" / "python")
PEER_ITERATIONS = int(os.environ.get("PEER_ITERATIONS", "1000"))
PEER_MEGABYTES = float(os.environ.get("PEER_MEGABYTES", "80"))
PEER_LIMIT = int(os.environ.get("PEER_LIMIT", "7200"))  # seconds of one fit
EPSILON, DELTA = 1.0, 1e-6
SETS = "skewed gaussian adult profiles homes"
ROWS = {"skewed": 10_000, "gaussian": 10_000, "adult": 30_000, "profiles": 0, "homes": 20_000}
UNSEEN = 20_000
CELLS = 32
HOURLY = ("profiles", "homes")
PEERS = ("MST", "AIM")
EARLIER = "of an earlier run"
Scores = dict[str, float]
Make = Callable[[pd.DataFrame, sets.PublicRanges, int], pd.DataFrame]


def known_values(public: sets.PublicRanges) -> dict[str, list[Any]]:
    more = {public.label: [0, 1]} if public.label is not None and public.label not in public.values else {}
    return {**public.values, **more}


def released(table: pd.DataFrame, public: sets.PublicRanges) -> SyntheticTable:
    synthetic = SyntheticTable(
        epsilon=EPSILON,
        delta=DELTA,
        between=public.between,
        values=known_values(public),
        label=public.label,
        series=public.series,
    )
    synthetic.release(table)
    return synthetic


def ours(table: pd.DataFrame, public: sets.PublicRanges, seed: int) -> pd.DataFrame:
    return released(table, public).sample(len(table), seed)


def covered(job: tuple[str, int]) -> Scores:
    """Share of the bands of one release that hold the private table's own number: all, trusted ones, these by kind."""
    name, seed = job
    table = getattr(sets, name)(ROWS[name], seed)
    synthetic = released(table, getattr(sets, name.upper()))
    bands = synthetic.summary(seed=seed, replays=COVERAGE_REPLAYS)
    truth = statements(pa.Table.from_pandas(table, preserve_index=False), synthetic.model_.columns)
    asked = bands[bands["statistic"] != "missing"]
    own = [truth[StatedNumber(*one)] for one in zip(asked["column"], asked["statistic"], asked["other"], strict=True)]
    held = (asked["low"] <= own) & (own <= asked["high"])
    parts = {"all bands": held == held, "trusted bands": asked["trusted"]}
    parts |= {f"trusted {kind}s": asked["trusted"] & asked["statistic"].str.startswith(kind) for kind in KINDS}
    return {what: float(held[part].mean()) for what, part in parts.items() if part.any()}


def histograms(table: pd.DataFrame, public: sets.PublicRanges, seed: int) -> pd.DataFrame:
    """Noisy counts of even cells by class, columns drawn by themselves: each record lies in one cell a column."""
    generator = np.random.default_rng(seed)
    names = [name for name in table if name != public.label]
    noise = np.sqrt(len(names) + (public.label is not None)) / mean_shift_for(EPSILON, DELTA)
    classes = known_values(public)[public.label] if public.label is not None else [None]
    parts = [table if one is None else table[table[public.label] == one] for one in classes]
    sizes = [max(len(part) + noise * generator.standard_normal(), 1.0) for part in parts]
    counts = generator.multinomial(len(table), np.array(sizes) / sum(sizes))
    drawn = []
    for value, part, count in zip(classes, parts, counts, strict=True):
        made = {name: _column(part[name], public, noise, count, generator) for name in names}
        drawn.append(pd.DataFrame(made if value is None else made | {public.label: value}))
    return pd.concat(drawn, ignore_index=True)[list(table)].astype(table.dtypes.to_dict())


def _column(
    cells: pd.Series, public: sets.PublicRanges, noise: float, count: int, generator: np.random.Generator
) -> np.ndarray:
    if cells.name in public.values:
        values = public.values[cells.name]
        shares = np.array([(cells == one).sum() for one in values]) + noise * generator.standard_normal(len(values))
        return np.asarray(generator.choice(values, count, p=_shares(shares)))
    edges = np.linspace(*public.between[str(cells.name)], CELLS + 1)
    shares = np.histogram(cells, edges)[0] + noise * generator.standard_normal(CELLS)
    place = generator.choice(CELLS, count, p=_shares(shares))
    drawn = edges[place] + generator.random(count) * np.diff(edges)[place]
    return np.rint(drawn) if pd.api.types.is_integer_dtype(cells) else drawn


def _shares(counts: np.ndarray) -> np.ndarray:
    kept = np.maximum(counts, 0.0) + 1e-9
    return np.asarray(kept / kept.sum())


def peer(method: str) -> Make:
    """MST or AIM in its own environment, on cells that it gets for nothing; what takes too long raises."""

    def make(table: pd.DataFrame, public: sets.PublicRanges, seed: int) -> pd.DataFrame:
        cells = {name: Cells.of(table[name], public) for name in table}
        codes = pd.DataFrame({name: one.codes(table[name]) for name, one in cells.items()})
        with tempfile.TemporaryDirectory() as folder:
            coded, made, task = (Path(folder) / name for name in ("table.csv", "made.csv", "task.json"))
            codes.to_csv(coded, index=False)
            order = {"table": str(coded), "out": str(made), "method": method, "seed": seed, "rows": len(table)}
            order |= {"sizes": {name: one.size for name, one in cells.items()}, "epsilon": EPSILON, "delta": DELTA}
            order |= {"iterations": PEER_ITERATIONS, "megabytes": PEER_MEGABYTES}
            task.write_text(json.dumps(order), encoding="utf-8")
            command = [PEER_PYTHON, str(HERE / "synthetic_peers.py"), str(task)]
            subprocess.run(command, check=True, capture_output=True, timeout=PEER_LIMIT)
            drawn, generator = pd.read_csv(made), np.random.default_rng(seed)
            return pd.DataFrame({name: one.cells(drawn[name], generator) for name, one in cells.items()})

    return make


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of one column: its values, or intervals between quantiles of the private numbers and frequent numbers."""

    values: tuple[Any, ...] | None
    edges: np.ndarray
    frequent: np.ndarray
    whole: bool

    @classmethod
    def of(cls, column: pd.Series, public: sets.PublicRanges) -> Cells:
        if column.name not in public.between:
            return cls(tuple(known_values(public)[str(column.name)]), np.zeros(0), np.zeros(0), False)
        numbers = column.to_numpy(dtype=float)
        inner = np.quantile(numbers, np.arange(1, CELLS) / CELLS)
        shares = pd.Series(numbers).value_counts(normalize=True)
        frequent = np.sort(shares[shares > 1 / CELLS].index.to_numpy())
        edges = np.unique([*public.between[str(column.name)], *inner])
        return cls(None, edges, frequent, pd.api.types.is_integer_dtype(column))

    @property
    def size(self) -> int:
        return len(self.edges) - 1 + len(self.frequent) if self.values is None else len(self.values)

    def codes(self, column: pd.Series) -> np.ndarray:
        if self.values is not None:
            return np.asarray(pd.Index(self.values).get_indexer(column))
        numbers, last = column.to_numpy(dtype=float), len(self.edges) - 2
        place = np.clip(np.searchsorted(self.edges, numbers, side="left") - 1, 0, last)
        for index, value in enumerate(self.frequent):
            place = np.where(numbers == value, last + 1 + index, place)
        return place

    def cells(self, codes: pd.Series, generator: np.random.Generator) -> np.ndarray:
        place = codes.to_numpy().astype(int)
        if self.values is not None:
            return np.array(self.values)[place]
        last = len(self.edges) - 2
        inside = np.minimum(place, last)
        numbers = self.edges[inside] + generator.random(len(place)) * np.diff(self.edges)[inside]
        numbers = np.clip(np.ceil(numbers), self.edges[0], self.edges[-1]) if self.whole else numbers
        if not len(self.frequent):
            return numbers
        return np.where(place > last, self.frequent[np.clip(place - last - 1, 0, len(self.frequent) - 1)], numbers)


def measured(name: str, maker: str, draws: int) -> Scores:
    """Means over draws of all scores of a set, made by one of MAKERS."""
    jobs = [(name, maker, seed) for seed in range(draws)]
    found = [kept(draw, job) for job in jobs] if maker in PEERS else side_by_side(draw, jobs)
    return pd.DataFrame(found).mean().to_dict()


def draw(job: tuple[str, str, int]) -> Scores:
    """Scores of one synthetic table."""
    name, maker, seed = job
    public = getattr(sets, name.upper())
    table = getattr(sets, name)(ROWS[name], seed)
    start = sum(os.times()[:4])  # processor time, that of peers in processes of their own included
    made = MAKERS[maker](table, public, seed)
    return {"seconds": sum(os.times()[:4]) - start} | scored(name, public, table, made, seed)


def scored(name: str, public: sets.PublicRanges, table: pd.DataFrame, made: pd.DataFrame, seed: int) -> Scores:
    if name in HOURLY:
        quantiles, correlations = scores.hour_gaps(table, made)
        return {"quantiles": quantiles, "near": correlations, "near ranks": scores.near_gap(table, made, "spearman")}
    unseen = getattr(sets, name)(UNSEEN, seed + 1000)
    told = {"KS": scores.column_gap(table, made), "correlation": scores.correlation_gap(table, made, "pearson")}
    told["rank correlation"] = scores.correlation_gap(table, made, "spearman")
    told["boosted"] = scores.curve(made, unseen, public.label, True)
    told["logistic"] = scores.curve(made, unseen, public.label, False)
    if name == "adult":
        told["pairs"] = scores.pair_gap(table, made)
    return told


def itself(table: pd.DataFrame, _public: sets.PublicRanges, _seed: int) -> pd.DataFrame:
    """The private table, which shows what could be learnt."""
    return table


MAKERS: dict[str, Make] = {
    "ours": ours,
    "histograms": histograms,
    "MST": peer("mst"),
    "AIM": peer("aim"),
    "private table": itself,
}


def coverage_rows(name: str) -> list[dict[str, Any]]:
    """Coverage of the bands, with what it should be at least; more than the upper goal is missed, too."""
    draws = coverage_draws(name)
    if not draws:
        return []
    shares = pd.DataFrame(side_by_side(covered, [(name, seed) for seed in range(draws)])).mean().to_dict()
    low, high = COVERAGE
    note = f"{draws} releases of {COVERAGE_REPLAYS} replays; at most {high}"
    return [row(f"{name}: {what}", one, None, low, low <= one <= high, note) for what, one in shares.items()]


def coverage_draws(name: str) -> int:
    """How many releases of a set say what its bands hold."""
    stated = dict(part.split(":") for part in COVERAGE_DRAWS.split() if ":" in part)
    return int(stated.get(name, 0) if stated else COVERAGE_DRAWS)


def rivals_of(name: str) -> dict[str, Scores]:
    """Scores of the peers that are installed and end in time."""
    found = {"histograms": measured(name, "histograms", DRAWS)}
    if not PEER_DRAWS:
        return found | earlier_rivals(name)
    for rival in PEERS if Path(PEER_PYTHON).exists() else ():
        try:
            found[rival] = measured(name, rival, PEER_DRAWS)
        except (subprocess.SubprocessError, OSError) as error:
            print(f"{name}: {rival} gave nothing: {type(error).__name__}", file=sys.stderr)
    return found


def row(name: str, mine: float, other: float | None, goal: float | None, met: bool, note: str = "") -> dict[str, Any]:
    ratio = None if other is None or not mine else other / mine
    line = {"name": name, "ours": mine, "peer": other, "ratio": ratio, "goal": goal, "met": met}
    return line | ({"note": note} if note else {})


def run() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    sets_wanted = os.environ.get("SETS", SETS).split()
    for name in sets_wanted:
        mine = measured(name, "ours", DRAWS)
        if name in HOURLY:
            rows += of_set(name, mine, {}, None)
        else:
            rows += of_set(name, mine, rivals_of(name), measured(name, "private table", DRAWS))
        rows += coverage_rows(name)
    return rows + earlier_rows(sets_wanted)


def earlier_rivals(name: str) -> dict[str, Scores]:
    """Stored scores of MST and AIM."""
    found: dict[str, Scores] = {}
    for one in stored(RESULTS).get("synthetic", {}).get("rows", ()):
        what, _, rival = one["name"].partition(": ")[2].rpartition(", beside ")
        if one["name"].startswith(f"{name}: ") and rival in PEERS:
            found.setdefault(rival, {})[what] = one["peer"]
    return found


def earlier_rows(sets_wanted: list[str]) -> list[dict[str, Any]]:
    """Stored rows of sets that were left out of this run."""
    rows = []
    for one in stored(RESULTS).get("synthetic", {}).get("rows", ()):
        if one["name"].partition(":")[0] not in sets_wanted:
            before = one.get("note", "").removesuffix(EARLIER).rstrip(", ")
            rows.append(one | {"note": f"{before}, {EARLIER}".lstrip(", ")})
    return rows


def of_set(name: str, mine: Scores, rivals: dict[str, Scores], truth: Scores | None) -> list[dict[str, Any]]:
    """Goals first, then every peer beside ours."""
    rows = [row(f"{name}: {what}", mine[what], None, goal, met) for what, goal, met in goals(name, mine, rivals, truth)]
    for what in mine:
        told = {rival: f"{found[what]:.4g}" for rival, found in rivals.items() if what in found}
        if truth is not None and what in ("boosted", "logistic"):
            told["private table"] = f"{truth[what]:.4g}"
        for rival, found in rivals.items():
            if what in found:
                note = f"{rival} {EARLIER}" if rival in PEERS and not PEER_DRAWS else ""
                rows.append(row(f"{name}: {what}, beside {rival}", mine[what], found[what], None, True, note))
        if told:
            every = [*(f"{who} {value}" for who, value in told.items()), rows[-1].get("note", "")]
            rows[-1]["note"] = ", ".join(filter(None, every))
    return rows


def goals(
    name: str, mine: Scores, rivals: dict[str, Scores], truth: Scores | None
) -> list[tuple[str, float | None, bool]]:
    if name == "homes":
        return [("quantiles", None, True), ("near", None, True)]
    if name == "profiles":
        return [("quantiles", 0.10, mine["quantiles"] <= 0.10), ("near", 0.05, mine["near"] <= 0.05)]
    assert truth is not None
    logistic = truth["logistic"] - 0.005
    if name == "skewed":
        return [
            ("KS", 0.03, mine["KS"] <= 0.03),
            ("correlation", 0.03, mine["correlation"] <= 0.03),
            ("rank correlation", 0.03, mine["rank correlation"] <= 0.03),
            ("boosted", 0.75, mine["boosted"] >= 0.75),
            ("logistic", logistic, mine["logistic"] >= logistic),
        ]
    if name == "gaussian":
        return [("KS", 0.011, mine["KS"] <= 0.011), ("boosted", 0.99, mine["boosted"] >= 0.99)]
    best = rivals.get("AIM", rivals.get("MST"))  # where AIM does not end in time
    return [
        ("pairs", None if best is None else best["pairs"], best is None or mine["pairs"] <= best["pairs"]),
        ("boosted", None if best is None else best["boosted"], best is None or mine["boosted"] >= best["boosted"]),
    ]


if __name__ == "__main__":
    for line in run():
        print(line)
