"""The pages of docs/notebooks as Jupyter notebooks beside them, each run in a kernel (`make notebooks`).

A page is the source: its blocks of Python become cells, the text between them becomes text, and what the cells print is
kept, without pictures. `write_notebooks.py --check` compares the cells with the pages and runs nothing.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
FENCE = "```"
SECONDS = 300  # for one cell
KEPT = frozenset({"text/plain", "text/html", "text/markdown"})


def pages() -> list[Path]:
    """The pages that are programs."""
    return sorted(path for path in FOLDER.glob("*.md") if path.stem != "index")


def cells_of(page: Path) -> list[tuple[str, str]]:
    """Kind and text of each cell, in order."""
    _, _, body = page.read_text(encoding="utf-8").removeprefix("---\n").partition("\n---\n")
    cells: list[tuple[str, str]] = []
    for place, block in enumerate(body.split(f"\n{FENCE}")):
        if place % 2 == 0:
            cells.append(("markdown", block.strip()))
        else:
            language, _, code = block.partition("\n")
            kind = "code" if language == "python" else "markdown"
            cells.append((kind, code if kind == "code" else f"{FENCE}{language}\n{code}\n{FENCE}"))
    return [(kind, text) for kind, text in cells if text]


def notebook_of(page: Path) -> NotebookNode:
    """A page as a notebook that has not run."""
    notebook = nbformat.v4.new_notebook()
    makers = {"markdown": nbformat.v4.new_markdown_cell, "code": nbformat.v4.new_code_cell}
    for place, (kind, text) in enumerate(cells_of(page)):
        notebook.cells.append(makers[kind](text, id=f"{page.stem}-{place}"))
    notebook.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return notebook


def run(notebook: NotebookNode) -> NotebookNode:
    """The same notebook with what its cells say; raises where one fails."""
    with tempfile.TemporaryDirectory() as folder:
        place = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", record_timing=False, resources=place).execute()
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if "data" in output:
                output.data = {kind: shown for kind, shown in output.data.items() if kind in KEPT}
    notebook.metadata.pop("language_info", None)  # the version of whoever ran it
    return notebook


def beside(page: Path) -> Path:
    """Where the notebook of a page lies."""
    return page.with_suffix(".ipynb")


def differing() -> list[str]:
    """The names of the notebooks whose cells are not those of their pages."""
    names = []
    for page in pages():
        stored = beside(page)
        held = nbformat.read(stored, as_version=4).cells if stored.is_file() else []
        if [(cell.cell_type, cell.source) for cell in held] != cells_of(page):
            names.append(stored.name)
    return names


def main() -> int:
    """Write them all, or compare them."""
    if sys.argv[1:] == ["--check"]:
        for name in differing():
            print(f"{name} is not what its page says: make notebooks")
        return 1 if differing() else 0
    for page in pages():
        print(f"running {page.name}", flush=True)
        nbformat.write(run(notebook_of(page)), beside(page))
    return 0


if __name__ == "__main__":
    sys.exit(main())
