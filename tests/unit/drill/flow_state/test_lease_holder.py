"""How long a holder that was removed from the group has to stop, before another run begins."""

from __future__ import annotations

import socket
import time
from pathlib import Path

from drlib.drill.flow_state import lease_holder
from drlib.drill.plan.lease_record import LeaseRecord
from drlib.model import Flow


def test_holder_on_another_host_of_the_same_name_has_its_time_to_stop(tmp_path: Path) -> None:
    """Two containers may share a name: that the run's folder is not here says nothing of its process."""
    gone = LeaseRecord(run="r", host=socket.gethostname(), folder=str(tmp_path / "r"))
    began = time.monotonic()
    lease_holder._until_stopped(Flow("west", "east"), gone)
    assert time.monotonic() - began >= lease_holder.STOPPED_S
    (tmp_path / "r").mkdir()
    began = time.monotonic()
    lease_holder._until_stopped(Flow("west", "east"), gone)
    assert time.monotonic() - began < lease_holder.STOPPED_S
