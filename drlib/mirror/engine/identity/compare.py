"""Compares source partitions with their mirrors, and says of each what it is and why.

Rules: a partition that cannot be asked is not judged; its error is the reason, and the others continue. One without an ID whose
leader is another by now ends the comparison: it begins again with the leaders' next lookup.
A cluster whose brokers all went back to an older copy of their disks has the same IDs, and gives the same leader epochs to
other records: once as many were written as it lost, only the records show it. That is believed of a broker that leads, in no
older epoch than was read.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from drlib.errors import DrlibError
from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.protocol.batch import CorruptBatch
from drlib.kafka.protocol.error_codes import TOPIC_AUTHORIZATION_FAILED, BrokerError
from drlib.kafka.protocol.fetch import Proof
from drlib.mirror.engine.identity.evidence import PURPOSE, Question, agrees, first_other, gather
from drlib.mirror.engine.identity.rules import Evidence, Verdict, judge, judge_topic
from drlib.mirror.read_batches import concurrently
from drlib.model import TopicPartition

UNPROVEN: Final = "SourceUnproven"
AS_MIRRORED: Final = -1
MOST_S: Final = 10.0  # of the comparison of topics with IDs, which holds up the reading


@dataclass(frozen=True, slots=True)
class Judged:
    """What a partition's log is. `proof`: a batch of it; `why` and `event`: of one that must not be read."""

    verdict: Verdict
    log_start: int = 0
    proof: Proof | None = None
    why: str = ""
    event: str = UNPROVEN


async def compare(source: ClusterClient, target: ClusterClient, asked: Sequence[Question]) -> list[Judged]:
    """What each of `asked` is, in their order. Raises `BrokerError` where a leader moved, `Unreachable`."""
    answers = await concurrently(asked, lambda question: _ask(source, target, question))
    by_topic: dict[str, dict[TopicPartition, Verdict]] = defaultdict(dict)
    for question, answer in zip(asked, answers, strict=True):
        by_topic[question.source.topic][question.source] = answer.verdict
    judged = {partition: it for verdicts in by_topic.values() for partition, it in judge_topic(verdicts).items()}
    return [_decided(judged[question.source], answer) for question, answer in zip(asked, answers, strict=True)]


async def went_back(source: ClusterClient, target: ClusterClient, asked: Sequence[Question]) -> list[int | None]:
    """Of topics with an ID: from which offset on each of `asked` has other records than were mirrored; `AS_MIRRORED`: it has
    none, as far as both logs show; None: it could not be compared within `MOST_S`."""
    end = asyncio.get_running_loop().time() + MOST_S

    async def ask(question: Question) -> int | None:
        try:
            async with asyncio.timeout_at(end):
                return await _went_back(source, target, question)
        except (DrlibError, CorruptBatch, TimeoutError, OSError):
            return None

    return await concurrently(asked, ask)


async def _went_back(source: ClusterClient, target: ClusterClient, asked: Question) -> int:
    mirrored = asked.map.segments()[-1].source_end
    if await agrees(source, target, asked, mirrored) is not False:
        return AS_MIRRORED
    connection = await source.connection(asked.node, PURPOSE)
    end, epoch = (await requests.list_offset_epochs(connection, [asked.source], requests.LATEST))[asked.source]
    if epoch < asked.read_epoch or await agrees(source, target, asked, mirrored) is not False:
        return AS_MIRRORED
    return await first_other(source, target, asked, min(end, mirrored - 1))


async def _ask(source: ClusterClient, target: ClusterClient, question: Question) -> Judged:
    try:
        evidence, proof = await gather(source, target, question)
    except CorruptBatch as corrupt:
        return Judged(Verdict.UNKNOWN, why=str(corrupt), event="SourceCorrupt")
    except BrokerError as error:
        if error.retriable:
            raise
        unauthorized = error.code == TOPIC_AUTHORIZATION_FAILED and error.topics == (question.source.topic,)
        return Judged(Verdict.UNKNOWN, why=str(error), event="SourceUnauthorized" if unauthorized else UNPROVEN)
    return Judged(judge(evidence), evidence.log_start, proof, _explain(question, evidence))


def _decided(verdict: Verdict, answer: Judged) -> Judged:
    event = "SourceTruncated" if verdict is Verdict.REPLACED else answer.event
    return Judged(verdict, answer.log_start, answer.proof, f"{verdict.value}: {answer.why}", event)


def _explain(question: Question, found: Evidence) -> str:
    compared = {
        True: "is the one that was mirrored",
        False: "is another one than was mirrored",
        None: "cannot be compared",
    }
    return (
        f"{question.source} has no topic ID; it was read up to offset {found.position}, its log holds {found.log_start} to "
        f"{found.log_end}; of what is left the newest record {compared[found.newest]}, the oldest {compared[found.oldest]}"
    )
