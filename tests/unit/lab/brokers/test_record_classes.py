"""An archive of classes that is not whole is never put where brokers take it from."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from drlib.lab import jars
from drlib.lab.brokers.record_classes import taken


def test_archive_that_is_damaged_cut_or_absent_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "whole.jsa"
    command = [str(jars.java().path), f"-XX:ArchiveClassesAtExit={path}", "-XX:TieredStopAtLevel=1"]
    classpath = os.pathsep.join(map(str, jars.classpath("kafka")))
    subprocess.run(
        [*command, "-cp", classpath, "org.apache.kafka.tools.TopicCommand", "--help"],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert taken(path)
    whole = path.read_bytes()
    middle = len(whole) // 2
    for name, content in {
        "cut": whole[:middle],
        "changed": whole[:middle] + bytes(255 - byte for byte in whole[middle : middle + 64]) + whole[middle + 64 :],
        "empty": b"",
    }.items():
        (tmp_path / name).write_bytes(content)
        assert not taken(tmp_path / name), name
    assert not taken(tmp_path / "absent")
