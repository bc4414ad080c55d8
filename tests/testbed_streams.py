"""Kafka Streams for tests: `tests/java/Sums.java`, a running sum with exactly_once_v2.

Kafka's Streams library is downloaded at the first use; the program's stores are in memory.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from repository_root import ROOT

from drlib.lab import jars

STREAMS: Final = jars.Jar(
    f"org.apache.kafka:kafka-streams:{jars.KAFKA_VERSION}",
    "bd73f3805e116f711e8456ee89a8a5b43ff5dcf5a5bb865afae29deae89e7c4b",
    2277950,
    frozenset(),
)


def sums_command(bootstrap: str, application: str, folder: Path, source: str, target: str) -> list[str]:
    """Runs the program until its standard input ends."""
    jars.fetch([STREAMS])
    classpath = os.pathsep.join(map(str, (*jars.classpath("kafka"), jars.store() / STREAMS.file_name)))
    program = str(ROOT / "tests" / "java" / "Sums.java")
    return [str(jars.java().path), "-cp", classpath, program, bootstrap, application, str(folder), source, target]
