"""Whose lab it is: kept in its state, for every process that attaches."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from written_lab import written_lab

from drlib.errors import UsageError
from drlib.lab.brokers.security import LabSecurity
from drlib.lab.lab import Lab


@pytest.mark.parametrize(("kept", "owner"), [({}, ""), ({"owner": "lessons"}, "lessons")])
def test_attached_lab_knows_who_is_to_take_it_down(kept: dict[str, str], owner: str, tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text(json.dumps({"clusters": {}, "extra": {}, **kept}))
    assert Lab.attach(tmp_path).owner == owner


def test_lab_that_runs_keeps_its_owner_whoever_attaches(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text(json.dumps({"clusters": {}, "extra": {}}))
    registry = Lab(tmp_path).registry
    registry.start("proxy", [sys.executable, "-c", "import time; time.sleep(60)"], log=tmp_path / "log")
    try:
        lab, started = Lab.attach_or_up(tmp_path, owner="lessons")
        assert (lab.owner, started) == ("", False)
    finally:
        registry.stop_all(deadline_s=5.0)


def test_lab_that_is_up_is_not_started_again_and_says_that_it_can_be_used(tmp_path: Path) -> None:
    registry = Lab(tmp_path).registry
    registry.start("proxy", [sys.executable, "-c", "import time; time.sleep(60)"], log=tmp_path / "log")
    try:
        with pytest.raises(UsageError, match=f"Use it as it is, or first: drlib lab down --dir {tmp_path}"):
            Lab(tmp_path).up()
    finally:
        registry.stop_all(deadline_s=5.0)


def test_worker_that_outlived_its_lab_makes_none_and_ends_when_it_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first kernel started the lab and was killed with it; what a later kernel had started lived on."""
    written_lab(tmp_path, ("LEFT", "RIGHT"))
    registry = Lab(tmp_path).registry
    registry.start("hello-mirror", [sys.executable, "-c", "import time; time.sleep(60)"], log=tmp_path / "log")
    started: list[bool] = []

    def start_proxy(lab: Lab, _: object) -> None:
        started.append(lab.registry.alive("hello-mirror"))
        raise UsageError("here", "the test ends", "")

    monkeypatch.setattr(Lab, "_start_proxy", start_proxy)
    try:
        with pytest.raises(UsageError, match="the test ends"):
            Lab.attach_or_up(tmp_path)
        assert started == [False], "the lab is started, and the worker of the former one has ended"
    finally:
        registry.stop_all(deadline_s=5.0)


@pytest.mark.parametrize(
    ("left_behind", "asked", "why"),
    [
        ({}, {"needed": ("LEFT", "RIGHT")}, "has no cluster LEFT, RIGHT: it has paris, lyon"),
        ({}, {"security": LabSecurity()}, "its clusters are not secured as they have to be here"),
        ({"security": {}}, {"security": LabSecurity(protocol="SSL")}, "are not secured as they have to be here"),
    ],
)
def test_lab_that_was_left_behind_is_refused_where_its_clusters_are_others(
    left_behind: dict[str, Any], asked: dict[str, Any], why: str, tmp_path: Path
) -> None:
    written_lab(tmp_path, ("paris", "lyon"), **left_behind)
    with pytest.raises(UsageError, match=why):
        Lab.attach_or_up(tmp_path, **asked)
    assert not Lab(tmp_path).registry.records(), "nothing was started"


def test_folder_that_was_there_is_private_once_it_is_a_labs(tmp_path: Path) -> None:
    root = tmp_path / "lab"
    root.mkdir(mode=0o755)
    Lab(root)._claim_folder()
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
