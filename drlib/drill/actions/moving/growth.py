"""Whether a cluster's own clients write to it: by the ends of its logs, which grow by copies too where both directions copy.

Not for: what has not been copied yet (`drlib.mirror.offsets.unreplicated.lag`).
"""

from collections.abc import Mapping

from drlib.config.both_ways.shared_topics import all_shared
from drlib.config.settings import MirrorSettings
from drlib.drill.actions.moving import still_ends
from drlib.errors import DrlibError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Range
from drlib.mirror.offsets.unreplicated.crossed import count_own
from drlib.model import Flow, TopicPartition

Ends = Mapping[TopicPartition, int]


class Growth:
    """Of the logs of `moving`'s source."""

    def __init__(self, settings: MirrorSettings, moving: Flow) -> None:
        self._settings, self._moving = settings, moving
        self._shared = all_shared(settings, moving)

    def written(self, before: Ends, now: Ends) -> bool:
        """Did a client write between these two looks? Raises what the cluster answers."""
        return bool(self.grown(before, now))

    def grown(self, before: Ends, now: Ends) -> list[TopicPartition]:
        """The partitions that a client wrote to, ascending."""
        grown = sorted(p for p in {*before, *now} if before.get(p) != now.get(p))
        if not grown or not self._shared:
            return grown
        own = self._own(before, now)
        return [p for p in grown if own.get(p)]

    def written_since(self, source: Cluster, ends: Ends) -> int | None:
        """Records of clients that a committed reader finds behind `ends` now; None when the cluster does not say."""
        if not self._shared:
            return still_ends.written_since(source, ends)
        try:
            return sum(self._own(ends, source.log_ends(ends)).values())
        except DrlibError:
            return None

    def _own(self, before: Ends, now: Ends) -> Mapping[TopicPartition, int]:
        grown = {p: Range(before.get(p, 0), end) for p, end in now.items() if end > before.get(p, 0)}
        return count_own(self._settings, self._moving, grown)
