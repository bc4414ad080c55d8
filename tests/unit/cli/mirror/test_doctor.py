"""`drlib doctor` and `drlib status`: options that cannot count, or have no meaning, are refused before a cluster is asked."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from command_line import drlib_here

CLUSTERS = """clusters = A, B
A.bootstrap.servers = 127.0.0.1:1
B.bootstrap.servers = 127.0.0.1:2
A->B.enabled = true
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["drlib"])
    (tmp_path / "mm2.properties").write_text(CLUSTERS)
    return "mm2.properties"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("doctor", "--role", "drill"), "--role: they are for the commands of --rights. Give --rights as well."),
        (("doctor", "--principal-audit", "User:x"), "--principal-audit: they are for"),
        (("doctor", "--every", "5m"), "--every: it is how often --metrics checks. Give --metrics as well."),
        (("doctor", "--rights", "--every", "5m"), "--every: it is how often --metrics checks."),
        (("doctor", "--rights", "--principal-mirror", "foo"), "it is not TYPE:NAME. Write User:foo."),
        (("doctor", "--rights", "--principal-drill", ":foo"), "--principal-drill ':foo' is no principal"),
        (("doctor", "--rights", "--principal-drill", ""), "Write User:NAME."),
        (("doctor", "--at", "abc"), "--at 'abc' is not an address: it is not HOST:PORT. Write 127.0.0.1:9464"),
        (("status", "--at", "foo"), "--at 'foo' is not an address: it is not HOST:PORT. Write 127.0.0.1:9464"),
        (("status", "--at", "h:0"), "--at 'h:0' is not an address"),
    ],
)
def test_option_that_cannot_count_is_refused(
    file: str, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert drlib_here(*words, file) == 2
    output = capsys.readouterr()
    assert said in output.err
    assert output.out == ""


def test_rights_are_those_of_the_principal_that_is_given(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert drlib_here("doctor", file, "--rights", "--role", "mirror", "--principal-mirror", "User:CN=foo") == 0
    assert "--allow-principal User:CN=foo " in capsys.readouterr().out
