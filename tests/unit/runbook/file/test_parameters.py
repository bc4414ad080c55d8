"""Parameters are refused, with what to do about it, before anything starts."""

from pathlib import Path
from typing import Any

import pytest
from tiny_notebook import write_notebook

from drlib.errors import UsageError
from drlib.runbook.file import parameters

CELL = """
run_dir: str = "runs"
pace: float = 2.0
count: int = 3
quick: bool = False
names: list[str] = ["a"]
sizes: list[int] = [1]
ceiling: float | None = None
password: str = ""
loose = 7
"""


@pytest.fixture
def known(tmp_path: Path) -> dict[str, parameters.Parameter]:
    return parameters.declared(write_notebook(tmp_path / "n.ipynb", parameters=CELL))


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ("pace=1.5", 1.5),
        ("pace=3", 3.0),
        ("count=-4", -4),
        ("quick=TRUE", True),
        ("quick=false", False),
        ("run_dir=a=b", "a=b"),
        ("run_dir=", ""),
        ("run_dir=5", "5"),
        ("names=a, b,", ["a", "b"]),
        ("names=", []),
        ("sizes=1,2", [1, 2]),
        ("ceiling=9", 9.0),
        ("loose=8", 8),
        ("password=env:KAFKA_PASSWORD", "env:KAFKA_PASSWORD"),
        ("password=file:/run/secrets/kafka", "file:/run/secrets/kafka"),
        ("password=", ""),
    ],
)
def test_parse_pair_is_read_as_the_parameters_type(
    known: dict[str, parameters.Parameter], pair: str, value: object
) -> None:
    (found,) = parameters.parse([pair], known).values()
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("paec=1", "Did you mean pace?"),
        ("zzz=1", "It takes run_dir, pace"),
        ("pace", "it has no '='"),
        ("pace=fast", "'fast' is not a float. Give a float, for example 2.0."),
        ("pace=nan", "is not a float"),
        ("pace=inf", "is not a float"),
        ("count=1.5", "'1.5' is not an int"),
        ("count=", "'' is not an int"),
        ("quick=1", "'1' is not a bool"),
        ("sizes=1,x", "'x' is not a list[int]"),
        ("ceiling=low", "'low' is not a float. Give a float."),
        ("password=hunter2", "looks like a secret"),
        ("password=env:", "looks like a secret"),
        ("run_dir=-----BEGIN RSA PRIVATE KEY-----", "looks like a secret"),
        ("run_dir=scram required username=a password=b", "looks like a secret"),
        ("names=https://me:hunter2@host/", "looks like a secret"),
    ],
)
def test_parse_wrong_pair_is_refused(known: dict[str, parameters.Parameter], pair: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        parameters.parse([pair], known)
    assert message in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_parse_pair_given_twice_is_refused(known: dict[str, parameters.Parameter]) -> None:
    with pytest.raises(UsageError, match="given twice"):
        parameters.parse(["pace=1", "pace=2"], known)


@pytest.mark.parametrize(
    "given",
    [
        {"pace": 1},
        {"pace": 1.5},
        {"count": 4},
        {"quick": True},
        {"names": []},
        {"sizes": [1, 2]},
        {"ceiling": 3.5},
        {"password": "env:P"},
    ],
)
def test_check_valid_values_are_unchanged(known: dict[str, parameters.Parameter], given: dict[str, Any]) -> None:
    assert parameters.check(given, known) == given


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"pace": "2"}, "'2' is not a float"),
        ({"pace": True}, "True is not a float"),
        ({"count": True}, "True is not an int"),
        ({"count": 1.0}, "1.0 is not an int"),
        ({"quick": 1}, "1 is not a bool"),
        ({"names": "a"}, "'a' is not a list[str]"),
        ({"names": [1]}, "is not a list[str]"),
        ({"sizes": [True]}, "is not a list[int]"),
        ({"run_dir": ["a"]}, "is not a str"),
        ({"cuont": 1}, "Did you mean count?"),
        ({"password": "hunter2"}, "looks like a secret"),
        ({"names": ["a", "token=hunter2"]}, "looks like a secret"),
    ],
)
def test_check_wrong_values_are_refused(
    known: dict[str, parameters.Parameter], given: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError) as refused:
        parameters.check(given, known)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("pace: float = 1 +", "line 1: invalid syntax"),
        ("import os\nhome: str = os.environ['HOME']", "line 2: the default of home is not a literal"),
        ("when: datetime = None", "when is not a str, int"),
        ("many: dict = {}", "many is not a str, int"),
        ("pace: float = 'fast'", "pace is not a str, int"),
        ("mixed: int | str = 1", "mixed is not a str, int"),
    ],
)
def test_declared_unreadable_parameters_cell_is_refused(tmp_path: Path, cell: str, message: str) -> None:
    notebook = write_notebook(tmp_path / "n.ipynb", parameters=cell)
    with pytest.raises(UsageError) as refused:
        parameters.declared(notebook)
    assert message in str(refused.value)
    assert refused.value.exit_code == 2


def test_declared_parameters_cell_is_parsed_and_never_run(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    notebook = write_notebook(tmp_path / "n.ipynb", parameters=f"open({str(trace)!r}, 'w')\npace: float = 1.0")
    assert list(parameters.declared(notebook)) == ["pace"]
    assert not trace.exists()


def test_declared_notebook_without_parameters_cell_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no cell is tagged 'parameters'"):
        parameters.declared(write_notebook(tmp_path / "n.ipynb", parameters=None))


@pytest.mark.parametrize("content", ["", "[]", "not a notebook", "{}"])
def test_declared_file_that_is_not_a_notebook_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "n.ipynb").write_text(content)
    with pytest.raises(UsageError, match=r"n\.ipynb"):
        parameters.declared(tmp_path / "n.ipynb")
