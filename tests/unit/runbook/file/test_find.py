"""Runbooks by their path and by their name."""

from __future__ import annotations

from pathlib import Path

import pytest
from repository_root import ROOT

from drlib.errors import UsageError
from drlib.runbook.file import find


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with runbooks/own.yaml, and one below it, which is the working directory."""
    (tmp_path / "runbooks").mkdir()
    (tmp_path / "runbooks" / "own.yaml").touch()
    (tmp_path / "below" / "own").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "below")
    return tmp_path


@pytest.mark.parametrize("given", ["own", "elsewhere/own", "../runbooks/own"])
def test_find_name_leads_to_the_runbooks_here_or_above(place: Path, given: str) -> None:
    assert find.find(given).resolve() == place / "runbooks" / "own.yaml"


def test_find_name_of_a_shipped_runbook_leads_to_it_unless_there_is_an_own_one(place: Path) -> None:
    assert find.find("failover-drill") == ROOT / "runbooks" / "failover-drill.yaml"
    own = place / "runbooks" / "failover-drill.yaml"
    own.touch()
    assert find.find("failover-drill") == own
    assert find.known()[:2] == ("failover-drill", "own")
    assert find.known().count("failover-drill") == 1
    assert "nightly-audit" in find.known()


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("given", ["nowhere.yaml", "a/b.yml", "nothing", "own/nothing", "", "n" * 300, "..", "/"])
def test_find_what_is_not_there_is_returned_as_given(given: str) -> None:
    assert find.find(given) == Path(given)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            "nowhere/failover-drill.yaml",
            "nowhere/failover-drill.yaml: it does not exist. By its name: drlib run failover-drill",
        ),
        ("failover-drill.yaml", "failover-drill.yaml: it does not exist. By its name: drlib run failover-drill"),
        ("../runbooks/failover-drill.yaml", "it does not exist. By its name: drlib run failover-drill"),
        ("../runbooks/owm.yaml", "../runbooks/owm.yaml: it does not exist. Did you mean ../runbooks/own.yaml?"),
        ("nowhere/failover-dril", "nowhere/failover-dril: it does not exist. Did you mean failover-drill?"),
        (
            "failover-dril",
            "there is no runbook failover-dril: it is not among those in reach. Did you mean failover-drill?",
        ),
        ("../runbooks/xyz.yaml", "it does not exist; there are ../runbooks/own.yaml. Give one of these"),
        ("../runbooks", "../runbooks is a folder: a runbook is a file. Give one, such as ../runbooks/own.yaml."),
        ("..", ".. is a folder: a runbook is a file. Give one, such as own."),
        ("n" * 300, "there is no runbook nnn"),
    ],
)
def test_find_what_is_missing_is_refused_with_an_argument_that_can_be_given(given: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        find.refuse_missing(find.find(given))
    assert said in str(refused.value)


def test_find_path_of_a_file_is_that_file_whatever_its_suffix(place: Path) -> None:
    (place / "below" / "drill").touch()
    assert find.find("drill") == Path("drill")
