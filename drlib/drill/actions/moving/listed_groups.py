"""Whether a move knows every group of the cluster that is left: brokers leave out groups that a user may not describe.

Not for: groups that are listed and cannot be moved (`drlib.drill.actions.groups.rules`).
"""

from typing import Final

from drlib.kafka.admin.cluster import Cluster
from drlib.runs.check import Check, Verdict

CHECK: Final = "every group of {} is known"


def unlisted(source: Cluster) -> tuple[Check, ...]:
    """The condition where there may be groups that are not listed, and so are not moved; none where all are."""
    if source.lists_every_group() is not False:
        return ()
    alias = source.settings.alias
    why = (
        f"{alias} lists only groups that this user may describe: others have no position where the applications are now. "
        f"Grant Describe on the cluster (drlib doctor FILE --rights --role drill), and compare: drlib inventory FILE"
    )
    return (Check(CHECK.format(alias), Verdict.CONDITIONS, why),)
