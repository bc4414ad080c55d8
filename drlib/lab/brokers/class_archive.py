"""The broker's class-data archive: the classes of every start, read and verified once and mapped from then on.

Rules: it changes what a start costs and nothing else: a JVM takes it only where Java, its jars and their order are those it was
recorded with, and starts without it otherwise. It is a private file of this user, and there as a whole or not at all.
Measured on two cores: a start takes 1.7 s of CPU instead of 3.3 s; the file has 50 MB, and recording takes 4 s of CPU.
Not for: recording it (`drlib.lab.brokers.record_classes`); Spark, whose JVM writes none (`drlib.analysis.spark.session`).
"""

import hashlib
import os
from pathlib import Path

from drlib.files import cache_folder, stored_descriptor
from drlib.lab import jars


def archive() -> Path:
    """Where the archive for this Java and these jars is, or would be. Raises `MissingDependency`."""
    java, classpath = jars.java(), jars.classpath("kafka")
    known = [str(java.path), str(java.version), *map(str, classpath)]
    return cache_folder() / f"broker-{hashlib.sha256(os.pathsep.join(known).encode()).hexdigest()[:16]}.jsa"


def flags() -> tuple[str, ...]:
    """The JVM's option for the archive; none while there is no archive of this user. Raises `MissingDependency`."""
    path = archive()
    try:
        os.close(stored_descriptor(path, trusted=True))
    except OSError:
        return ()
    return (f"-XX:SharedArchiveFile={path}",)
