"""The pages of the static site, gathered under build/docs: `make docs` runs this and then `mkdocs build --strict`.

Rules: README.md becomes the front page, docs/*.md stay as they are, and the API reference has one page for the public names
and one for each package, rendered from docstrings. Links to files that are not pages (notebooks, runbooks, sources) become
plain text. A link to a page that does not exist fails the build.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "drlib"
PAGES = ROOT / "build" / "docs"
TOP_PAGES = {
    ROOT / "README.md": "index.md",
    ROOT / "CONTRIBUTING.md": "contributing.md",
    ROOT / "CHANGELOG.md": "changes.md",
}
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def main() -> None:
    shutil.rmtree(PAGES, ignore_errors=True)
    (PAGES / "api").mkdir(parents=True)
    for source in sorted((ROOT / "docs").iterdir()):
        if source.suffix == ".md":
            (PAGES / source.name).write_text(with_links(source.read_text(), source.parent))
        elif source.suffix in (".png", ".svg"):
            shutil.copy(source, PAGES / source.name)
    for source, page in TOP_PAGES.items():
        (PAGES / page).write_text(with_links(source.read_text(), ROOT))
    write_reference()


def with_links(text: str, folder: Path) -> str:
    """`text`, found in `folder`, with its links as they are on the site."""

    def one(match: re.Match[str]) -> str:
        picture, label, target = match.groups()
        path, _, anchor = target.partition("#")
        if not path or "://" in target:
            return match[0]
        place = (folder / path).resolve()
        if place in TOP_PAGES:
            return f"[{label}]({TOP_PAGES[place]}{'#' + anchor if anchor else ''})"
        if place.parent == ROOT / "docs" and place.suffix in (".md", ".png", ".svg"):
            return f"{picture}[{label}]({place.name}{'#' + anchor if anchor else ''})"
        if place.exists():
            return label  # in the repository, and no page
        return match[0]  # broken: the build fails on it

    return LINK.sub(one, text)


def modules(folder: Path) -> list[str]:
    """Dotted names of the modules of `folder` and of the folders below it, sorted."""
    found = [path.relative_to(ROOT).with_suffix("") for path in folder.rglob("*.py")]
    return sorted(".".join(path.parts).removesuffix(".__init__") for path in found if path.name != "__main__")


def write_reference() -> None:
    public = "\n".join(
        [
            "# API reference",
            "",
            "What `import drlib` offers; everything else may change.",
            "",
            "::: drlib",
            "    options:",
            "      members: false",
            "",
        ]
    )
    packages = sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists())
    listed = "\n".join(f"- [`drlib.{name}`]({name}.md)" for name in packages)
    top = "\n".join(f"::: drlib.{path.stem}\n" for path in sorted(PACKAGE.glob("*.py")) if path.stem != "__init__")
    (PAGES / "api" / "index.md").write_text(f"{public}\n## Packages\n\n{listed}\n\n## Shared modules\n\n{top}")
    for name in packages:
        body = "\n".join(f"::: {module}\n" for module in modules(PACKAGE / name))
        (PAGES / "api" / f"{name}.md").write_text(f"# drlib.{name}\n\n{body}")


if __name__ == "__main__":
    main()
