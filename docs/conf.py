"""How Sphinx builds these pages: `make docs`, warnings are errors."""

from __future__ import annotations

import gc
import importlib
import importlib.metadata
import inspect
import re
import subprocess
import sys
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from furo.navigation import get_navigation_tree
from sphinx.environment.adapters.toctree import global_toctree_for_doc
from sphinx.pycode.parser import Parser
from sphinx.search.en import SearchEnglish
from sphinx.util.osutil import relative_uri

project = "gaussveil"
author = "The gaussveil developers"
release = importlib.metadata.version("gaussveil")

extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
smartquotes = False  # "--delta" and "auto" are to be copied as they stand
html_theme = "furo"
html_title = f"gaussveil {release}"
html_copy_source = False
html_show_copyright = False  # the licence says it
html_static_path = ["_static"]
html_css_files = ["pictures.css"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
maximum_signature_line_length = 88
add_module_names = False
autodoc_default_options = {
    "members": True,
    "inherited-members": False,
    "show-inheritance": True,
    # what scikit-learn writes into every estimator, in a markup of its own
    "exclude-members": "set_fit_request, set_predict_request, set_score_request, set_transform_request",
}
# Names of types that other libraries document, and those that exist for the type checker only.
nitpicky = False


subprocess.run(
    [sys.executable, "../scripts/write_command_line.py", "command-line.md"], check=True, cwd=Path(__file__).parent
)


HERE = Path(__file__).parent
DIRECTIVE = re.compile(r"^\.\. auto(class|function|module):: ([\w.]+)$(?:\n   .*)*", re.MULTILINE)


def plain_paragraphs(app: object, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Show docstrings as they were written: they are plain text with formulas, not reStructuredText.

    What stands in backticks is code, other special characters are escaped; examples are code to copy, `Args:` is a list
    of parameters, as is `Raises:` of errors, a paragraph with its own layout is a block.
    """
    paragraphs = re.split(r"\n\s*\n", "\n".join(lines).strip())
    lines.clear()
    for paragraph in paragraphs:
        rows = paragraph.split("\n")
        if rows[0] in ("Args:", "Arguments:"):
            lines += parameters(rows[1:])
        elif rows[0] == "Raises:":
            lines += parameters(rows[1:], "Raises")
        elif rows[0] == "Returns:":
            words = " ".join(row.strip() for row in rows[1:])
            lines += [".. rubric:: Returns", "", escaped(words), ""]
        elif rows[0].startswith(">>>"):
            lines += [".. code-block:: pycon", "", *(f"    {row}" for row in rows), ""]
        elif rows[0].startswith(("- ", "* ")) and all(row.startswith(("- ", "* ", "  ")) for row in rows):
            lines += [*escaped(paragraph).split("\n"), ""]
        elif any(row.startswith((" ", "- ", "* ")) for row in rows) or "::" in paragraph:
            lines += ["::", "", *(f"    {row}" for row in rows), ""]
        else:
            lines += [*escaped(paragraph).split("\n"), ""]


def escaped(text: str) -> str:
    """Text whose code is in backticks."""
    parts = re.split(r"`+(.+?)`+", text, flags=re.DOTALL)
    return "".join(
        f"``{' '.join(part.split())}``" if k % 2 else re.sub(r"([\\|_]|\*(?! ))", r"\\\1", part)
        for k, part in enumerate(parts)
    )


def parameters(rows: list[str], title: str = "Parameters") -> list[str]:
    """A definition list of parameters, or of errors; a row that is indented further goes on with the one above."""
    found: list[list[str]] = []
    for row in rows:
        if row.startswith("     ") and found:
            found[-1][1] += f" {row.strip()}"
        else:
            names, _, words = row.strip().partition(":")
            found.append([names, words.strip()])
    items = [line for names, words in found for line in (f"``{names}``", f"    {escaped(words)}", "")]
    return [f".. rubric:: {title}", "", *items]


def named(page: str) -> list[tuple[str, str]]:
    """What the reference lists: kind and full name, in its order; a package's exports come from its stub."""
    found = []
    for part in re.findall(r"<!-- exports:([\w.]+) -->|^(\.\. auto.*)$", page, re.MULTILINE):
        if part[0]:
            package = importlib.import_module(part[0])
            kinds = {name: isinstance(getattr(package, name), type) for name in package.__all__}
            found += [("class" if kind else "function", f"{part[0]}.{name}") for name, kind in kinds.items()]
        elif match := DIRECTIVE.match(part[1]):
            found.append((match[1], match[2]))
    return found


MEMBERS = {
    "gaussveil.errors": "\n   :no-members:",
    # its one direction and both are in two files; what compositions ask of a curve's numbers is left out
    "gaussveil.spectrum.PrivacyCurve": "\n   :inherited-members: CurveFacts",
}


def write_reference() -> None:
    """A page for every name of the reference."""
    (HERE / "api").mkdir(exist_ok=True)
    for kind, name in named((HERE / "api.md").read_text(encoding="utf-8")):
        title = name if kind == "module" else name.rpartition(".")[2]
        members = MEMBERS.get(name, "")
        body = f"# {title}\n\n```{{eval-rst}}\n.. auto{kind}:: {name}{members}\n```\n"
        target = HERE / "api" / f"{name}.md"
        if not target.exists() or target.read_text(encoding="utf-8") != body:
            target.write_text(body, encoding="utf-8")


def contents(app: object, page: str, source: list[str]) -> None:
    """Where the reference lists names: a table of them with a line on each, and their pages."""
    if page != "api":
        return

    def table(block: re.Match[str]) -> str:
        rows = []
        for _, name in named(block[0]):
            owner, _, own = name.rpartition(".")
            thing = getattr(importlib.import_module(owner), own)
            first = (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
            rows.append(f"| [{own}](api/{name}.md) | {first} |")
        pages = "\n".join(f"api/{name}" for _, name in named(block[0]))
        return "\n".join(["| | |", "|---|---|", *rows, "", f"```{{toctree}}\n:hidden:\n\n{pages}\n```"])

    source[0] = re.sub(r"```{eval-rst}\n.*?```|<!-- exports:[\w.]+ -->", table, source[0], flags=re.DOTALL)


PARTS = re.compile(
    r'</(?:ul|li)>|(?P<list><ul)>|<li class="(?P<level>toctree-l\d)(?P<parent>[^"]*)">'
    r'<a class="(?P<link>[^"]*)" href="(?P<page>[^"]*)">|(?P<box><input aria-label="[^"]*") '
)


def all_pages(app: Any) -> str:
    """The list of all pages that stands beside each, as the first page shows it."""
    asked = {"collapse": False, "titles_only": True, "maxdepth": -1, "includehidden": True}
    tree = global_toctree_for_doc(app.env, app.config.root_doc, app.builder, tags=app.tags, **asked)
    return get_navigation_tree(app.builder.render_partial(tree)["fragment"])


def beside(tree: str, page: str) -> str:
    """The same list as another page shows it: with its own links, open where it stands."""
    around: list[int] = []
    way: set[int] = set()  # the lists and items around this page, by their places among the parts
    for place, part in enumerate(PARTS.finditer(tree)):
        if part["list"] or part["level"]:
            around.append(place)
            way |= set(around) if part["page"] == page else set()
        elif not part["box"]:
            around.pop()
    places = count()

    def shown(part: re.Match[str]) -> str:
        place = next(places)
        if part["list"]:
            return '<ul class="current">' if place in way else part[0]
        if part["box"]:  # of the item before it
            return part[0] + 'checked="" ' * (place - 1 in way)
        if not part["level"]:
            return part[0]
        own = part["page"] == page
        item = part["level"] + " current" * (place in way) + part["parent"] + " current-page" * own
        link = "current " * own + part["link"]
        address = "#" if own else relative_uri(page, part["page"])
        return f'<li class="{item}"><a class="{link}" href="{address}">'

    return PARTS.sub(shown, tree)


def without_own_list(app: Any, page: str, template: str, context: dict[str, Any], tree: object) -> None:
    """The theme would lay the list of pages out for every page anew, in more than a third of the build's time."""
    context.pop("toctree", None)


def with_the_shared_list(app: Any, page: str, template: str, context: dict[str, Any], tree: object) -> None:
    """Set the list where the theme shows it."""
    if not hasattr(app, "all_pages"):
        app.all_pages = all_pages(app)
    context["furo_navigation_tree"] = beside(app.all_pages, app.builder.get_target_uri(page))


def spare_work() -> None:
    """A quarter of the build: the same words' stems, where definitions end, looks for nodes that nobody holds."""
    SearchEnglish.stem = cache(SearchEnglish.stem)
    Parser.parse_definition = lambda parser: None  # pages of sources would need it
    gc.freeze()
    gc.set_threshold(200_000, 50, 50)


def setup(app: Any) -> None:
    """Sphinx calls this once."""
    write_reference()
    spare_work()
    app.connect("html-page-context", without_own_list, priority=400)
    app.connect("html-page-context", with_the_shared_list, priority=600)
    app.connect("source-read", contents)
    app.connect("autodoc-process-docstring", plain_paragraphs)
