"""Running a study: each step from the cache where nothing it depends on has changed, computed otherwise.

A cached part is named by the digest of all that can change it: our source that computes, the versions of
Python, NumPy and SciPy, the options, the bytes of the data files and the step's surroundings. A changed line of code
therefore recomputes; that is the price of never showing a stale number.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gaussveil
from gaussveil.files import write_whole
from gaussveil.typing import Progress
from gaussveil_studies.source import source_digest
from gaussveil_studies.study import (
    Claim,
    Options,
    Outcome,
    Part,
    Picture,
    Step,
    Study,
    Table,
    Verdict,
)

MOST_KEPT = 12  # results of one step, for other sizes, seeds and versions


def default_cache() -> Path:
    """Where results are kept: the user's cache folder."""
    return (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        / "gaussveil"
        / "studies"
    )


def run_study(
    study: Study, options: Options, cache_folder: Path | None, progress: Progress
) -> Outcome:
    """All parts of a study; `cache_folder` None computes everything anew and keeps nothing."""
    parts: dict[str, Part] = {}
    absent: list[str] = []
    for place, step in enumerate(study.steps):
        missing = step.missing(options.data)
        if missing:
            absent += [name for name in missing if name not in absent]
            parts[step.name] = step.without_data(missing)
            continue

        def tell(
            word: str, share: float, at: int = place, title: str = step.title
        ) -> None:
            progress(
                f"{title}: {word}" if word else title,
                (at + min(max(share, 0.0), 1.0)) / len(study.steps),
            )

        tell("", 0.0)
        parts[step.name] = _cached(study, step, options, cache_folder, tell)
    progress("", 1.0)
    return Outcome(study, options.size, options.seed, parts, tuple(absent))


def _cached(
    study: Study, step: Step, options: Options, folder: Path | None, progress: Progress
) -> Part:
    if folder is None:
        return step.run(options, progress)
    path = folder / f"{study.name}-{step.name}-{content_key(study, step, options)}.json"
    try:
        return part_from(json.loads(path.read_text(encoding="utf-8")))
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
    ):  # not there, or not whole: compute it
        part = step.run(options, progress)
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(asdict(part)))
    older = sorted(
        folder.glob(f"{study.name}-{step.name}-*.json"),
        key=lambda kept: kept.stat().st_mtime,
    )[:-MOST_KEPT]
    for kept in older:
        kept.unlink(missing_ok=True)
    return part


def content_key(study: Study, step: Step, options: Options) -> str:
    """Digest of everything a step's result depends on."""
    content = {
        "study": study.name,
        "step": step.name,
        "size": options.size.value,
        "seed": options.seed,
        "source": source_digest(),
        "versions": [
            gaussveil.__version__,
            platform.python_version(),
            version("numpy"),
            version("scipy"),
        ],
        "data": {name: file_digest(options.folder() / name) for name in step.files},
        "surroundings": step.surroundings() if step.surroundings is not None else "",
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


def file_digest(path: Path) -> str:
    """Digest of a data file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def part_from(body: Any) -> Part:
    """A part read back from JSON."""
    return Part(
        body["title"],
        tuple(body["paragraphs"]),
        tuple(
            Table(
                one["name"],
                tuple(one["columns"]),
                tuple(map(tuple, one["rows"])),
                one["caption"],
            )
            for one in body["tables"]
        ),
        tuple(Picture(**one) for one in body["pictures"]),
        tuple(
            Claim(**{**one, "verdict": Verdict(one["verdict"])})
            for one in body["claims"]
        ),
    )
