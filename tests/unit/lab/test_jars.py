"""The lock is read strictly, and what is not there is named with its remedy."""

from __future__ import annotations

from pathlib import Path

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
    kinds=st.sets(st.sampled_from(["kafka", "mm2", "spark"]), min_size=1).map(frozenset),
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
    for kind in ("kafka", "mm2", "spark"):
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


def test_missing_counts_jar_of_wrong_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRLIB_JARS", str(tmp_path))
    spark = [jar for jar in jars.locked_jars() if "spark" in jar.kinds]
    for jar in spark:
        with (tmp_path / jar.file_name).open("wb") as handle:
            handle.truncate(jar.size)
    assert [path.name for path in jars.classpath("spark")] == [jar.file_name for jar in spark]
    with (tmp_path / spark[0].file_name).open("wb") as handle:
        handle.truncate(spark[0].size - 1)
    with pytest.raises(MissingDependency, match=spark[0].file_name):
        jars.classpath("spark")


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
