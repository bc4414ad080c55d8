"""What a refused lane says is missing."""

from pathlib import Path

import pytest

from drlib.config.settings import load_mirror_settings
from drlib.kafka.protocol.error_codes import TOPIC_AUTHORIZATION_FAILED, BrokerError
from drlib.mirror.preflight.checks import Grants

FILE = """\
clusters = paris, lyon
paris.bootstrap.servers = p:1
lyon.bootstrap.servers = l:1
paris->lyon.enabled = true
"""


@pytest.mark.parametrize(
    ("topic", "named", "server"),
    [
        ("mm2-offsets.paris.internal", "--operation Read --topic mm2-offsets.paris.internal", "l:1"),
        ("mm2-offset-syncs.lyon.internal", "--operation Read --topic mm2-offset-syncs.lyon.internal", "p:1"),
        ("", "--topic journal", "l:1"),
        ("orders", "--topic journal", "l:1"),
    ],
)
def test_refused_topic_of_mirrormaker_is_named_instead_of_the_journal(
    tmp_path: Path, topic: str, named: str, server: str
) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(FILE)
    settings = load_mirror_settings(path)
    grants = Grants(settings.flow("paris", "lyon"), settings.clusters["paris"], settings.clusters["lyon"])
    refused = BrokerError(TOPIC_AUTHORIZATION_FAILED, "looking up", topics=[topic] if topic else [])
    remedy = grants.refused(refused, "journal").remedy
    assert named in remedy
    assert f"--bootstrap-server {server} " in remedy
