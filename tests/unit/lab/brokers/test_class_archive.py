"""Which archive of classes a broker is started with."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from drlib.lab import jars
from drlib.lab.brokers import class_archive


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRLIB_JARS", str(jars.store()))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "drlib").mkdir()
    return tmp_path


def test_brokers_start_without_an_archive_where_none_was_recorded(cache: Path) -> None:
    assert class_archive.flags() == ()


def test_archive_of_this_user_is_given_to_java_and_a_link_of_its_name_is_not(cache: Path) -> None:
    path = class_archive.archive()
    assert path.parent == cache / "drlib"
    path.write_bytes(b"")
    assert class_archive.flags() == (f"-XX:SharedArchiveFile={path}",)
    path.rename(cache / "elsewhere")
    path.symlink_to(cache / "elsewhere")
    assert class_archive.flags() == ()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_archive_of_another_user_is_not_given_to_java(cache: Path) -> None:
    path = class_archive.archive()
    path.write_bytes(b"")
    os.chown(path, 4711, 4711)
    assert class_archive.flags() == ()


def test_other_jars_or_another_java_have_another_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {class_archive.archive()}
    jar, java = jars.classpath("kafka")[1:], jars.java()
    monkeypatch.setattr(jars, "classpath", lambda kind: jar)
    found.add(class_archive.archive())
    monkeypatch.setattr(jars, "java", lambda: jars.Java(java.path, java.version + 1))
    found.add(class_archive.archive())
    assert len(found) == 3
