"""Where modules and tests are, as CONTRIBUTING.md and docs/architecture.md say, and that names in prose lead somewhere."""

from __future__ import annotations

import json
import re
import tomllib
from functools import cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from longest_files import LONGEST
from repository_root import ROOT, TESTS

PACKAGE = ROOT / "drlib"
MOST_MODULES = 10  # in one folder
MOST_LINES = 400  # of one module; a longer one states its reason in its header
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}
# Roots of modules that tests/unit/<root> tests beside drlib's own folders.
OTHER_ROOTS = {"bench": ROOT / "bench", "fuzz": TESTS / "fuzz", "soak": TESTS / "soak"}
DOTTED = re.compile(r"`(drlib(?:\.[A-Za-z_][A-Za-z_0-9]*)+)[`(]")
FORMER = {"academy", "clusters", "incident", "private_file", "rules", "spark", "views", "wire"}
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")


def folders() -> list[Path]:
    return sorted({path.parent for path in PACKAGE.rglob("*.py")})


@cache
def resolves(name: str) -> bool:
    """Is `name` a module, or something that is in one?"""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:count])
        if (path / "__init__.py").exists() or path.with_suffix(".py").exists():
            source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
            rest = parts[count:]
            text = source.read_text()
            return all(re.search(rf"\b{re.escape(part)}\b", text) for part in rest)
    return False


def names_a_module(name: str) -> bool:
    """Does `name` begin with a package or module of drlib, one of today or one of the past? Keys, topics and groups do not."""
    return name.split(".")[1] in {path.stem for path in PACKAGE.iterdir()} | FORMER


def test_folder_of_modules_has_at_most_ten() -> None:
    counts = {str(f.relative_to(ROOT)): len([p for p in f.glob("*.py") if p.name != "__init__.py"]) for f in folders()}
    assert {folder: count for folder, count in counts.items() if count > MOST_MODULES} == {}


def test_folder_of_modules_is_a_package_that_says_what_it_is_for() -> None:
    silent = [
        str(folder.relative_to(ROOT))
        for folder in folders()
        if not (folder / "__init__.py").exists() or '"""' not in (folder / "__init__.py").read_text()
    ]
    assert silent == []


def test_module_name_is_never_vague() -> None:
    assert [str(path) for path in modules() if path.stem in VAGUE_NAMES] == []


def test_module_opens_with_its_purpose() -> None:
    assert [str(p.relative_to(ROOT)) for p in modules() if not p.read_text().lstrip().startswith(('"""', 'r"""'))] == []


def test_module_over_four_hundred_lines_states_its_reason() -> None:
    long = {str(p.relative_to(ROOT)): p.read_text() for p in modules() if len(p.read_text().splitlines()) > MOST_LINES}
    assert [name for name, text in long.items() if "Longer than most modules" not in text] == []


@pytest.mark.parametrize("path", sorted((TESTS / "unit").rglob("test_*.py")), ids=lambda p: str(p.relative_to(TESTS)))
def test_unit_test_file_lies_under_the_path_of_its_module(path: Path) -> None:
    """`tests/unit/a/test_b.py` tests `drlib/a/b.py`; `test_b_aspect.py` tests an aspect of it."""
    relative = path.relative_to(TESTS / "unit")
    root = OTHER_ROOTS.get(relative.parts[0])
    folder = PACKAGE / relative.parent if root is None else root.joinpath(*relative.parent.parts[1:])
    words = path.stem.removeprefix("test_").split("_")
    candidates = {"_".join(words[:count]) for count in range(1, len(words) + 1)}
    present = {p.stem for p in folder.glob("*.py")} if folder.is_dir() else set()
    assert candidates & present, f"no module of {folder.relative_to(ROOT)} has this name"


def test_integration_tests_are_grouped_by_package() -> None:
    tested = {path.name for path in (TESTS / "integration").iterdir() if path.is_dir() and path.name != "__pycache__"}
    packages = {path.name for path in PACKAGE.iterdir() if path.is_dir()} | {"bench"}
    assert tested - packages == set()
    assert list((TESTS / "integration").glob("test_*.py")) == []


def test_each_notebook_has_a_lab_of_its_own_and_says_how_to_end_it() -> None:
    """Two that ran at once on one lab would each kill the other's clusters. Lessons take turns on one, and are not here."""
    found: dict[str, Path] = {}
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = ["".join(cell["source"]) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]
        (folder,) = re.findall(r'^lab_dir: str = "(.*?)"', "\n".join(cells), re.MULTILINE)
        down = "`drlib lab down`" if folder == "../.lab" else f"`drlib lab down --dir {folder.removeprefix('../')}`"
        assert cells[0].count("`drlib lab down") == cells[0].count(down), f"{path.name} is to say {down}"
        if folder:  # a drill on clusters of one's own has none
            assert found.setdefault(folder, path) == path, f"{folder} is another notebook's too"
    assert len(found) > 10


def test_longest_files_exist() -> None:
    assert [path for path in LONGEST if not (ROOT / path).is_file()] == []


def sources_with_names() -> list[Path]:
    kinds = ("drlib/**/*.py", "tests/**/*.py", "bench/**/*.py", "docs/*.md", "*.md", "notebooks/**/*.ipynb")
    return sorted(path for kind in kinds for path in ROOT.glob(kind) if ".venv" not in path.parts)


def test_dotted_name_in_prose_leads_to_a_module_or_what_it_holds() -> None:
    dead = [
        f"{path.relative_to(ROOT)}: {match[1]}"
        for path in sources_with_names()
        for match in DOTTED.finditer(path.read_text())
        if path != Path(__file__) and names_a_module(match[1]) and not resolves(match[1])
    ]
    assert dead == []


def test_architecture_page_has_every_package_in_the_order_of_its_layer() -> None:
    layers = next(contract["layers"] for contract in CONTRACTS if contract["type"] == "layers")
    page = (ROOT / "docs" / "architecture.md").read_text()
    listed = re.findall(r"^\| `drlib/([a-z]+)(?:\.py|/)` ", page, re.MULTILINE)
    assert listed == layers


def test_architecture_page_has_the_folders_as_their_packages_describe_them() -> None:
    """Run `python docs/make_folders.py` where this fails."""
    spec = spec_from_file_location("make_folders", ROOT / "docs" / "make_folders.py")
    assert spec is not None
    assert spec.loader is not None
    generator = module_from_spec(spec)
    spec.loader.exec_module(generator)
    text = (ROOT / "docs" / "architecture.md").read_text()
    assert generator.page(text) == text


def test_pure_modules_of_the_import_contract_exist() -> None:
    forbidden = next(contract for contract in CONTRACTS if contract["type"] == "forbidden")
    named = [name for name in forbidden["source_modules"] if "*" not in name]
    assert [name for name in named if find_spec(name) is None] == []


def test_decisions_page_names_code_and_tests_that_exist() -> None:
    page = (ROOT / "docs" / "decisions.md").read_text()
    decisions = re.split(r"^### ", page, flags=re.MULTILINE)[1:]
    incomplete = [
        d.splitlines()[0] for d in decisions if not re.search(r"\*\*Code:\*\* `.+`\. \*\*Test:\*\* `.+`\.", d)
    ]
    assert incomplete == []
    paths = re.findall(r"\*\*(?:Code|Test):\*\* `([^`]+)`", page)
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_architecture_page_names_deciding_modules_that_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    index = page.partition("## Where rules are decided")[2].partition("\n## ")[0]
    paths = re.findall(r"`([a-z_0-9/]+\.py)`", index)
    assert len(paths) > 20
    assert [path for path in paths if not (PACKAGE / path).exists()] == []
