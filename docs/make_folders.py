"""The table of folders in docs/architecture.md, from the first sentence of each package's docstring.

Run `python docs/make_folders.py` to bring the page up to date.

A test compares the page with `table()`, so that the page and the code agree.
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- folders: written by docs/make_folders.py -->\n", "<!-- end of folders -->\n"


def purpose(package: Path) -> str:
    """The first sentence of the docstring of `package`, on one line; "" without a docstring."""
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")


def table() -> str:
    folders = sorted(path.parent for path in (ROOT / "drlib").rglob("__init__.py"))
    rows = [f"| `{folder.relative_to(ROOT / 'drlib')}/` | {purpose(folder)} |\n" for folder in folders[1:]]
    return "| Folder of `drlib/` | What it is for |\n|---|---|\n" + "".join(rows)


def page(text: str) -> str:
    """`text` with the table that is current."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table()}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
