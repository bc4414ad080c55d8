"""Kafka Streams for tests: the lab's `StreamsClient.java`, a running sum with exactly_once_v2."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from drlib.lab.clients import runtimes


def sums_command(bootstrap: str, application: str, folder: Path, source: str, target: str) -> list[str]:
    """Runs the program until SIGTERM. Its history and its state's folder are in `folder`."""
    folder.mkdir(exist_ok=True)
    history = folder / "history.jsonl"
    client = runtimes.Client("streams", "consume", application, "cluster", bootstrap, (source,), history, 0.0)
    return runtimes.command(dataclasses.replace(client, output=target))
