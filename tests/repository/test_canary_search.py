"""The search for secrets finds one that is planted, in each place where it looks."""

from __future__ import annotations

import base64
import gzip
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from canary_search import Canaries, Watch

CANARIES = Canaries.of("password", "webhook")


@pytest.mark.parametrize(
    "form",
    [
        lambda text: text.encode(),
        lambda text: json.dumps({"a": f'"{text}"\n'}).encode(),
        lambda text: quote(f"https://h/{text}?a=b", safe="").encode(),
        lambda text: text.upper().encode(),
        lambda text: text.encode().hex().encode(),
        lambda text: text.encode("utf-16"),
        lambda text: text.encode("utf-16-be"),
        *(lambda text, n=n: base64.b64encode(b"x" * n + text.encode() + b"y" * (n // 3)) for n in range(6)),
        lambda text: gzip.compress(f"a {text} b".encode()),
        lambda text: os.urandom(64) + text.encode() + os.urandom(64),
    ],
)
def test_secret_is_found_in_whatever_form_it_is_planted(form: object, tmp_path: Path) -> None:
    assert callable(form)
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "file.bin").write_bytes(form(CANARIES["webhook"]))
    (tmp_path / "other").write_bytes(form("c4n4ry0000000000000000"))
    assert CANARIES.found_below(tmp_path) == [f"{tmp_path}/deep/er/file.bin: webhook"]
    assert CANARIES.found_below(tmp_path, allowed=[tmp_path / "deep"]) == []


def test_secret_is_found_in_archives_and_names(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner", f"a {CANARIES['password']} b")
    (tmp_path / f"of-{CANARIES['webhook']}").mkdir()
    (tmp_path / "broken.zip").write_bytes(b"PK\x03\x04 and no archive")
    (tmp_path / "broken.gz").write_bytes(b"\x1f\x8b and no archive")
    found = CANARIES.found_below(tmp_path)
    assert [text.rpartition(": ")[2] for text in found] == ["password", "webhook"]


@contextmanager
def child(*arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A process that waits, and one that it has left behind; both run when it yields."""
    # A process that has just begun has an empty command line.
    waiting = "import sys; print('runs', flush=True); sys.stdin.read()"
    code = (
        f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {waiting!r}, *sys.argv[1:]]); "
        "sys.stdin.read() if 'stay' in sys.argv else None"
    )
    argv = [sys.executable, "-c", code, *arguments]
    with subprocess.Popen(
        argv, env={"PATH": os.environ["PATH"], **environment}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        assert process.stdin is not None
        process.stdin.close()


def watched(*arguments: str, **environment: str) -> Watch:
    watch = Watch(CANARIES, lambda line: {"password"} if b"may-have" in line else ())
    with child("stay", *arguments, **environment):
        watch.sample()
    return watch


def test_secret_is_found_on_command_lines_and_in_environments() -> None:
    assert watched("plain", "may-have", NAME=CANARIES["password"]).leaks == set()
    on_line = watched("may-have", f"--token={CANARIES['password']}").leaks
    assert len(on_line) == 2  # the child's and the grandchild's
    assert all(text.startswith("command line ") and text.endswith(": password") for text in on_line)
    assert {text.partition(" of ")[0] for text in watched("no", NAME=CANARIES["password"]).leaks} == {"environment"}
    assert {text.rpartition(": ")[2] for text in watched("may-have", NAME=CANARIES["webhook"]).leaks} == {"webhook"}


def test_secret_is_found_on_the_command_line_of_a_process_whose_parent_has_ended() -> None:
    watch = Watch(CANARIES, lambda _: ())
    with child("stay") as process:
        watch.sample()
        process.kill()
        process.wait(10)
        watch.sample()
        assert len([line for line in watch.lines if "stay" in line]) == 2, "other tests' processes are seen as well"
        assert watch._known


def test_secret_is_found_in_a_folder_while_processes_run(tmp_path: Path) -> None:
    (tmp_path / "block").write_text(CANARIES["password"])
    watch = Watch(CANARIES, lambda _: (), (tmp_path,))
    watch.sample()
    assert watch.leaks == {f"{tmp_path}/block: password"}
