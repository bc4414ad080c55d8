"""What an application of a lesson needs of this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from drlib.errors import MissingDependency
from drlib.lab.clients import runtimes
from drlib.lab.lab import Lab
from drlib.training.academy.applications import JAVA, Application
from drlib.training.academy.testbed import LessonTestbed


def test_application_can_be_started_in_the_same_kernel_once_its_language_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    billing = Application(LessonTestbed(Lab(tmp_path), "L8", "0000"), "billing", JAVA)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    runtimes.forget()
    try:
        with monkeypatch.context() as without_java:
            without_java.setenv("PATH", str(tmp_path))
            with pytest.raises(MissingDependency, match="run this cell again"):
                billing.require()
        assert os.environ["PATH"] != str(tmp_path)
        billing.require()
    finally:
        runtimes.forget()
