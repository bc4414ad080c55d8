"""Action `topics.create`: the topics that producers write to exist on the target before the pointer moves there.

Rules: which topics are wanted, and what a new one is like, is decided as the mirror decides it
(`drlib.mirror.sync.rules.local_topics`): from the source if it answers, else from the mirror topics. An existing topic is never
changed. What is about to be created is on disk first. A topic, right or ACL that is refused does not end the step: readers can
move without it, and the scorecard fails with the reason. An undo deletes topics that this step created and that nothing was
ever written to, and leaves the others.
Quotas of the source's producers that the target lacks or has lower are set there; none is lowered.
Not for: keeping all that there in advance (`drlib.sync.local.topics.enabled`, `drlib.sync.quotas.enabled`).
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from pydantic import TypeAdapter

from drlib import clock, decoding
from drlib.config.flow_settings import FlowSettings
from drlib.config.patterns.selection import matches
from drlib.config.settings import MirrorSettings
from drlib.drill.actions.applications.deny_writes import WriteRules, row_of, rule_of
from drlib.drill.actions.parts import Parts
from drlib.drill.plan.plan import Change, Fact, Value
from drlib.drill.plan.progress import Reach
from drlib.drill.step import step_output
from drlib.drill.step.action import Changes, DrillAction, Evidence
from drlib.drill.step.argument_types import Flag, Patterns
from drlib.drill.step.cluster_identity import identity
from drlib.drill.step.flow_arguments import FlowArguments, Shared
from drlib.drill.step.known_silence import KnownSilence, controller_of, counts, patience_s
from drlib.drill.step.step_output import ScorecardPart
from drlib.errors import DrlibError, Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import ANSWER_S, blocking, wire_client
from drlib.kafka.admin.quotas import STANDSTILL, Entity, missing_quotas, producer_quotas, set_producer_quotas
from drlib.kafka.admin.topic_acls import NoAuthorizer, create_rules, delete_rules, topic_rules
from drlib.kafka.net.cluster_client import ClusterMetadata, TopicMetadata
from drlib.kafka.protocol.acls import TopicAcl
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.security.errors import SecurityFault
from drlib.mirror.sync.local_topics import create_local_topics
from drlib.mirror.sync.rules import local_topics
from drlib.model import TopicPartition
from drlib.runs.abort import Abort
from drlib.runs.check import Check, Verdict
from drlib.runs.journal import Scalar

SOURCE_S: Final = 2.0  # a source that takes longer counts as gone: its mirror topics say the same
REQUEST_S: Final = 10.0
MISSING: Final = "missing"
EXISTS: Final = "exists"
EXISTED: Final = "existed"  # another client created it first
_QUOTA: Final = TypeAdapter(tuple[Entity, float, float | None])


class CreateTopics(FlowArguments, DrillAction):
    """Create the topics that producers will write to on the target and that it lacks, with the source's partitions, settings
    and ACLs."""

    name = "topics.create"
    shared_topics = Shared.SOME

    topics: Patterns = (".*",)
    """Which topics, by the name that producers use; only those that the flow mirrors are created."""
    acls: Flag = True
    """Whether new topics get the literal ACLs of the source's topics, as far as both clusters allow it."""
    quotas: Flag = True
    """Whether the target gets the quotas to write of the source's users and client IDs that it lacks or has lower."""

    def observe(self) -> Sequence[Fact]:
        source, target = self._answers()
        after = self._wanted(source, target)
        missing = local_topics.missing(after, target)
        made = [name for name in self._kept() if name in target.topics]  # by this step, before it was killed
        facts = {**dict.fromkeys(missing, MISSING), **dict.fromkeys(made, EXISTS)}
        return (*(Fact(self._entity(name), value) for name, value in facts.items()), identity(self.target_cluster))

    def changes(self, observed: Sequence[Fact]) -> Changes:
        return tuple(Change(fact.entity, MISSING, EXISTS) for fact in observed if fact.value == MISSING)

    def settled(self, change: Change) -> Sequence[Value]:
        return (None,)  # it is not missing any more: another run or a person created it, or the source does not have it

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        abort.check()
        source, target = self._answers()
        if counts(KnownSilence(self.context.run_dir).of(controller_of(self.flow.source)), clock.now_ms()):
            source = None  # its controller would have to be asked
        planned = {self._name(change.entity) for change in changes}
        try:
            after, answers = self._create(source, target, planned)
        except Unreachable:
            if source is None:
                raise
            source = None  # it has stopped answering since
            after, answers = self._create(None, target, planned)
        silent = {name for name, answer in answers.items() if isinstance(answer, Unreachable)}
        if source is not None and silent:  # a part of it answers, and not the brokers that know the settings
            source = None
            answers |= self._create(None, target, silent)[1]
        ids = self._ids(name for name, answer in answers.items() if answer is True)
        self._keep(
            {
                **self._kept(),
                **{name: ids.get(name, "") if answer is True else EXISTED for name, answer in answers.items()},
            }
        )
        refused = {name: str(answer) for name, answer in answers.items() if isinstance(answer, DrlibError)}
        made = sorted(name for name, topic_id in self._kept().items() if topic_id != EXISTED)
        lost = "the source does not answer, or most of its brokers do not"
        acls = self._copy_acls(made) if source is not None else f"not copied: {lost}"
        quotas = self._copy_quotas() if source is not None else f"not copied: {lost}"
        self._report(after, refused)
        return {
            "topics": len(after),
            "created": ", ".join(name for name, answer in answers.items() if answer is True),
            "refused": "; ".join(f"{name}: {why}" for name, why in refused.items()),
            "settings_from": "the source" if source is not None else "the mirror topics",
            "acls": acls if self.acls else "not asked for",
            "quotas": quotas if self.quotas else "not asked for",
        }

    def probe(self, changes: Changes) -> Reach:
        _, target = self._answers()
        existing = any(self._name(change.entity) in target.topics for change in changes)
        # with all of them there, or none to create, act still copies ACLs and quotas, and reports
        return Reach.PARTLY if existing or not changes or self._kept() else Reach.UNTOUCHED

    def undo(self, changes: Changes) -> None:
        """Topics with another ID than the one created, or with records, are left."""
        kept = {name: topic_id for name, topic_id in self._kept().items() if topic_id != EXISTED}
        rows: list[Mapping[str, Scalar]] = []
        deleted: list[str] = []
        parts = Parts()
        with Cluster(self.target_cluster) as cluster:
            existing = cluster.topics(kept)
            for name, topic in existing.items():
                outcome = "not known: it failed"
                with parts.each(name):
                    ends = cluster.log_ends(TopicPartition(name, n) for n in range(topic.partitions))
                    if kept[name] not in ("", str(topic.topic_id)):
                        outcome = "left: it was created again since"
                    elif written := sum(ends.values()):
                        outcome = f"left: {written} offsets were written"
                    else:
                        cluster.delete_topic(name)
                        outcome = "deleted"
                        deleted.append(name)
                rows.append({"topic": name, "undone": outcome})
        left = existing.keys() - set(deleted)  # also of topics that an undo had deleted when it was killed
        acls = [acl for acl in self._kept_acls() if acl.topic not in left]
        with parts.each("ACLs"):
            if acls:
                delete_rules(self.target_cluster, acls)
        with parts.each("quotas"):
            self._restore_quotas()
        self.show(rows)
        parts.raise_failed()

    # -- which topics ------------------------------------------------------------------------------------------------

    @property
    def _mirror(self) -> MirrorSettings:
        return self.context.mirror_settings()

    @property
    def _settings(self) -> FlowSettings:
        return self._mirror.flow(self.flow.source, self.flow.target)

    def _answers(self) -> tuple[ClusterMetadata | None, ClusterMetadata]:
        """The source, None where it does not answer soon, and the target. Raises `Unreachable` when that does not."""

        async def one(cluster: ClusterSettings, seconds: float) -> ClusterMetadata:
            async with wire_client(cluster, client_id="drlib-topics", timeout_s=seconds) as client:
                return await client.metadata(None)

        async def of_source() -> ClusterMetadata | None:
            try:
                return await one(self.source_cluster, source_s) if source_s else None  # it has just been found silent
            except (Unreachable, SecurityFault, UsageError):  # it is lost to this host, whatever the reason
                return None

        async def both() -> tuple[ClusterMetadata | None, ClusterMetadata]:
            source, target = await asyncio.gather(of_source(), one(self.target_cluster, ANSWER_S))
            return source, target

        known = KnownSilence(self.context.run_dir).of(self.flow.source)
        source_s = patience_s(known, clock.now_ms(), SOURCE_S)
        return blocking(both())

    def _wanted(self, source: ClusterMetadata | None, target: ClusterMetadata) -> dict[str, TopicMetadata]:
        after = local_topics.wanted(self._settings, self._mirror.clusters, source, target)
        return {name: topic for name, topic in after.items() if matches(self.topics, name)}

    def _entity(self, name: str) -> str:
        return f"topic {name} on {self.flow.target}"

    def _name(self, entity: str) -> str:
        return entity.removeprefix("topic ").removesuffix(f" on {self.flow.target}")

    # -- what was created --------------------------------------------------------------------------------------------

    def _kept(self) -> dict[str, str]:
        """By topic: the ID of the one created, "" where a kill came before it was known, or `EXISTED`."""
        rows = step_output.read_rows(self.context.run_dir, f"{self.step}.created")
        return {str(row["topic"]): str(row["id"]) for row in rows}

    def _keep(self, topics: Mapping[str, str]) -> None:
        rows: list[Mapping[str, Scalar]] = [{"topic": name, "id": topic_id} for name, topic_id in topics.items()]
        step_output.write_rows(self.context.run_dir, f"{self.step}.created", rows)

    def _kept_acls(self) -> list[TopicAcl]:
        return [rule_of(row) for row in step_output.read_rows(self.context.run_dir, f"{self.step}.acls")]

    def _ids(self, names: Iterable[str]) -> dict[str, str]:
        with Cluster(self.target_cluster) as cluster:
            return {name: str(topic.topic_id) for name, topic in cluster.topics(names).items()}

    def _create(
        self, source: ClusterMetadata | None, target: ClusterMetadata, planned: Collection[str]
    ) -> tuple[dict[str, TopicMetadata], dict[str, bool | DrlibError]]:
        """What is wanted, and what came of creating what is planned and missing. Raises `Unreachable`."""
        after = self._wanted(source, target)
        names = [name for name in local_topics.missing(after, target) if name in planned]
        origin = self.source_cluster if source is not None else self.target_cluster
        self._keep({**self._kept(), **dict.fromkeys(names, "")})
        to, brokers = self.target_cluster, len(target.brokers)
        return after, create_local_topics(
            self._settings,
            after,
            names,
            brokers,
            origin,
            to,
            with_acls=False,
            timeout_s=REQUEST_S,
            origin_s=REQUEST_S if source is None else SOURCE_S,
        )

    def _copy_acls(self, made: Sequence[str]) -> str:
        """What came of it, in words: a right that is missing is reported, and is no reason not to move."""
        if not self.acls or not made:
            return "none"
        try:
            fences = WriteRules(self.context.run_dir, self.source_cluster).standing()
            acls = local_topics.acls(set(topic_rules(self.source_cluster)).difference(fences), made)
            if acls:  # raises without an authorizer, before anything is kept
                there = set(topic_rules(self.target_cluster)).difference(self._kept_acls())
                acls = tuple(acl for acl in acls if acl not in there)  # what was there before is not this step's
            step_output.write_rows(self.context.run_dir, f"{self.step}.acls", [row_of(acl) for acl in acls])
            create_rules(self.target_cluster, acls)
        except NoAuthorizer as error:
            return f"none: {error.what}"
        except DrlibError as error:
            return f"not copied: {error}"
        return f"{len(acls)} copied"

    def _kept_quotas(self) -> dict[Entity, tuple[float, float | None]]:
        """By entity: the limit that was set, and the one before, None where there was none."""
        rows = step_output.read_rows(self.context.run_dir, f"{self.step}.quotas")
        kept = (quota_of(str(row.get("quota"))) for row in rows)
        return {entity: (limit, before) for entity, limit, before in kept}

    def _copy_quotas(self) -> str:
        """What came of it, in words: as with ACLs."""
        if not self.quotas:
            return "none"
        try:
            found = missing_quotas(self.source_cluster, self.target_cluster)
            missing = [each for each in found if each[0].bytes_per_s > STANDSTILL]  # others slow the source down
            kept = self._kept_quotas()
            for quota, now in missing:  # of an entity that was set before, what was there at first is kept
                kept[quota.entity] = (quota.bytes_per_s, kept.get(quota.entity, (0.0, now))[1])
            rows: list[Mapping[str, Scalar]] = [
                {"quota": quota_text(entity, *limits)} for entity, limits in kept.items()
            ]
            step_output.write_rows(self.context.run_dir, f"{self.step}.quotas", rows)
            set_producer_quotas(self.target_cluster, {quota.entity: quota.bytes_per_s for quota, _ in missing})
        except DrlibError as error:
            return f"not copied: {error}"
        return f"{len(missing)} copied"

    def _restore_quotas(self) -> None:
        """As they were before, where they are still what this step has set. Raises what the brokers answer."""
        kept = self._kept_quotas()
        if kept:
            now = {quota.entity: quota.bytes_per_s for quota in producer_quotas(self.target_cluster)}
            ours = {entity: before for entity, (limit, before) in kept.items() if now.get(entity) == limit}
            set_producer_quotas(self.target_cluster, ours)

    def _report(self, after: Mapping[str, TopicMetadata], refused: Mapping[str, str]) -> None:
        kept = self._kept()
        rows: list[Mapping[str, Scalar]] = [
            {
                "topic": name,
                "partitions": len(topic.partitions),
                "state": "refused"
                if name in refused
                else "created"
                if kept.get(name, EXISTED) != EXISTED
                else "existed",
                "why": refused.get(name, ""),
            }
            for name, topic in after.items()
        ]
        self.show(rows)
        if not after:  # mirrors keep their names, or none is mirrored
            return
        evidence = "; ".join(f"{name}: {why}" for name, why in refused.items()) or f"{len(after)} topics"
        verdict = Verdict.FAIL if refused else Verdict.PASS
        check = Check(name="the topics of the producers exist on the target", verdict=verdict, evidence=evidence)
        self.score(ScorecardPart(checks=(check,)))


def quota_text(entity: Entity, limit: float, before: float | None) -> str:
    """What `quota_of` reads."""
    return _QUOTA.dump_json((entity, limit, before)).decode()


def quota_of(text: str) -> tuple[Entity, float, float | None]:
    """An entity, the limit that was set and the one before, as this step keeps them. Raises `UsageError`."""
    try:
        return decoding.json_as(_QUOTA, text)
    except decoding.Undecodable as error:
        raise UsageError(
            "the quotas that were set are not known",
            str(error),
            "Do not rely on this run; compare them with drlib doctor.",
        ) from error
