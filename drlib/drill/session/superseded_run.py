"""What becomes of a run that was superseded: marked in its own journal, and the shadow groups of a rehearsal removed.

Rules: the flow's state on the target says already that the run is superseded, so nothing here has to succeed; what could not
be done is named. A folder counts only where it is on this host and no process runs it. At most `REMOVE_S` seconds are spent on
shadow groups, because what supersedes is urgent.
Not for: ending its process (`drlib.drill.flow_state.lease_holder`).
"""

import socket
import time
from pathlib import Path
from typing import Final

from drlib.drill.actions.groups.rehearsal import PREFIX
from drlib.drill.actions.groups.tried_positions import left_by
from drlib.drill.plan.lease_record import LeaseRecord
from drlib.drill.plan.plan import Mode
from drlib.drill.plan.progress import Noted
from drlib.drill.plan.supersede import mode_of
from drlib.drill.run import planning
from drlib.drill.run.runner import LOCK
from drlib.drill.session import scorecard as session_score
from drlib.drill.step.step_output import DETAILS
from drlib.errors import DrlibError
from drlib.formats import first_few
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.runs import journal
from drlib.runs.folder import unseal
from drlib.runs.journal import JOURNAL, DrillJournal
from drlib.runs.lock import alone

REMOVE_S: Final = 3.0
_LOCKED_S: Final = 0.5
_NAMED: Final = 3  # groups, in a message


def mark_and_clean_up(gone: LeaseRecord, by: str, target: ClusterSettings) -> str:
    """Mark the run of `gone` as superseded by `by` and remove what a rehearsal left on `target`; what was done, and which
    groups a planned move left placed there, in words."""
    said = [mark(gone, by), *placed(gone, target.alias)]
    if mode_of(gone) is Mode.PRACTICE:
        said.append(remove_shadows(gone.run, target))
    return "; ".join(said)


def mark(gone: LeaseRecord, by: str) -> str:
    """Write into the journal of the run of `gone` that it was superseded; what was done, in words."""
    if not gone.folder or gone.host != socket.gethostname():
        return f"its folder ({gone.folder or 'not recorded'} on {gone.host or 'an unknown host'}) is not marked"
    folder = Path(gone.folder)
    if not (folder / JOURNAL).exists():
        return f"its folder {folder} is not there"
    try:
        with alone(folder, LOCK, "another process holds its folder", "Let it end.", _LOCKED_S):
            if all(line.event != Noted.SUPERSEDED for line in journal.read(folder / JOURNAL)):
                unseal(folder)
                log = DrillJournal(folder / JOURNAL)
                try:
                    log.write(Noted.SUPERSEDED, step="", detail=by)
                finally:
                    log.close()
                session_score.write(planning.read(folder), folder, None)
    except (DrlibError, OSError) as error:
        return f"its folder {folder} is not marked ({error})"
    return f"its folder {folder} is marked"


def placed(gone: LeaseRecord, target: str) -> tuple[str, ...]:
    """Which groups the run of `gone` placed on `target` for a move that it did not end, in words; nothing where it placed none,
    or its folder is elsewhere."""
    if not gone.folder or gone.host != socket.gethostname():
        return ()
    try:
        groups = sorted({move.group for move in left_by(Path(gone.folder), target)})
    except (DrlibError, OSError) as error:
        return (f"which groups it placed on {target} is unknown ({error})",)
    if not groups:
        return ()
    where = f"{Path(gone.folder) / DETAILS}/positions.tried.* has where they were before"
    return (f"groups that it placed on {target}, as if they had read there, stay so: {first_few(groups)}; {where}",)


def remove_shadows(run: str, target: ClusterSettings) -> str:
    """Delete the shadow groups of the rehearsal `run`; which ones are left, in words."""
    prefix = f"{PREFIX}{run}."
    until = time.monotonic() + REMOVE_S
    try:
        with Cluster(target, timeout_s=REMOVE_S) as cluster:
            found = [listing.group for listing in cluster.groups() if listing.group.startswith(prefix)]
            left = list(found)
            for group in found:
                if time.monotonic() > until:
                    break
                try:
                    cluster.delete_group(group)
                    left.remove(group)
                except DrlibError:
                    continue
    except DrlibError as error:
        return f"its shadow groups {prefix}* may be left on {target.alias} ({error})"
    if not left:
        return f"{len(found)} shadow groups {prefix}* were removed from {target.alias}"
    more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
    return f"shadow groups are left on {target.alias}: {', '.join(left[:_NAMED])}{more}"
