"""Completion of the shells, without the network: what a key press asks, and what installing it writes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from repository_root import ROOT


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """An environment in which `drlib` is on the PATH, with an empty home directory."""
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "drlib"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m drlib.cli "$@"\n')
    script.chmod(0o755)
    (tmp_path / "home").mkdir()
    return {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "HOME": str(tmp_path / "home")}


def run(*command: str, env: dict[str, str]) -> str:
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


COMPLETED = [
    ("drlib fail", ["failover", "failback"]),
    ("drlib lab ", ["up", "status", "down"]),
    ("drlib lab up --se", ["--secured"]),
    ("drlib --vers", ["--version"]),
    ("drlib mirror f --log-format ", ["text", "json"]),
]


@pytest.mark.parametrize(("typed", "offered"), COMPLETED)
def test_bash_offers_what_may_follow(shell: dict[str, str], typed: str, offered: list[str]) -> None:
    words = " ".join(f"'{word}'" for word in typed.split(" "))
    program = (
        'eval "$(_DRLIB_COMPLETE=source_bash drlib)"\n'
        f"COMP_WORDS=({words}); COMP_CWORD={typed.count(' ')}\n"
        '_drlib_completion drlib; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    assert run("bash", "--norc", "-c", program, env=shell).split() == offered


@pytest.mark.parametrize(("typed", "offered"), COMPLETED)
def test_fish_and_zsh_are_offered_the_same_each_on_one_line(
    shell: dict[str, str], typed: str, offered: list[str]
) -> None:
    asked = {**shell, "_TYPER_COMPLETE_ARGS": typed, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    fish = run("drlib", env={**asked, "_DRLIB_COMPLETE": "complete_fish"})
    assert [line.split("\t")[0] for line in fish.splitlines()] == offered
    zsh = run("drlib", env={**asked, "_DRLIB_COMPLETE": "complete_zsh"})
    assert [line.split('"')[1] for line in zsh.splitlines() if '"' in line] == offered


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_line_of_the_documentation_prints_a_script_for_each_shell(shell: dict[str, str], name: str) -> None:
    script = run("drlib", env={**shell, "_DRLIB_COMPLETE": f"source_{name}"})
    assert f"_DRLIB_COMPLETE=complete_{name}" in script
    if shutil.which(name):
        run(name, "-n", "-c", script, env=shell)
    assert f"_DRLIB_COMPLETE=source_{name}" in (ROOT / "docs" / "commands.md").read_text()


def test_install_completion_writes_below_home_and_bash_takes_it(shell: dict[str, str], tmp_path: Path) -> None:
    run("bash", "--norc", "-c", "drlib --install-completion; true", env=shell)
    assert "drlib.sh" in (tmp_path / "home" / ".bashrc").read_text()
    shown = run(
        "bash", "--rcfile", str(tmp_path / "home" / ".bashrc"), "-c", "source ~/.bashrc; complete -p drlib", env=shell
    )
    assert "_drlib_completion drlib" in shown
