"""Topics of a lab whose cluster does not answer."""

from __future__ import annotations

import socket

import pytest

from drlib.errors import Unreachable
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.connection import Where
from drlib.lab.workload.topics import TopicSpec, create_topics


@pytest.mark.parametrize(("named", "said"), [(True, "on LEFT got no answer"), (False, "on the lab got no answer")])
def test_create_topics_on_a_cluster_that_is_down_says_which_topic_and_where(named: bool, said: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        where: Where = ClusterSettings("LEFT", (address,)) if named else address
        with pytest.raises(Unreachable, match=f"creating topic hello {said}"):
            create_topics(where, [TopicSpec("hello", 1)], deadline_s=1.0)
