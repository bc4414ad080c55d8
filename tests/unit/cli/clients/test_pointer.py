"""`drlib pointer` for what it refuses, and on a pointer file alone."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command_line import drlib_here, error_line
from silent_clusters import silent_clusters

from drlib.cli.clients import pointer as cli
from drlib.client import pointer_copies, pointer_file, pointer_topic
from drlib.client.pointer import Pointer

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    with silent_clusters(tmp_path / "mm2.properties", "paris", "lyon") as path:
        yield path


@pytest.fixture
def drlib(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`drlib` in this process, which gives a silent cluster up soon: no answer will come later either."""
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(pointer_copies, "READ_S", 0.5)
    for asks in (pointer_copies.read_copies, pointer_topic.publish):
        monkeypatch.setitem(asks.__kwdefaults__ or {}, "timeout_s", 0.5)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        code = drlib_here(*arguments)
        return subprocess.CompletedProcess(arguments, code, *capsys.readouterr())

    return run


def test_pointer_show_without_an_answer_says_so(file: Path, drlib: Command) -> None:
    line = error_line(drlib("pointer", "show", str(file)), 11)
    assert "the pointer cannot be read" in line
    assert "Check that the brokers of paris run" in line, "what each error says is to be done, as of a wrong password"


def test_pointer_file_is_shown_moved_with_a_reason_and_shown_again(file: Path, tmp_path: Path, drlib: Command) -> None:
    path = tmp_path / "pointer.json"
    pointer_file.write_atomic(path, Pointer(3, "paris", "p:1", by="run 7"))
    shown = drlib("pointer", "show", str(file), "--pointer", str(path))
    assert shown.returncode == 11, "no cluster answered"
    assert len(re.findall(r"^\* +(?:paris|lyon) .*no answer", shown.stdout, re.MULTILINE)) == 2
    assert "All copies agree" not in shown.stdout
    assert "paris (p:1), version 3" in shown.stdout
    assert "by run 7" in shown.stdout
    move = ("pointer", "move", str(file), "lyon", "--pointer", str(path), "--yes", "lyon")
    assert "lyon does not answer" in error_line(drlib(*move), 11)
    assert pointer_file.read(path).active == "paris"
    moved = drlib(*move, "--force", "it starts")
    assert moved.returncode == 0
    assert "lyon did not answer. If a pointer of version 4 or above is there" in moved.stderr
    assert (
        f"drlib failover {file} 'paris->lyon'; positions only: drlib translate {file} --flow 'paris->lyon'."
        in moved.stderr
    )
    assert f"Only {path} can be written" in moved.stderr
    assert f"Version 4 (lyon) is on {path}." in moved.stdout
    for alias in ("paris", "lyon"):
        assert re.search(
            rf"^{alias} missed it: .*drlib pointer publish \S+ --pointer {path}$", moved.stdout, re.MULTILINE
        )
    again = json.loads(drlib("pointer", "show", str(file), "--pointer", str(path), "--json").stdout)
    assert (again["pointer"]["active"], again["pointer"]["version"], again["agree"]) == ("lyon", 4, False)
    assert set(again["silent"]) == {"paris", "lyon"}
    published = drlib("pointer", "publish", str(file), "--pointer", str(path))
    assert published.returncode == 3
    assert published.stdout.count("missed it") == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("rome",), "cluster rome: {} has paris, lyon."),
        (("lyon", "--yes", "paris"), "'paris' was given to confirm it. Give lyon."),
    ],
)
def test_pointer_move_that_is_not_meant_is_refused_before_anything_is_asked(
    file: Path, drlib: Command, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(pointer_copies, "ask_each", lambda *_: asked.append("asked"))
    assert said.format(file) in error_line(drlib("pointer", "move", str(file), *arguments), 2)
    assert not asked


def test_watch_of_a_file_that_never_was_a_pointer_says_so_and_waits_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pointer.json"
    seen: list[tuple[Pointer | None, str]] = []
    file.write_text("no pointer")
    monkeypatch.setattr(cli, "write_document", lambda _: None)

    class Enough(Exception):
        pass

    def line(pointer: Pointer | None, doubt: str, _: int) -> str:
        seen.append((pointer, doubt))
        if pointer is not None:
            raise Enough
        file.unlink()
        pointer_file.write_atomic(file, Pointer(1, "lyon", "l:1"))
        return ""

    with pytest.raises(Enough):
        cli._follow(pointer_file.PointerWatcher(file), line)
    (first, why), (second, doubt) = seen
    assert first is None
    assert "pointer.json" in why
    assert (second, doubt) == (Pointer(1, "lyon", "l:1"), "")
