"""A mirror file of two clusters that do not answer."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def silent_clusters(path: Path, source: str, target: str) -> Iterator[Path]:
    """Write the file; inside, the clusters' ports are bound without a listener, so that no other process takes them."""
    with socket.socket() as one, socket.socket() as two:
        for held in (one, two):
            held.bind(("127.0.0.1", 0))
        path.write_text(
            f"clusters = {source}, {target}\n{source}.bootstrap.servers = 127.0.0.1:{one.getsockname()[1]}\n"
            f"{target}.bootstrap.servers = 127.0.0.1:{two.getsockname()[1]}\n{source}->{target}.enabled = true\n"
        )
        yield path
