"""The README's first hour, its commands as written: each ends as the line says.

The lesson is passed by keyboard alone in `tests/integration/training/test_lessons_browser.py`; here its notebook is served.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from fix_engine import commit, create_topic, produce, wait_for
from repository_root import ROOT

from drlib.lab.lab import Lab
from drlib.training.incidents import store
from drlib.training.incidents.incident import Incident

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def commands() -> dict[str, str]:
    """The README's commands by their first words, as written, with what it says that each shows."""
    section = (ROOT / "README.md").read_text().partition("\n## The first hour\n")[2].partition("\n## ")[0]
    lines = [re.split(r"\s+# ", line.strip(), maxsplit=1) for line in section.splitlines() if line.startswith("    ")]
    assert all(len(line) == 2 for line in lines), "each line says what it shows"
    return {command.removeprefix("drlib ").partition(" --")[0].partition(" FILE")[0]: command for command, _ in lines}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for folder in ("notebooks", "runbooks"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns(".*"))
    return tmp_path


@pytest.fixture
def environment() -> Mapping[str, str]:
    """`drlib` on the PATH, as `make shell` has it; a browser that is opened is none."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "BROWSER": "true"}


def shell(command: str, place: Path, environment: Mapping[str, str], *, code: int = 0) -> str:
    argv = ["bash", "-c", command]
    done = subprocess.run(argv, cwd=place, env=environment, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == code, done.stdout[-4000:] + done.stderr[-4000:]
    assert "Traceback" not in done.stdout + done.stderr
    return done.stdout


def test_first_hour_has_its_parts_in_their_order() -> None:
    assert list(commands()) == [
        "run failover-drill",
        "mirror",
        "doctor",
        "run rehearse-failover",
        "notebook",
        "incident start",
        "incident status",
        "incident finish",
    ]
    assert "--metrics" in commands()["mirror"], "without it the doctor does not know the worker's faults"


def test_first_drill_of_the_first_hour_passes_and_names_its_report(place: Path, environment: Mapping[str, str]) -> None:
    shown = shell(commands()["run failover-drill"], place, environment)
    assert re.search(r"\bPASS\b", shown)
    report = Path(shown.rpartition("Report: ")[2].split("\n")[0].strip())
    assert (place / report).is_file()


@pytest.fixture
def own(place: Path) -> Iterator[Path]:
    """The properties file of two clusters with a topic and a group that reads it."""
    with Lab(place / ".lab") as lab:
        left = lab.clusters["LEFT"].bootstrap
        create_topic(left, "flights-own", 3)
        produce(left, "flights-own", 300, partitions=3)
        commit(left, "readers", "flights-own", 40)
        yield lab.write_properties()


def test_own_clusters_of_the_first_hour_are_mirrored_ready_and_rehearsed(
    own: Path, place: Path, environment: Mapping[str, str]
) -> None:
    said = {name: line.replace("FILE", str(own)) for name, line in commands().items()}
    assert said["mirror"].endswith("&")
    log = place / "mirror.log"
    with log.open("w") as file:
        mirror = subprocess.Popen(
            ["bash", "-c", f"exec {said['mirror'].removesuffix('&')}"],
            cwd=place, env=environment, stdout=file, stderr=file,
        )  # fmt: skip
    try:
        wait_for("the mirror says that it runs", lambda: "Worker running" in log.read_text(), 60)
        wait_for("the doctor knows it", lambda: "READY" in asked(said["doctor"], place, environment), 60)
        assert re.search(r"READY .* score \d+ of 100", shell(said["doctor"], place, environment))
        assert re.search(r"\bPASS\b", shell(said["run rehearse-failover"], place, environment))
    finally:
        mirror.send_signal(signal.SIGTERM)
        mirror.wait(60)
    assert mirror.returncode == 0


def asked(command: str, place: Path, environment: Mapping[str, str]) -> str:
    argv = ["bash", "-c", command]
    return subprocess.run(argv, cwd=place, env=environment, capture_output=True, text=True, check=False).stdout


def test_notebook_of_the_first_hour_serves_the_first_lesson(place: Path, environment: Mapping[str, str]) -> None:
    own_state = {**environment, "XDG_STATE_HOME": str(place / "state")}
    argv = ["bash", "-c", f"exec {commands()['notebook']}"]
    with subprocess.Popen(
        argv, cwd=place, env=own_state, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        try:
            assert server.stdout is not None
            at = urlsplit(server.stdout.readline().strip())
            lesson = f"http://{at.netloc}/api/contents/notebooks/academy/L0_what_a_flow_is.ipynb?content=0&{at.query}"
            with urllib.request.urlopen(lesson, timeout=20) as answer:
                assert answer.status == 200
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(60)
    assert server.returncode == 0


def test_incident_of_the_first_hour_is_solved_for_a_score(place: Path, environment: Mapping[str, str]) -> None:
    shell(commands()["incident start"], place, environment)
    incident = store.find(place / "runs")
    try:
        wait_for("the fault is there", lambda: bool(incident.record.injected_causes()), 90)
        (injected,) = incident.record.injected_causes()
        named = shell("drlib incident list", place, environment)
        assert injected.cause in named
        wait_for("it shows", lambda: has_symptom(incident), 60)
        assert "ymptom" in shell(commands()["incident status"], place, environment)
        shell("drlib incident act acknowledge", place, environment)
        shell(f"drlib incident diagnose {injected.cause}", place, environment)
        for move in injected.repair:
            assert str(move).split()[0] in named
            shell(f"drlib incident act {move}", place, environment)
        wait_for("it has recovered", lambda: incident.unresolved() == (), 90)
        assert "of 100 points" in shell(commands()["incident finish"], place, environment)
    finally:
        incident.close()


def has_symptom(incident: Incident) -> bool:
    return bool(incident.status()[1])
