"""Parameters of a run that steps take for a secret are references, wherever they come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tiny_notebook import write_notebook

from drlib.drill.run.request import ClusterTarget
from drlib.errors import UsageError
from drlib.runbook import plans, run_parameters
from drlib.runbook.file.model import Runbook, load

CELL = 'run_dir: str = ""\nhost: str = "{host}"\nextra: list[str] = []\nlabel: str = "{label}"\npace: float = 2.0\n'


def book(folder: Path, *, host: str = "", label: str = "x", action: str = "hook.http", **more: Any) -> Runbook:
    """A drill of one step whose arguments `arguments` are given here, over a notebook that takes host, extra, label, pace."""
    write_notebook(folder / "n.ipynb", parameters=CELL.format(host=host, label=label))
    arguments = more.pop("arguments", {"url": "${host}", "headers": "${extra}", "timeout_seconds": "${pace}"})
    step = {"name": "tell", "title": "Tell", "action": action, "arguments": arguments}
    document = {"name": "n", "title": "N", "notebook": "n.ipynb", **more}
    document["drill"] = {"flow": "LEFT->RIGHT", "mode": "practice", "steps": [step]}
    (folder / "n.yaml").write_text(yaml.safe_dump(document))
    return load(folder / "n.yaml")


@pytest.mark.parametrize(
    "given",
    [
        {"host": "c4n4ry"},
        {"host": "h/c4n4ry"},
        {"host": "c4n4ry${env:HOOK}"},
        {"host": "env:C4N4RY"},
        {"extra": ["X-Key: c4n4ry"]},
        {"extra": ["Accept: text/plain", "X-Key: c4n4ry"]},
        {"extra": ["c4n4ry"]},
    ],
)
def test_parameter_that_a_step_takes_for_a_secret_is_refused_where_it_is_none(
    tmp_path: Path, given: dict[str, Any]
) -> None:
    with pytest.raises(UsageError, match="which may hold a secret, and parameters are written") as refused:
        run_parameters.resolved(book(tmp_path), given)
    assert "c4n4ry" not in str(refused.value).lower()
    with pytest.raises(UsageError):
        run_parameters.resolved(book(tmp_path, parameters=given), {})
    with pytest.raises(UsageError):
        run_parameters.known(book(tmp_path), given)
    with pytest.raises(UsageError):
        plans.keep(book(tmp_path), given, ClusterTarget(), runs_dir=tmp_path / "runs")
    assert not [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    "given",
    [
        {"host": "${env:HOOK}"},
        {"host": "https://h:8443"},
        {"extra": ["Authorization: Bearer ${env:TOKEN}", "Accept: text/plain"]},
        {"extra": []},
        {"label": "c4n4ry"},
        {"pace": 3.0},
    ],
)
def test_parameter_that_holds_no_secret_is_unchanged(tmp_path: Path, given: dict[str, Any]) -> None:
    assert run_parameters.resolved(book(tmp_path), given) == given
    assert run_parameters.known(book(tmp_path), {**given, "other": "of no notebook"}) == given
    kept = plans.keep(book(tmp_path), given, ClusterTarget(), runs_dir=tmp_path / "runs")
    assert "of no notebook" not in (kept / "run.json").read_text()


def test_parameter_of_a_program_is_refused_in_its_environment_only(tmp_path: Path) -> None:
    arguments = {"argv": "${extra}", "environment": "${label}"}
    drill = book(tmp_path, label="", action="hook.command", arguments=arguments)
    assert run_parameters.resolved(drill, {"extra": ["true", "c4n4ry"]})
    with pytest.raises(UsageError, match=r"parameter label: it is the argument 'environment' of hook\.command"):
        run_parameters.resolved(drill, {"label": "KEY=c4n4ry"})


@pytest.mark.parametrize("label", ["https://me:c4n4ry@h/", "token=c4n4ry", "Bearer c4n4ry"])
def test_default_of_the_notebook_that_looks_like_a_secret_is_refused(tmp_path: Path, label: str) -> None:
    with pytest.raises(UsageError, match="parameter label: its default looks like a secret") as refused:
        run_parameters.resolved(book(tmp_path, label=label), {})
    assert "c4n4ry" not in str(refused.value)


def test_default_that_a_step_takes_for_a_secret_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"parameter host: it is the argument 'url' of hook\.http"):
        run_parameters.resolved(book(tmp_path, host="https://h/c4n4ry"), {})
    assert run_parameters.resolved(book(tmp_path, host="https://h/c4n4ry"), {"host": "${env:HOOK}"})


@pytest.mark.parametrize(
    ("accepts", "given", "said"),
    [
        ({"pace": "not-negative"}, {"pace": -1.0}, "-1.0 is less than 0"),
        ({"label": ["x", "y"]}, {"label": "z"}, "Use x, y."),
        ({"label": "time"}, {"label": ""}, "Write 200ms"),
        ({"lable": "time"}, {}, "Did you mean label"),
    ],
)
def test_value_that_the_runbook_does_not_accept_is_refused(
    tmp_path: Path, accepts: dict[str, Any], given: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        run_parameters.resolved(book(tmp_path, accepts=accepts), given)


def test_value_that_the_runbook_accepts_is_taken(tmp_path: Path) -> None:
    accepted = book(tmp_path, accepts={"label": "optional-time", "pace": ["x", 3.0]})
    assert run_parameters.resolved(accepted, {"label": "", "pace": 3.0}) == {"label": "", "pace": 3.0}
