"""How JupyterLab is started: this machine only, no requests to a network, no user's own settings changed."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from drlib.cli.notebook import lab_line
from drlib.errors import UsageError
from drlib.lab.brokers.cluster import link_names, new_specs
from drlib.lab.processes import ProcessRegistry
from drlib.ui import jupyterlab


def test_jupyterlab_command_listens_on_localhost_and_encrypts_kernels(tmp_path: Path) -> None:
    line = jupyterlab.command(8901, browser=False, state=tmp_path, run=tmp_path, arguments=["--debug"])
    for wanted in ("--ServerApp.ip=127.0.0.1", "--ServerApp.port=8901", "--KernelManager.transport_encryption=auto"):
        assert wanted in line
    assert line[-1] == "--debug"
    assert not [word for word in line if "token" in word.lower()], (
        "its token is the server's own and in no command line"
    )


def test_jupyterlab_uses_its_own_folders(tmp_path: Path) -> None:
    found = jupyterlab.environment(tmp_path / "state", tmp_path / "run")
    assert found["JUPYTER_CONFIG_DIR"] == str(tmp_path / "state" / "config")
    line = jupyterlab.command(1, browser=False, state=tmp_path / "state", run=tmp_path / "run")
    dirs = dict(word.removeprefix("--LabApp.").split("=", 1) for word in line if "_dir=" in word)
    assert {name: Path(one).parent.name for name, one in dirs.items()} == {
        "app_settings_dir": "state",
        "user_settings_dir": "state",
        "workspaces_dir": "run",
    }


def test_jupyterlab_news_are_off_by_default(tmp_path: Path) -> None:
    jupyterlab.prepare(tmp_path)
    jupyterlab.prepare(tmp_path)
    found = json.loads((tmp_path / "application" / "overrides.json").read_text())
    assert found["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"


def test_find_project_searches_upwards_and_fails_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "notebooks").mkdir()
    with pytest.raises(UsageError, match="00_start_here"):
        jupyterlab.find_project(tmp_path / "notebooks")
    (tmp_path / "notebooks" / "00_start_here.ipynb").touch()
    assert jupyterlab.find_project(tmp_path / "notebooks") == tmp_path


def test_lab_line_without_a_lab_names_the_command(tmp_path: Path) -> None:
    output = lab_line(tmp_path / ".lab")
    assert "drlib lab up" in output
    assert "\n" not in output


def test_lab_line_of_a_lab_without_a_process_is_that_of_none_as_notebooks_start_another(tmp_path: Path) -> None:
    written(tmp_path)
    assert lab_line(tmp_path) == lab_line(tmp_path / "none").replace(str(tmp_path / "none"), str(tmp_path))


@pytest.mark.parametrize(
    ("owner", "advice"),
    [
        ("", "Restart it: `drlib lab down --dir {lab}`, then `drlib lab up --dir {lab}`"),
        ("lessons", "from its top: it continues"),
    ],
)
def test_lab_line_of_a_cluster_that_a_lesson_has_killed_does_not_say_to_take_the_lab_down(
    owner: str, advice: str, tmp_path: Path
) -> None:
    written(tmp_path, owner)
    registry = ProcessRegistry(tmp_path)
    registry.start(
        "RIGHT-1", [sys.executable, "-c", "import signal; signal.pause()"], log=tmp_path / "log", die_with_parent=True
    )
    try:
        line = lab_line(tmp_path)
    finally:
        registry.stop("RIGHT-1")
    assert "LEFT is not running" in line
    assert advice.format(lab=tmp_path) in line


def written(root: Path, owner: str = "") -> None:
    """The state of a lab whose cluster LEFT does not run."""
    ports = dict.fromkeys(link_names("LEFT", 1), 1)
    specs = [asdict(spec) for spec in new_specs("LEFT", str(root), ports, 1)]
    (root / "state.json").write_text(json.dumps({"clusters": {"LEFT": specs}, "extra": {}, "owner": owner}))
