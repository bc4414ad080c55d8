"""The lock is read strictly, and what is not there is named with its remedy."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.errors import MissingDependency
from drlib.lab import jars

COORDINATES = st.from_regex(r"[a-z.]{1,20}:[a-z0-9-]{1,20}:[0-9.]{1,8}", fullmatch=True)
JARS = st.builds(
    jars.Jar,
    coordinate=COORDINATES,
    sha256=st.text("0123456789abcdef", min_size=64, max_size=64),
    size=st.integers(0, 2**40),
    kinds=st.sets(st.sampled_from(["kafka", "mm2", "streams", "spark"]), min_size=1).map(frozenset),
)


@given(st.lists(JARS))
def test_jar_lock_round_trip(written: list[jars.Jar]) -> None:
    assert jars.parse_lock(jars.render_lock(written)) == tuple(written)


@pytest.mark.parametrize("line", ["no lock", "xyz | 1 | kafka | a:b:1", f"{'0' * 64} | 1 | kafka | a:b"])
def test_jar_lock_invalid_line_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"not a line|unpack"):
        jars.parse_lock(line)


def test_spark_class_path_is_the_connector_alone() -> None:
    assert {jar.file_name for jar in jars.locked_jars() if "spark" in jar.kinds} == {
        "spark-sql-kafka-0-10_2.13-4.0.0.jar",
        "spark-token-provider-kafka-0-10_2.13-4.0.0.jar",
        "kafka-clients-3.9.0.jar",
        "commons-pool2-2.12.0.jar",
    }


def test_class_paths_hold_one_version_per_artifact() -> None:
    for kind in ("kafka", "mm2", "streams", "spark"):
        artifacts = [jar.coordinate.rpartition(":")[0] for jar in jars.locked_jars() if kind in jar.kinds]
        assert len(artifacts) == len(set(artifacts))


def test_broker_and_mirror_maker_have_one_version() -> None:
    versions = {
        jar.coordinate.rpartition(":")[2]
        for jar in jars.locked_jars()
        if "kafka" in jar.kinds and jar.coordinate.startswith("org.apache.kafka:")
    }
    assert versions == {jars.KAFKA_VERSION}


def test_classpath_missing_jar_names_make_setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRLIB_JARS", str(tmp_path))
    with pytest.raises(MissingDependency, match="make setup"):
        jars.classpath("kafka")


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with three jars of a lock of its own; returns the first one."""
    monkeypatch.setenv("DRLIB_JARS", str(tmp_path / "jars"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "jars").mkdir()
    lock = []
    for number in range(3):
        path = tmp_path / "jars" / f"j{number}-1.jar"
        path.write_bytes(bytes([number]) * 1000)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        lock.append(jars.Jar(f"g:j{number}:1", digest, 1000, frozenset({"kafka"})))
    monkeypatch.setattr(jars, "locked_jars", lambda: tuple(lock))
    return tmp_path / "jars" / "j0-1.jar"


def overwritten(path: Path) -> None:
    """Other bytes in the same file, with its size and its modification time."""
    before = path.stat()
    with path.open("r+b") as file:
        file.write(b"evil")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def exchanged(path: Path) -> None:
    """Another file of the same name, size and modification time."""
    before = path.stat()
    other = path.with_name("other")
    other.write_bytes(b"x" * before.st_size)
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)


def linked(path: Path) -> None:
    path.rename(path.with_name("theirs"))
    path.symlink_to("theirs")


def piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


ALTERED: dict[str, Callable[[Path], object]] = {
    "overwritten": overwritten,
    "exchanged": exchanged,
    "swapped with another jar": lambda p: p.with_name("j1-1.jar").replace(p),
    "cut": lambda p: os.truncate(p, 999),
    "longer": lambda p: os.truncate(p, 1001),
    "huge": lambda p: os.truncate(p, 1 << 40),
    "missing": Path.unlink,
    "link to itself under another name": linked,
    "pipe": piped,
}


@pytest.mark.parametrize("known", [False, True], ids=["first start", "digests kept"])
@pytest.mark.parametrize("case", ALTERED)
def test_classpath_altered_jar_is_refused_by_name(stored: Path, case: str, known: bool) -> None:
    if known:
        assert len(jars.classpath("kafka")) == 3
    ALTERED[case](stored)
    with pytest.raises(MissingDependency, match=r"altered: j0-1\.jar is not in"):
        jars.classpath("kafka")


def test_classpath_reads_a_jar_once_and_keeps_its_digest_privately(stored: Path, hashed: list[object]) -> None:
    for _ in range(3):
        assert [path.name for path in jars.classpath("kafka")] == ["j0-1.jar", "j1-1.jar", "j2-1.jar"]
    assert len(hashed) == 3
    kept = stored.parents[1] / "cache" / "drlib" / "jar-digests.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    stored.touch()
    jars.classpath("kafka")
    assert len(hashed) == 4


@pytest.mark.parametrize(
    "spoil",
    [
        lambda p: p.write_text("{"),
        lambda p: p.write_text('{"a": 1}'),
        lambda p: os.truncate(p, 1 << 40),
        linked,
        piped,
    ],
    ids=["cut", "another document", "huge", "link", "pipe"],
)
def test_classpath_kept_digests_that_drlib_did_not_write_are_not_believed(
    stored: Path, hashed: list[object], spoil: Callable[[Path], object]
) -> None:
    jars.classpath("kafka")
    kept = stored.parents[1] / "cache" / "drlib" / "jar-digests.json"
    spoil(kept)
    hashed.clear()
    jars.classpath("kafka")
    assert len(hashed) == 3
    assert kept.is_file()
    assert not kept.is_symlink()


def test_classpath_kept_digests_of_another_user_are_not_believed(
    stored: Path, hashed: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    jars.classpath("kafka")
    hashed.clear()
    kept, me, real = stored.parents[1] / "cache" / "drlib" / "jar-digests.json", os.geteuid(), os.fstat

    def fstat(descriptor: int) -> Any:
        found = real(descriptor)
        if found.st_ino != kept.stat().st_ino:
            return found
        return SimpleNamespace(st_mode=found.st_mode, st_uid=me + 7, st_size=found.st_size)

    monkeypatch.setattr("os.fstat", fstat)
    jars.classpath("kafka")
    assert len(hashed) == 3


def test_classpath_without_a_place_for_digests_is_checked_all_the_same(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    assert len(jars.classpath("kafka")) == 3
    overwritten(stored)
    with pytest.raises(MissingDependency, match="altered"):
        jars.classpath("kafka")


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """One entry for each jar whose bytes were read."""
    found: list[object] = []
    real = hashlib.file_digest

    def file_digest(file: Any, name: str) -> object:
        found.append(file)
        return real(file, name)

    monkeypatch.setattr("hashlib.file_digest", file_digest)
    return found


def launcher(folder: Path, says: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    path = folder / "bin" / "java"
    path.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    path.chmod(0o700)
    return path


def test_java_prefers_java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = launcher(tmp_path, 'openjdk version "21.0.4" 2024-07-16')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert jars.java() == jars.Java(path, 21)


def test_java_too_old_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher(tmp_path, 'java version "1.8.0_392"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingDependency, match=r"too old.*Install a Java 17"):
        jars.java()


def test_java_missing_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingDependency, match="Java is missing"):
        jars.java()


@pytest.mark.parametrize(
    ("said", "release"),
    [('openjdk version "17.0.15" 2025-04-15', 17), ('java version "1.8.0_392"', 8), ('version "22"', 22), ("no", None)],
)
def test_java_feature_release_is_parsed(said: str, release: int | None) -> None:
    assert jars.java_feature_release(said) == release
