"""Printing: which program, with which options, and what is said where it fails."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from drlib.errors import MissingDependency, UsageError
from drlib.ui.report import pdf


def fake(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str, name: str = "chromium") -> Path:
    """A program of that name which is the only one on PATH; `$OUT` is where the PDF belongs."""
    tools = folder / "bin"
    tools.mkdir()
    program = tools / name
    out = 'for a in "$@"; do case "$a" in --print-to-pdf=*) OUT="${a#--print-to-pdf=}";; esac; done'
    program.write_text(f"#!/bin/sh\n{out}\n{script}\n")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", str(tools))
    return program


def test_browser_without_any_names_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingDependency, match=r"no Chromium is on PATH.*apt-get install chromium"):
        pdf.write_pdf("<p>", tmp_path / "out.pdf")
    assert not (tmp_path / "out.pdf").exists()


def test_write_pdf_replaces_the_file_with_what_the_browser_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = fake(tmp_path, monkeypatch, 'printf \'%%PDF-1.7 %s\' "$SECRET" > "$OUT"', "google-chrome")
    monkeypatch.setenv("SECRET", "hunter2")
    assert pdf.browser() == str(program)
    pdf.write_pdf("<p>", tmp_path / "out.pdf")
    assert (tmp_path / "out.pdf").read_bytes() == b"%PDF-1.7 "  # the browser does not get drlib's environment


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exit 3", "no page was written"),
        ('printf nothing > "$OUT"', "what it wrote is no PDF"),
        ("printf '%%PDF-' > \"$OUT\"; exit 3", "exit code 3"),
    ],
)
def test_write_pdf_of_a_failed_browser_is_an_error_and_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    fake(tmp_path, monkeypatch, script)
    (tmp_path / "out.pdf").write_bytes(b"old")
    with pytest.raises(UsageError, match=why):
        pdf.write_pdf("<p>", tmp_path / "out.pdf")
    assert (tmp_path / "out.pdf").read_bytes() == b"old"


def test_options_reach_no_network_and_use_a_profile_of_their_own(tmp_path: Path) -> None:
    given = pdf.options(tmp_path, tmp_path / "x.pdf")
    assert {"--headless", "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={tmp_path / 'profile'}"} <= set(
        given
    )
    assert ("--no-sandbox" in given) is (os.geteuid() == 0)
