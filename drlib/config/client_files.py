"""The properties file of one client, as Kafka's own tools take it with `--command-config`: how to reach one cluster safely.

Rules: keys are Java's without a prefix; `security.`, `ssl.` and `sasl.` count, held to what
`drlib.kafka.security.java_keys` honours
and refuses; every other key, and one that a later line replaces, is a `Notice`. Addresses come from the caller, so that
one file of credentials serves several clusters.
Not for: files of MirrorMaker 2 (`drlib.config.settings`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from drlib.config.keys import SECURITY_PREFIXES
from drlib.config.notices import Notice, check_keys
from drlib.kafka.java_formats import properties
from drlib.kafka.security.cluster_settings import ClusterSettings

NOT_SECURITY = "only keys that begin with security., ssl. or sasl. count in this file"


def load_client_settings(
    path: str | Path, alias: str, servers: Sequence[str]
) -> tuple[ClusterSettings, tuple[Notice, ...]]:
    """The cluster at `servers` (host:port each), secured as the file at `path` says. Raises `UsageError`, with the line."""
    file = properties.read(path)
    told = {(notice.line, notice.key): notice for notice in check_keys(file, ())}
    notices = []
    for entry in file.entries:
        if entry.key.startswith(SECURITY_PREFIXES):
            if (notice := told.get((entry.line, entry.key))) is not None:
                notices.append(notice)
        else:
            notices.append(Notice(entry.line, entry.key, NOT_SECURITY))
    secured = {key: entry.value for key, entry in file.effective().items() if key.startswith(SECURITY_PREFIXES)}
    return ClusterSettings(alias, tuple(servers), secured), tuple(notices)
