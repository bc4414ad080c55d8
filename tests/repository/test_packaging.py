"""What is delivered: dependencies that agree and are pinned, no registry's address, the public names, the notebooks."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import nbformat
import pytest
import yaml
from repository_root import ROOT

import drlib

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
LOCK = (ROOT / "requirements.lock").read_text()
NOTEBOOKS = sorted([*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "notebooks" / "academy").glob("*.ipynb")])
PUBLIC: list[str] = vars(drlib)["__getattr__"]("__all__")  # made at run time from `__init__.pyi`


def test_public_names_are_the_imports_of_the_stub() -> None:
    body = ast.parse((ROOT / "drlib" / "__init__.pyi").read_text()).body
    imports = [statement for statement in body if isinstance(statement, ast.ImportFrom)]
    assert {name.name: one.module for one in imports for name in one.names} == vars(drlib)["_public"]()


def test_public_names_are_found_without_a_parse_that_other_threads_could_disturb() -> None:
    """`ast.parse` fails in Python 3.11 ("recursion depth mismatch") while another thread imports."""
    code = "import sys; sys.modules['ast'] = None; import drlib; print(len(drlib.__all__))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert int(found.stdout) == len(PUBLIC) > 30


def test_commands_that_are_printed_or_documented_name_shipped_runbooks_which_are_found_everywhere() -> None:
    """`runbooks/` is beside the user's properties file, or nowhere: what is shipped is found by its name alone."""
    shipped = {path.stem for path in (ROOT / "runbooks").glob("*.yaml")}
    shown = [*(ROOT / "drlib").rglob("*.py"), *(ROOT / "docs").glob("*.md"), *(ROOT / "runbooks").glob("*.yaml")]
    by_path = re.compile(r"drlib (?:run|plan|schedule emit) runbooks/([a-z-]+)\.yaml")
    found = {(path.name, name) for path in [*shown, *NOTEBOOKS] for name in by_path.findall(path.read_text())}
    assert "failover-drill" in shipped
    assert not {(file, name) for file, name in found if name in shipped}


def normal(requirement: str) -> str:
    """The distribution's name as PEP 503 has it, without extras, versions and markers."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0]).lower()


def pins() -> list[tuple[str, str]]:
    """(name, all lines of its pin) of the lock."""
    blocks = re.split(r"\n(?=[A-Za-z0-9])", LOCK)
    return [(normal(block), block) for block in blocks if not block.startswith("#")]


def test_conda_has_the_same_python_and_a_java_that_kafka_runs_on() -> None:
    plain = [entry for entry in CONDA if isinstance(entry, str)]
    assert "python" + PROJECT["requires-python"] in plain
    java = next(entry for entry in plain if entry.startswith("openjdk"))
    assert int(java.removeprefix("openjdk>=")) >= 17


def test_conda_installs_the_lock_and_nothing_beside_it() -> None:
    assert [entry["pip"] for entry in CONDA if isinstance(entry, dict)] == [["-r requirements.lock", "--no-deps -e ."]]


def test_every_direct_dependency_is_pinned() -> None:
    extras = PROJECT["optional-dependencies"]
    wanted = {normal(r) for r in [*PROJECT["dependencies"], *(r for one in extras.values() for r in one)]} - {"drlib"}
    assert wanted - {name for name, _ in pins()} == set()


def test_every_pin_is_one_version_with_its_hashes() -> None:
    found = pins()
    assert len(found) > 100
    loose = [b.splitlines()[0] for _, b in found if not re.match(r"[\w.\[\]-]+==\S+", b) or "--hash=sha256:" not in b]
    assert loose == []


def test_tracked_files_name_no_registry_and_no_local_path() -> None:
    parts = [
        ("py", r"pi\.org"),
        ("python", r"hosted\.org"),
        ("repo1", r"\.maven"),
        ("repo", r"\.maven\.apache"),
        ("conda", r"\.anaconda\.org"),
        ("registry", r"\.npmjs"),
        ("art", "ifactory"),
        ("--index", "-url[ =]h"),
        ("--extra-index", "-url"),
        ("PIP_INDEX", "_URL"),
        ("--trusted", "-host"),
        ("/wo", "rk/"),
        ("/ro", "ot/"),
    ]
    forbidden = re.compile("|".join(first + second for first, second in parts))
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    tracked = [ROOT / name for name in names.split("\0") if name]
    assert len(tracked) > 100
    found = []
    for path in tracked:
        if path.is_file():
            text = path.read_text(errors="replace")
            found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in forbidden.finditer(text)]
    assert found == []


def test_public_names_are_unchanged() -> None:
    assert PUBLIC == [
        "Active",
        "ActiveCluster",
        "CommitOutcome",
        "ContinuousAudit",
        "DrlibError",
        "DuplicatesAudit",
        "Flow",
        "GroupTranslation",
        "NightlyAudit",
        "Objectives",
        "OffsetTranslation",
        "OrderedConsumer",
        "Scope",
        "Scorecard",
        "Segment",
        "Sizing",
        "TopicPartition",
        "Tour",
        "Translation",
        "TranslationKind",
        "Verdict",
        "active_config",
        "checkpoints_figure",
        "console",
        "duplicates_figure",
        "failover_figure",
        "lag_figure",
        "open_continuous_audit",
        "open_drill",
        "open_duplicates_audit",
        "open_incident",
        "open_lag_analysis",
        "open_lesson",
        "open_nightly_audit",
        "order_figure",
        "positions_figure",
        "publish_pointer",
        "pulse_figure",
        "translate_offsets",
    ]


@pytest.mark.parametrize("name", PUBLIC)
def test_public_name_resolves_to_its_object(name: str) -> None:
    found = getattr(drlib, name)
    assert found.__name__.removeprefix("drlib.") == name  # console is a package that is called
    assert callable(found)


def test_unknown_public_name_is_an_attribute_error() -> None:
    missing = "Failover"
    with pytest.raises(AttributeError, match=f"no attribute '{missing}'"):
        getattr(drlib, missing)


def test_entry_points_lead_somewhere() -> None:
    import_module("papermill")  # it is who loads its engines, while it is itself being imported
    targets = [*PROJECT["scripts"].values(), *PROJECT["entry-points"]["papermill.engine"].values()]
    for target in targets:
        module, _, name = target.partition(":")
        assert callable(getattr(import_module(module), name))


def test_notebooks_exist() -> None:
    assert NOTEBOOKS


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request: pytest.FixtureRequest) -> nbformat.NotebookNode:
    return nbformat.read(request.param, as_version=4)


def code_of(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.parametrize(
    "path", [path for path in NOTEBOOKS if path.name[:2] in {"05", "06", "08", "09", "10"}], ids=str
)
def test_notebook_for_own_clusters_speaks_of_no_lab_of_ours(path: Path) -> None:
    text = "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells)
    assert re.findall(r"\b(?:LEFT|RIGHT)\b|(?i:\b(?:practice|kill(?:ed|s)?)\b)", text) == []


def test_notebook_is_stored_without_outputs(notebook: nbformat.NotebookNode) -> None:
    assert [cell.source for cell in code_of(notebook) if cell.outputs or cell.execution_count is not None] == []


def test_notebook_cells_are_few_and_short_without_definitions(notebook: nbformat.NotebookNode) -> None:
    cells = code_of(notebook)
    assert 0 < len(cells) <= 12
    lines = {cell.source: len(cell.source.splitlines()) for cell in cells[1:]}  # the first is parameters, a line each
    assert [source for source, count in lines.items() if count > 10] == []
    assert len(cells[0].source.splitlines()) <= 15
    nodes = [node for cell in cells for node in ast.walk(ast.parse(cell.source))]
    own = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
    assert [ast.unparse(node) for node in nodes if isinstance(node, own)] == []


def test_notebook_first_cell_says_what_it_does(notebook: nbformat.NotebookNode) -> None:
    first = notebook.cells[0]
    assert first.cell_type == "markdown"
    missing = {"does", "changes", "takes", "abort"} - set(re.findall(r"\w+", first.source.lower()))
    assert missing == set()


def test_notebook_has_one_parameters_cell(notebook: nbformat.NotebookNode) -> None:
    tags = [cell.metadata.get("tags", []) for cell in notebook.cells]
    assert sum("parameters" in found for found in tags) == 1
    assert "parameters" in code_of(notebook)[0].metadata.get("tags", [])


def test_make_shell_has_drlib_on_its_path_and_nothing_of_make() -> None:
    typed = 'command -v drlib; echo "[$MAKEFLAGS$MAKELEVEL$PYTHONDONTWRITEBYTECODE]"; exit 3\n'
    # A make that runs these tests would have this one print directories and share its jobs.
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    env["SHELL"] = "/bin/sh"
    command = ["make", "--silent", "--old-file=.venv/.ready", "shell"]  # as it is set up, wherever the tests run
    done = subprocess.run(
        command, cwd=ROOT, env=env, input=typed, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.splitlines()[-2:] == [str(ROOT / ".venv" / "bin" / "drlib"), "[]"]


def test_readme_says_how_drlib_gets_on_the_path_before_anything_else() -> None:
    first = (ROOT / "README.md").read_text().partition("\n## ")[0]
    for words in ("make shell", "pipx install 'drlib[all]'", "uv tool install 'drlib[all]'"):
        assert words in first
    assert PROJECT["scripts"] == {"drlib": "drlib.cli:main"}
