"""Load the properties file of one client, as Kafka's own tools take it with `--command-config`: TLS and login of one cluster.

Rules: keys are Java's without a prefix. `security.`, `ssl.` and `sasl.` keys count, as far as
`drlib.kafka.security.java_keys` supports them; every other key, and one that a later line replaces, is a `Notice`. The
addresses come from the caller, so that one file of credentials serves several clusters.
Not for: files of MirrorMaker 2 (`drlib.config.settings`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from drlib.config.keys import SECURITY_PREFIXES
from drlib.config.notices import Notice, check_keys
from drlib.kafka.java_formats import properties
from drlib.kafka.security.cluster_settings import ClusterSettings

NOT_SECURITY = "in this file only keys that begin with security., ssl. or sasl. have an effect"


def load_client_settings(
    path: str | Path, alias: str, servers: Sequence[str]
) -> tuple[ClusterSettings, tuple[Notice, ...]]:
    """The cluster at `servers` (host:port each) with the security of the file at `path`. Raises `UsageError`, with the line."""
    file = properties.read(path)
    known = {(notice.line, notice.key): notice for notice in check_keys(file, ())}
    notices = []
    for entry in file.entries:
        if entry.key.startswith(SECURITY_PREFIXES):
            if (notice := known.get((entry.line, entry.key))) is not None:
                notices.append(notice)
        else:
            notices.append(Notice(entry.line, entry.key, NOT_SECURITY))
    secured = {key: entry.value for key, entry in file.effective().items() if key.startswith(SECURITY_PREFIXES)}
    return ClusterSettings(alias, tuple(servers), secured), tuple(notices)
