"""A progress bar for designs that search for minutes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def shown_progress(shown: bool, title: str) -> Iterator[Callable[[str, float], None]]:
    """Give a function to call with a word and a fraction done; it draws a bar on standard error if `shown`."""
    if not shown:
        yield lambda _word, _share: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[word]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=1.0, word="")
        yield lambda word, share: bar.update(task, completed=share, word=word)
