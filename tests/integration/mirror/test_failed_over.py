"""A flow that is failed over is not mirrored by a running worker, nor by one that starts, until its source serves again."""

from __future__ import annotations

import pytest
from fix_engine import wait_for
from testbed_way_back import FLOW, MIRROR, a_night

from drlib import publish_pointer
from drlib.drill.session.declare_serving import declare_serving
from drlib.mirror.status import worker_status


@pytest.mark.timeout(120)
def test_flow_failed_over_is_not_mirrored_until_its_source_serves_again(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with a_night(tmp_path_factory.mktemp("night")) as night:
        publish_pointer(night.file, "lyon")
        declare_serving(night.settings("lyon"), FLOW, "lyon")
        wait_for("the worker has left the flow's group", lambda: night.members(FLOW) == 0)
        copied = night.end("lyon", MIRROR)
        night.write("paris", 20)
        night.kill_worker()
        night.start_worker()

        def reported() -> list[str]:
            path = night.status_path
            return [event.name for event in worker_status.read(path).events] if path.exists() else []

        wait_for("the new worker reports it", lambda: "FlowFailedOver" in reported())
        assert (night.members(FLOW), night.end("lyon", MIRROR)) == (0, copied)

        publish_pointer(night.file, "paris")
        declare_serving(night.settings("lyon"), FLOW, "paris")
        wait_for("the flow is mirrored again", lambda: night.end("lyon", MIRROR) >= copied + 20)
