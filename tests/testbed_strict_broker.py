"""A broker whose policies for new topics and their settings are those of `tests/java/StrictPolicy.java`, as managed services
have them."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

from repository_root import ROOT

from drlib.lab import jars
from drlib.lab.brokers.broker import Broker

SOURCE = ROOT / "tests" / "java" / "StrictPolicy.java"
MANIFEST = "Manifest-Version: 1.0\nPremain-Class: StrictPolicy\n\n"


def restart_strict(broker: Broker, folder: Path, *, settings: str = "", all_topics: bool = False) -> None:
    """Start the broker again with the policy: new topics with one of `settings` are refused, or all of them."""
    classpath = os.pathsep.join(map(str, jars.classpath("kafka")))
    subprocess.run(["javac", "-cp", classpath, "-d", str(folder), str(SOURCE)], check=True, timeout=120)
    agent = folder / "policy.jar"
    with zipfile.ZipFile(agent, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", MANIFEST)
        for compiled in folder.glob("StrictPolicy*.class"):
            jar.write(compiled, compiled.name)
    names = {"create.topic.policy.class.name": "StrictPolicy", "alter.config.policy.class.name": "StrictPolicy$Alter"}
    policy = {**names, "strict.settings": settings, "strict.all": str(all_topics).lower()}
    broker.stop()
    broker.prepare(policy)
    broker.launch([f"-javaagent:{agent}"])
    broker.wait_ready(90)
