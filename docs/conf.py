"""How Sphinx builds these pages: `make docs`, warnings are errors."""

from __future__ import annotations

import importlib
import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

project = "gaussveil"
author = "The gaussveil developers"
release = importlib.metadata.version("gaussveil")

extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"gaussveil {release}"
html_copy_source = False
html_show_copyright = False  # the licence says it
html_static_path = ["_static"]
html_css_files = ["pictures.css"]
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_default_options = {"members": True, "inherited-members": False, "show-inheritance": True}
# Names of types that other libraries document, and those that exist for the type checker only.
nitpicky = False


subprocess.run(
    [sys.executable, "../scripts/write_command_line.py", "command-line.md"], check=True, cwd=Path(__file__).parent
)


def plain_paragraphs(app: object, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Show docstrings as they were written: they are plain text with formulas, not reStructuredText.

    What stands in backticks is code, other special characters are escaped; a paragraph with its own layout is a block.
    """
    paragraphs = re.split(r"\n\s*\n", "\n".join(lines).strip())
    lines.clear()
    for paragraph in paragraphs:
        rows = paragraph.split("\n")
        if any(row.startswith((" ", "- ", "* ")) for row in rows) or "::" in paragraph:
            lines += ["::", "", *(f"    {row}" for row in rows), ""]
        else:
            parts = re.split(r"`+(.+?)`+", paragraph)
            shown = [f"``{part}``" if k % 2 else re.sub(r"([\\*|_])", r"\\\1", part) for k, part in enumerate(parts)]
            lines += [*"".join(shown).split("\n"), ""]


def exports(app: object, page: str, source: list[str]) -> None:
    """Write a package's exports where a page asks for them; the stub beside the package is their one list."""

    def listed(found: re.Match[str]) -> str:
        package = importlib.import_module(found[1])
        kinds = {name: "class" if isinstance(getattr(package, name), type) else "function" for name in package.__all__}
        lines = [f".. auto{kind}:: {found[1]}.{name}" for name, kind in kinds.items()]
        return "\n".join(("```{eval-rst}", *lines, "```"))

    source[0] = re.sub(r"<!-- exports:([\w.]+) -->", listed, source[0])


def setup(app: Any) -> None:
    """Sphinx calls this once."""
    app.connect("source-read", exports)
    app.connect("autodoc-process-docstring", plain_paragraphs)
