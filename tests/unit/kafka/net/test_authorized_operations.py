"""What a cluster authorizes, as it is reported; what is not reported is unknown."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.admin import DescribeClusterResponse

from drlib.kafka.net.api_versions import NEWEST
from drlib.kafka.net.authorized_operations import cluster_rights
from drlib.kafka.net.connection import Connection


@pytest.mark.parametrize(
    ("reported", "rights"),
    [(None, None), (set(), frozenset()), ({8, 10}, frozenset({"DESCRIBE", "DESCRIBE_CONFIGS"}))],
)
async def test_cluster_rights_not_reported_are_unknown(
    reported: set[int] | None, rights: frozenset[str] | None
) -> None:
    sent = DescribeClusterResponse[0](cluster_id="c", controller_id=1, brokers=[], authorized_operations=reported)
    answer = DescribeClusterResponse[0].decode(sent.encode())

    async def ask(message: Callable[[Any], Any]) -> Any:
        assert message(seed).include_cluster_authorized_operations
        return answer

    seed: Any = SimpleNamespace(version=NEWEST.__getitem__)
    seed.message = partial(Connection.message, seed)
    client: Any = SimpleNamespace(ask=ask)
    assert await cluster_rights(client) == rights
