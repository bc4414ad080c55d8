"""The quotas by which a drill slowed producers down, recorded so that exactly the former ones come back.

Rules: what each entity had is in the run's folder before anything is set, with the ID of the cluster, and is forgotten once it
is back. A quota that another client changed meanwhile is left, and named. A later run looks in its own folder and in those
beside it.
Not for: which quotas (`throttle_rules`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from drlib.drill.actions.applications.create_topics import quota_of, quota_text
from drlib.drill.actions.clients.throttle_rules import named
from drlib.drill.actions.parts import Parts
from drlib.drill.actions.taken_back import TakenBack
from drlib.drill.step import step_output as details
from drlib.drill.step.cluster_identity import cluster_id, rows_beside, write_beside
from drlib.errors import Deviated
from drlib.kafka.admin.descriptions import Quota
from drlib.kafka.admin.quotas import Entity, producer_quotas, set_producer_quotas
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.runs.journal import Scalar

Kept = Mapping[Entity, tuple[float, float | None]]
"""By entity: the limit that was set and the one before, None where there was none."""


class ThrottledProducers:
    """What runs beside `run_dir`, and itself, set on `cluster`."""

    def __init__(self, run_dir: Path, cluster: ClusterSettings) -> None:
        self._run_dir, self._cluster = run_dir, cluster
        self._file = f"throttled-producers.{cluster.alias}"

    def kept(self) -> Kept:
        """What this run set, or was about to when it was killed."""
        return _kept(self.rows())

    def rows(self) -> tuple[details.Row, ...]:
        """The same as it is recorded."""
        return tuple(details.read_rows(self._run_dir, self._file))

    def write(self, limits: Mapping[Entity, float]) -> None:
        """Record what is there, unless that was done, and set `limits`."""
        if not self.kept():
            self.record(limits)
        set_producer_quotas(self._cluster, limits)

    def record(self, limits: Mapping[Entity, float]) -> None:
        """Record `limits` with what is there."""
        now = {quota.entity: quota.bytes_per_s for quota in producer_quotas(self._cluster)}
        this = cluster_id(self._cluster)
        rows: list[dict[str, Scalar]] = [
            {"cluster_id": this, "quota": quota_text(entity, limit, now.get(entity))}
            for entity, limit in limits.items()
        ]
        details.write_rows(self._run_dir, self._file, rows)

    def restore_own(self) -> int:
        """Set what was there before this run, on how many entities. Safe to repeat. Raises `Deviated`."""
        return self._restore({self._run_dir: self.rows()})

    def restore(self) -> int:
        """The same for what runs beside this one set, too."""
        return self._restore(self._of_all())

    def restore_for(self, step: str) -> int:
        """`restore`, with what is taken back recorded as taken back by `step`, so that it can be set again."""
        self._taken_back(step).note([row for of_run in self._of_all().values() for row in of_run])
        return self.restore()

    def lifted(self, step: str) -> bool:
        """Has `step` taken back some that are not set again?"""
        return bool(self._taken_back(step).rows())

    def set_again(self, step: str) -> None:
        """Set what `step` took back, which is this run's then. Safe to repeat."""
        self._taken_back(step).make_again(self.write_again)

    def _taken_back(self, step: str) -> TakenBack:
        return TakenBack(self._run_dir, f"{step}.quotas-lifted")

    def _of_all(self) -> Mapping[Path, tuple[details.Row, ...]]:
        return rows_beside(self._run_dir, self._file, self._cluster)

    def write_again(self, rows: Sequence[details.Row]) -> None:
        """Record and set `rows` that were taken back."""
        details.write_rows(self._run_dir, self._file, rows)
        set_producer_quotas(self._cluster, {entity: limit for entity, (limit, _) in _kept(rows).items()})

    def _restore(self, rows_of: Mapping[Path, tuple[details.Row, ...]]) -> int:
        """Newest first: where several runs set a quota, that before the first of them comes back."""
        restored, changed, parts = 0, list[str](), Parts()
        all_kept = {folder: kept for folder, rows in reversed(list(rows_of.items())) if (kept := _kept(rows))}
        now: dict[Entity, float | None] = {}
        if all_kept:
            now |= {quota.entity: quota.bytes_per_s for quota in producer_quotas(self._cluster)}
        for folder, kept in all_kept.items():
            ours = {entity: before for entity, (limit, before) in kept.items() if now.get(entity) == limit}
            changed += [
                f"{named(Quota(entity, 0.0))} ({'no quota' if before is None else f'{before:.0f}'} before)"
                for entity, (limit, before) in kept.items()
                if now.get(entity) not in (limit, before)
            ]
            with parts.each(f"quotas of {folder.name}"):
                set_producer_quotas(self._cluster, ours)
                write_beside(folder, self._file, [])
                now |= ours
                restored += len(kept)
        if changed:
            parts.failed["quotas that were changed"] = Deviated(
                f"quotas on {self._cluster.alias} were not put back",
                f"another client changed them since: {'; '.join(changed)}",
                "Set them to what was there before with kafka-configs.sh --alter, if they are not meant to be so.",
            )
        parts.raise_failed()
        return restored


def _kept(rows: Iterable[details.Row]) -> dict[Entity, tuple[float, float | None]]:
    """Of an entity that several runs set one after the other: the last limit, and what was before the first."""
    kept: dict[Entity, tuple[float, float | None]] = {}
    for row in rows:
        entity, limit, before = quota_of(str(row.get("quota")))
        kept[entity] = (limit, kept[entity][1] if entity in kept else before)
    return kept
