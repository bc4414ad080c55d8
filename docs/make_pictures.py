"""Makes the README's picture: the newest report in runs/, as a browser shows it. Run after `make demo`."""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]


def main() -> int:
    reports = sorted(ROOT.glob("runs/*/report.html"))
    if not reports:
        print("There is no report yet. Run: make demo", file=sys.stderr)
        return 2
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(reports[-1].as_uri())
        page.wait_for_selector("svg.main-svg")
        page.screenshot(path=ROOT / "docs" / "report.png")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
