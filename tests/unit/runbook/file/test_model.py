"""A runbook is refused with the key that was probably meant."""

from pathlib import Path

import pytest
from repository_root import ROOT
from tiny_notebook import write_notebook

from drlib.errors import UsageError
from drlib.runbook.file.model import load

GOOD = """
name: tiny
title: A tiny one
notebook: notebooks/n.ipynb
parameters: {pace: 3.5, names: [a, b]}
objectives: {rto_seconds: 30, rpo_records: 0}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "notebooks").mkdir()
    write_notebook(tmp_path / "notebooks" / "n.ipynb")
    return tmp_path


def put(folder: Path, text: str) -> Path:
    path = folder / "tiny.yaml"
    path.write_text(text)
    return path


def test_runbook_is_loaded_with_its_notebook(folder: Path) -> None:
    book = load(put(folder, GOOD))
    assert (book.name, book.title) == ("tiny", "A tiny one")
    assert book.notebook == (folder / "notebooks" / "n.ipynb").resolve()
    assert book.parameters == {"pace": 3.5, "names": ["a", "b"]}
    assert (book.objectives.rto_seconds, book.objectives.rpo_records, book.objectives.rpo_seconds) == (30, 0, None)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("title:", "titel:", ["tiny.yaml: titel: there is no such key", "Did you mean title?"]),
        (GOOD, "name: tiny\n", ["tiny.yaml: title: it is missing"]),
        ("parameters:", "paramters:", ["tiny.yaml: paramters: there is no such key", "Did you mean parameters?"]),
        ("rpo_records", "rpo_record", ["objectives.rpo_record: there is no such key", "Did you mean rpo_records?"]),
        ("rto_seconds: 30", "rto_seconds: soon", ["objectives.rto_seconds", "valid number"]),
        ("name: tiny", "name: ../etc", ["tiny.yaml: name", "pattern"]),
        ("notebooks/n.ipynb", "notebooks/m.ipynb", ["tiny.yaml: notebook", "m.ipynb", "relative to the file"]),
        ("notebooks/n.ipynb", "n" * 300, ["tiny.yaml: notebook: it is no path"]),
        ("notebooks/n.ipynb", '"n\\0"', ["tiny.yaml: notebook: "]),
        ("notebooks/n.ipynb", "n/" * 3000, ["tiny.yaml: notebook: it is no path"]),
        ("objectives:", "objectives: [", ["is not YAML"]),
        (GOOD, "- a list", ["is no runbook"]),
        (GOOD, "", ["is no runbook"]),
        (GOOD, "!!python/object/apply:os.getcwd []", ["is not YAML"]),
    ],
)
def test_runbook_wrong_key_or_value_is_named(folder: Path, old: str, new: str, message: list[str]) -> None:
    with pytest.raises(UsageError) as refused:
        load(put(folder, GOOD.replace(old, new)))
    assert all(part in str(refused.value) for part in message), str(refused.value)


def test_runbook_missing_file_lists_the_known_ones(folder: Path) -> None:
    put(folder, GOOD)
    with pytest.raises(UsageError, match=r"tinny\.yaml: it does not exist\. Did you mean \S+/tiny\.yaml\?"):
        load(folder / "tinny.yaml")
    with pytest.raises(UsageError, match=r"there are \S+/tiny\.yaml\. Give one of these"):
        load(folder / "zzz.yml")


def test_shipped_runbooks_fit_their_notebooks() -> None:
    from drlib.runbook.run_parameters import resolved

    runbooks = sorted((ROOT / "runbooks").glob("*.yaml"))
    assert runbooks
    for path in runbooks:
        assert resolved(load(path), {})


def test_runbook_names_the_clusters_of_its_lab(folder: Path) -> None:
    assert load(put(folder, GOOD)).lab.to_start == ("LEFT", "RIGHT")
    assert load(put(folder, GOOD)).lab.clusters == ()  # none is asked of a lab that runs
    named = load(put(folder, GOOD + "lab:\n  clusters: [A, B, C]\n"))
    assert named.lab.clusters == named.lab.to_start == ("A", "B", "C")
    with pytest.raises(UsageError, match=r"lab\.cluster: there is no such key"):
        load(put(folder, GOOD + "lab:\n  cluster: [A, B]\n"))
