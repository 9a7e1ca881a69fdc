"""Draw the studio's two pictures of the docs, from its own pages: `python scripts/draw_studio.py`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

IMAGES = Path(__file__).parents[1] / "docs" / "images"
WIDTH = 1280
PATIENCE = 120_000  # milliseconds


def main() -> None:
    """Start a studio of nobody, visit Explore and the tour, and keep what they look like."""
    program = shutil.which("chromium")
    assert program is not None, "chromium is missing: apt-get install chromium"
    command = [str(Path(sys.executable).parent / "gaussveil"), "studio", "--no-browser", "--json"]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            assert server.stdout is not None
            said = json.loads(server.stdout.readline())
            page = browser.new_page(viewport={"width": WIDTH, "height": 860})
            page.set_default_timeout(PATIENCE)
            page.goto(said["link"])
            page.goto(f"{said['pages']}/explore")
            keep(page, "#tradeoff[data-drawn]", "studio-explore", 860)
            page.goto(f"{said['pages']}/tour")
            keep(page, "#release-button:enabled", "studio-release", 1560)
        finally:
            browser.close()
            server.terminate()
            server.wait()


def keep(page: Page, drawn: str, name: str, height: int) -> None:
    """The upper part of a page, once it is drawn."""
    page.wait_for_selector(drawn)
    page.set_viewport_size({"width": WIDTH, "height": height})
    page.wait_for_timeout(500)  # charts follow the window
    page.screenshot(path=IMAGES / f"{name}.png")


if __name__ == "__main__":
    main()
