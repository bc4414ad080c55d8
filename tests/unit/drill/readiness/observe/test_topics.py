"""Topics of a flow, as the readiness checks see them."""

from pathlib import Path

import pytest

from drlib.config.replication_policy import DEFAULT, IDENTITY
from drlib.config.settings import load_mirror_settings
from drlib.drill.readiness.observe.topics import prefixed_topics


@pytest.mark.parametrize(("policy", "found"), [(IDENTITY, ("device-heartbeats",)), (DEFAULT, ())])
def test_topics_of_applications_that_get_a_prefix_where_names_are_kept_are_found(
    policy: str, found: tuple[str, ...], tmp_path: Path
) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = paris, berlin-2\nparis.bootstrap.servers = 127.0.0.1:1\nberlin-2.bootstrap.servers = 127.0.0.1:2\n"
        f"paris->berlin-2.enabled = true\nreplication.policy.class = {policy}\n"
    )
    flow = load_mirror_settings(file).flow("paris", "berlin-2")
    topics = ("orders", "payments.v1", "device-heartbeats", "heartbeats", "rome.heartbeats")
    names = {name: flow.policy.remote_topic("paris", name) for name in topics}
    assert prefixed_topics(flow, names) == found
