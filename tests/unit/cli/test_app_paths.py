"""Every command with every kind of path that is not what it asks for: one line, never a traceback."""

from __future__ import annotations

import os
import shlex
import sys
import typing
from pathlib import Path

import pytest
from repository_root import ROOT
from typer.core import TyperGroup

from drlib.cli import commands
from drlib.cli.app import load
from drlib.cli.process import run_command

BOOK = ROOT / "runbooks" / "rehearse-failover.yaml"
# Words of a command and its parameter -> a line with BAD in its place. F: a valid file, of clusters that do not answer.
FILES = {
    ("failover", "file"): "failover BAD",
    ("failback", "file"): "failback BAD",
    ("witness", "file"): "witness BAD --at 127.0.0.1:0",
    ("doctor", "file"): "doctor BAD",
    ("init", "file"): "init BAD",
    ("plan", "runbook"): "plan BAD F",
    ("plan", "file"): "plan BOOK BAD",
    ("run", "runbook"): "run BAD F",
    ("run", "file"): "run BOOK BAD",
    ("evidence", "file"): "evidence BAD --year 2026",
    ("runs settle", "file"): "runs settle BAD --flow LEFT->RIGHT --serves LEFT",
    ("schedule emit", "runbook"): "schedule emit BAD F --as cron --user daemon",
    ("schedule emit", "file"): "schedule emit BOOK BAD --as airflow",
    ("mirror", "file"): "mirror BAD",
    ("copy", "file"): "copy --from LEFT --to RIGHT --topics x BAD",
    ("copy", "consumer_config"): "copy --consumer.config BAD --producer.config F --include x",
    ("copy", "producer_config"): "copy --consumer.config CLIENT --producer.config BAD --include x",
    ("copy", "from_config"): "copy --from h:1 --to h:2 --topics x --from-config BAD",
    ("copy", "to_config"): "copy --from h:1 --to h:2 --topics x --to-config BAD",
    ("remirror", "file"): "remirror BAD orders",
    ("config explain", "file"): "config explain BAD",
    ("config import", "files"): "config import BAD",
    ("service systemd", "file"): "service systemd BAD",
    ("status", "file"): "status BAD",
    ("translate", "file"): "translate BAD --flow LEFT->RIGHT",
    ("translate", "offsets"): "translate F --flow LEFT->RIGHT --offsets BAD",
    ("bootstrap", "file"): "bootstrap BAD",
    ("inventory", "file"): "inventory BAD",
    ("producer-ids", "file"): "producer-ids BAD",
    ("witness", "certificate"): "witness F --certificate BAD --key F",
    ("witness", "key"): "witness F --certificate F --key BAD",
    ("service bootstrap", "file"): "service bootstrap BAD",
    ("pointer show", "file"): "pointer show BAD",
    ("pointer move", "file"): "pointer move BAD LEFT",
    ("pointer publish", "file"): "pointer publish BAD",
    ("pointer watch", "file"): "pointer watch BAD",
}
# Files that are written, and folders in which something is made.
WRITTEN = {
    ("mirror", "status_file"): "mirror F --status BAD",
    ("doctor", "textfile"): "doctor F --textfile BAD",
    ("copy", "status"): "copy --from h:1 --to h:2 --topics x --status BAD",
    ("failover", "runs_dir"): "failover F --runs-dir BAD",
    ("failback", "runs_dir"): "failback F --runs-dir BAD",
    ("init", "directory"): "init F --dir BAD",
    ("plan", "runs_dir"): "plan BOOK F --runs-dir BAD",
    ("run", "runs_dir"): "run BOOK --lab --runs-dir BAD",
    ("incident start", "runs_dir"): "incident start --seed 1 --runs-dir BAD",
    ("incident solve", "runs_dir"): "incident solve --seed 1 --runs-dir BAD",
    ("lab up", "directory"): "lab up --dir BAD",
    ("size", "measure"): "size --rate 5MB/s --rtt 20ms --bandwidth 1Gb/s --partitions 1 --measure BAD",
}
# Folders in which something is found.
FOLDERS = {
    ("abort", "run_folder"): "abort BAD",
    ("abort", "runs_dir"): "abort x --runs-dir BAD",
    ("run", "resume"): "run --resume BAD",
    ("run", "rollback"): "run --rollback BAD",
    ("run", "lab_dir"): "run BOOK --dry-run --lab-dir BAD",
    ("plan", "lab_dir"): "plan BOOK --lab-dir BAD",
    ("evidence", "runbooks"): "evidence F --year 2026 --runbooks BAD",
    ("runs", "runbooks"): "runs --check --runbooks BAD",
    ("runs", "runs_dir"): "runs --runs-dir BAD",
    ("runs report", "run"): "runs report BAD",
    ("runs report", "runs_dir"): "runs report x --runs-dir BAD",
    ("runs verify", "run"): "runs verify BAD",
    ("runs verify", "runs_dir"): "runs verify --runs-dir BAD",
    ("failover", "runbook"): "failover F --runbook BAD",
    ("failback", "runbooks"): "failback F --runbooks BAD",
    ("lab status", "directory"): "lab status --dir BAD",
    ("lab down", "directory"): "lab down --dir BAD",
    ("incident start", "lab_dir"): "incident start --seed 1 --lab-dir BAD",
    ("incident solve", "lab_dir"): "incident solve --seed 1 --lab-dir BAD",
    **{
        (f"incident {word}", name): f"incident {word} {more} {option} BAD"
        for word, more in (
            ("status", ""),
            ("act", "restart-broker LEFT"),
            ("diagnose", "slow-link"),
            ("hint", ""),
            ("finish", ""),
            ("reveal", ""),
            ("inject", "slow-link"),
            ("master", ""),
            ("debriefing", ""),
            ("end", ""),
        )
        for name, option in (("run", "--run"), ("runs_dir", "--runs-dir"))
    },
}
EMPTY_WHERE_MISSING = {FOLDERS["runs", "runs_dir"], FOLDERS["runs verify", "runs_dir"]}  # there is no run, then
# What is made of these is said where the clusters have been asked, or is a default when it is not there.
ELSEWHERE = {
    ("academy reset", "directory"): "nothing there is nothing to delete",
    ("academy status", "directory"): "no progress yet",
    ("bootstrap", "pointer"): "there may be none yet: it waits for it",
    ("bootstrap", "state"): "kept when the pointer was read",
    ("doctor", "runs"): "no drill yet",
    ("evidence", "out"): "written when the runs were read",
    ("evidence", "runs_dir"): "no run is no proof, and the package says so",
    ("runs report", "md"): "of a run that is verified",
    ("runs report", "pdf"): "of a run that is verified",
    ("init", "runs"): "for the doctor",
    ("inventory", "runs_dir"): "for a run that is named",
    ("notebook", "lab_dir"): "no lab runs there",
    ("pointer move", "pointer"): "with the copies of the clusters",
    ("pointer publish", "pointer"): "with the copies of the clusters",
    ("pointer show", "pointer"): "with the copies of the clusters",
    ("pointer watch", "pointer"): "in doubt until it can be read",
    ("schedule emit", "runs_dir"): "it is made by the first run",
    ("status", "runs"): "no run yet",
    ("status", "worker_file"): "no worker",
}


def parameters_with_paths() -> set[tuple[str, str]]:
    """The words of every command, and each of its parameters that is a path."""
    found = set()
    for name in commands.names():
        entry = commands.find(name)
        assert entry is not None
        loaded = load(entry)
        every = {name: loaded}
        if isinstance(loaded, TyperGroup):
            every |= {f"{name} {word}": each for word, each in loaded.commands.items()}
        for words, command in every.items():
            function = getattr(command.callback, "__wrapped__", None)
            hints = typing.get_type_hints(function) if function is not None else {}
            found |= {(words, parameter) for parameter, kind in hints.items() if "Path" in str(kind)}
    return found


def test_table_has_every_parameter_that_is_a_path() -> None:
    assert {*FILES, *WRITTEN, *FOLDERS, *ELSEWHERE} == parameters_with_paths()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "f.properties").write_text(
        "clusters = LEFT, RIGHT\nLEFT.bootstrap.servers = 127.0.0.1:1\nRIGHT.bootstrap.servers = 127.0.0.1:2\n"
        "LEFT->RIGHT.enabled = true\n"
    )
    (tmp_path / "client.properties").write_text("bootstrap.servers = 127.0.0.1:1\n")
    (tmp_path / "a-file").write_text("x")
    (tmp_path / "a-folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(line: str, bad: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Run it here; it has to end with a code of usage, and one printable line without a traceback."""
    names = {"BAD": bad, "F": "f.properties", "CLIENT": "client.properties", "BOOK": str(BOOK)}
    before = {path.name for path in Path().iterdir()}
    monkeypatch.setattr(sys, "argv", ["drlib", *(names.get(word, word) for word in shlex.split(line))])
    assert run_command() == 2, line
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    assert said.err.startswith("drlib: ")
    assert len(said.err.splitlines()) == 1, said.err
    assert said.err.rstrip("\n").isprintable()
    assert said.out == ""
    assert {path.name for path in Path().iterdir()} == before


HOSTILE = "a\x1b[31mb\x07\u202ec"
LONG = "n" * 300


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("bad", ["a-folder", "nowhere/x", "a-file/x", LONG, HOSTILE, "loop", ""], ids=ascii)
@pytest.mark.parametrize("line", FILES.values())
def test_path_that_is_no_file_is_refused_in_one_line(
    line: str, bad: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if bad == "a-folder" and "--offsets" in line:
        bad = "nowhere"  # a folder is a query's checkpoint
    refused(line, bad, monkeypatch, capsys)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("bad", ["a-file", "a-file/x", LONG, "loop/x"], ids=ascii)
@pytest.mark.parametrize("line", WRITTEN.values())
def test_path_that_cannot_be_written_is_refused_before_anything_starts(
    line: str, bad: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if "--status" in line or "--textfile" in line:  # a file that is there is replaced
        bad = {"a-file": "a-folder", "loop/x": "nowhere/x"}.get(bad, bad)
    refused(line, bad, monkeypatch, capsys)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("bad", ["a-file", "a-file/x", LONG, HOSTILE + "/x", "loop"], ids=ascii)
@pytest.mark.parametrize("line", FOLDERS.values())
def test_path_that_is_no_such_folder_is_refused_in_one_line(
    line: str, bad: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if line in EMPTY_WHERE_MISSING and bad != "a-file":
        bad = LONG
    refused(line, bad, monkeypatch, capsys)


@pytest.mark.usefixtures("place")
@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
@pytest.mark.parametrize(
    "line", ["mirror f.properties", "mirror F --status a-folder/x", "run BOOK --lab --runs-dir a-folder"]
)
def test_path_without_permission_is_refused_in_one_line(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("f.properties" if "f.prop" in line else "a-folder").chmod(0)
    refused(line, "", monkeypatch, capsys)
