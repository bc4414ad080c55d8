"""What each client's redirected producer meets where another one has its producer ID: what is lost, refused, or fenced.

The table of docs/clients.md is what these cases measure. Two runs, each on one pair of clusters with all clients at once: the
first has what loses records with every client that redirects, the second, long, the rest, Kafka Streams and the mirror's lanes.
Clients of both producers are the same library.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest
from testbed_bootstrap import a_site
from testbed_redirected import AFTER, CLIENTS, Case, Outcome, Stage, Streams, families, lane_cases, lanes

LOST: Final = ("x10", "x11", "x12")


@dataclass(frozen=True)
class Expected:
    """`error`: of X, "" where it writes on; `lost`: what lyon acknowledged to X and does not have; `other`: an error of Y's
    next record, "" where it is written, `LOST` where it is acknowledged only, and None where there is no Y that is asked."""

    error: str = ""
    lost: tuple[str, ...] = ()
    other: str | None = ""


def seen(found: Outcome) -> Expected:
    """What a case did, in the same words."""
    errors = [result for result in found.after.values() if isinstance(result, str)]
    other = (
        None
        if found.other == ""
        else "LOST"
        if found.other_lost
        else ""
        if isinstance(found.other, int)
        else found.other
    )
    return Expected(errors[0] if errors else "", tuple(found.lost), other)


CASES: Final[dict[str, Case]] = {
    each.name: each
    for each in (
        Case("none", "", y=None),
        Case("same", ""),
        Case("tx-same", "", x="T", y="T"),
        Case("lower", "", y="U", y_begins=2),
        Case("idem-tx", "", y="U"),
        Case("fails", "", x_fails=True),
        Case("tx-none", "", x="T", y=None),
        Case("tx-other", "", x="T", y="U"),
        Case("tx-idem", "", x="T"),
        Case("tx-lower", "", x="T", y="T", y_begins=2),
        Case("tx-higher", "", x="T", y="T", x_begins=2),
    )
}
FAST: Final = ("none", "same", "tx-same")
UNKNOWN: Final = Expected("UNKNOWN_TOPIC_ID", other=None)
"""franz-go produces by the topic ID of the former cluster, so that nothing of it reaches a log of the other one."""
UNTOUCHED: Final = Expected("UNKNOWN_TOPIC_ID", other="")
OUT_OF_ORDER: Final = "OUT_OF_ORDER_SEQUENCE_NUMBER"

MAPPING: Final = "InvalidPidMappingException"
EPOCH: Final = "InvalidProducerEpochException"
FENCED: Final = "ProducerFencedException"


def row(*found: Expected) -> dict[str, Expected]:
    """Of each client, in the order of `CLIENTS`."""
    return dict(zip(CLIENTS, found, strict=True))


# Of Y's library where X's has no transactions and Y's has, or the other way: librdkafka.
EXPECTED: Final[dict[str, dict[str, Expected]]] = {
    "none": row(*[Expected(other=None)] * 4, UNKNOWN),
    "same": row(*[Expected(lost=LOST)] * 2, *[Expected(lost=LOST, other=OUT_OF_ORDER)] * 2, UNTOUCHED),
    "tx-same": row(
        Expected(EPOCH),  # transaction version 2: each transaction has an epoch of its own
        Expected(lost=LOST, other="OutOfOrderSequenceException"),
        *[Expected(lost=LOST, other=OUT_OF_ORDER)] * 2,
        UNTOUCHED,
    ),
    "lower": row(  # Java goes on with the next epoch, and fences Y
        *[Expected(EPOCH, other="_FENCED")] * 2, *[Expected("INVALID_PRODUCER_EPOCH")] * 2, UNTOUCHED
    ),
    "idem-tx": row(*[Expected(lost=LOST, other=OUT_OF_ORDER)] * 4, UNTOUCHED),
    "fails": row(  # Java, librdkafka and franz-go begin another epoch, kafkajs does not
        *[Expected(other=EPOCH)] * 2,
        Expected(OUT_OF_ORDER),
        Expected(lost=("x10", "x11"), other=OUT_OF_ORDER),
        UNTOUCHED,
    ),
    # The lane that copied X alone has the sequence numbers of the same records.
    "lane": row(*[Expected(other=None)] * 4, UNKNOWN),
    "prefixed": row(*[Expected(other=None)] * 4, UNKNOWN),
    "tx-none": row(
        *[Expected(MAPPING, other=None)] * 2,
        Expected("_PURGE_QUEUE", other=None),
        Expected("INVALID_PRODUCER_ID_MAPPING", other=None),
        UNKNOWN,
    ),
    "tx-other": row(
        Expected(EPOCH), Expected(MAPPING), Expected("_PURGE_QUEUE"), Expected("INVALID_PRODUCER_ID_MAPPING"), UNTOUCHED
    ),
    "tx-idem": row(  # with transaction version 2 the leader has noted the sequence that it was to verify, and refuses Y's
        Expected(MAPPING, other=OUT_OF_ORDER),
        Expected(MAPPING),
        Expected("_PURGE_QUEUE"),
        Expected("INVALID_PRODUCER_ID_MAPPING"),
        UNTOUCHED,
    ),
    "tx-lower": row(
        Expected(EPOCH), Expected(FENCED), Expected("_FENCED"), Expected("INVALID_PRODUCER_EPOCH"), UNTOUCHED
    ),
    "tx-higher": row(
        Expected(EPOCH), Expected(FENCED), Expected("_FENCED"), Expected("INVALID_PRODUCER_EPOCH"), UNTOUCHED
    ),
}


def cases_of(names: Sequence[str]) -> list[Case]:
    return [replace(CASES[name], client=client) for name in names for client in CLIENTS]


@contextmanager
def a_stage(root: Path, cases: Sequence[Case]) -> Iterator[Stage]:
    with a_site(root, ()) as site, families(site, CLIENTS) as found:
        yield Stage(site, found, cases)


@pytest.fixture(scope="module")
def fast(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with a_stage(tmp_path_factory.mktemp("redirected"), cases_of(FAST)) as stage:
        stage.begin()
        stage.redirect()
        yield stage


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stage, Streams]]:
    names = [name for name in EXPECTED if name not in FAST and name in CASES]
    with a_stage(tmp_path_factory.mktemp("redirected"), [*cases_of(names), *lane_cases(CLIENTS)]) as stage:
        streams = Streams(stage)
        stage.begin()
        streams.begin()
        with lanes(stage):
            pass
        stage.redirect()
        streams.finish()
        yield stage, streams


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", FAST)
def test_redirected_producer_meets_another_with_its_id(fast: Stage, name: str, client: str) -> None:
    found = fast.outcomes[Case(name, client).topic]
    assert seen(found) == EXPECTED[name][client], found


@pytest.mark.long
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", [name for name in EXPECTED if name not in FAST])
def test_redirected_producer_meets_another_kind_with_its_id(
    slow: tuple[Stage, Streams], name: str, client: str
) -> None:
    found = slow[0].outcomes[Case(name, client).topic]
    assert seen(found) == EXPECTED[name][client], found


@pytest.mark.long
def test_redirected_streams_application_begins_with_another_id(slow: tuple[Stage, Streams]) -> None:
    streams = slow[1]
    found = streams.outcome
    assert found.y_id is not None
    assert found.x_id[0] == found.y_id[0]
    assert found.x_id[0] not in {producer for producer, _ in streams.ids_at_lyon()}
    sums = [str(sum(AFTER[: n + 1])) for n in range(len(AFTER))]
    assert [value for value in sums if value in found.log][-1] == sums[-1], found.log
    assert [value for value in found.log if value not in sums] == [f"y{n}" for n in range(14)]
