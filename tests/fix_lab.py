"""Real clusters for tests: `lab` once a session, `lab_factory` for tests that break their own.

A missing Java or jar fails the tests that need a broker; it does not skip them.
"""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping

import pytest

from drlib.lab import jars
from drlib.lab.lab import Lab

LabFactory = Callable[..., Lab]
# Records of any date stay. By default a broker deletes, 30 s after its start and every five minutes, what is older than a week.
KEEP = {"log.retention.ms": "-1"}
# Of 400 connections opened at once, the default of 50 drops those that a busy broker has not accepted yet.
MANY_AT_ONCE = {"socket.listen.backlog.size": "1000"}


def pytest_report_header() -> str:
    return f"kafka: {jars.KAFKA_VERSION}, {len(jars.missing(jars.locked_jars()))} of {len(jars.locked_jars())} jars missing"


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """LEFT and RIGHT, up. Shared by the whole session: use `fresh_topic`, leave brokers and links healthy."""
    with Lab(tmp_path_factory.mktemp("lab"), extra=KEEP | MANY_AT_ONCE) as shared:
        yield shared


@pytest.fixture
def left(lab: Lab) -> str:
    """bootstrap.servers of LEFT."""
    return lab.clusters["LEFT"].bootstrap


@pytest.fixture
def right(lab: Lab) -> str:
    """bootstrap.servers of RIGHT."""
    return lab.clusters["RIGHT"].bootstrap


@pytest.fixture
def fresh_topic(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """A function that makes topic names unique to this test: `fresh_topic("orders")`."""
    test = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name)[:40]
    serial = itertools.count(1)
    run = uuid.uuid4().hex[:6]

    def fresh(prefix: str = "topic") -> str:
        return f"{prefix}.{test}.{run}.{next(serial)}"

    return fresh


@pytest.fixture
def lab_factory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabFactory]:
    """Running labs of the test's own, stopped after it: `lab_factory(aliases=("ONE",), extra={...}, brokers=1)`."""
    made: list[Lab] = []

    def make(
        aliases: tuple[str, ...] = ("LEFT", "RIGHT"), *, extra: Mapping[str, str] | None = None, brokers: int = 1
    ) -> Lab:
        one = Lab(tmp_path_factory.mktemp("own-lab"), aliases, extra=KEEP | dict(extra or {}), brokers=brokers)
        made.append(one)
        return one.up()

    yield make
    for one in made:
        one.down()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        labs = [value for value in getattr(item, "funcargs", {}).values() if isinstance(value, Lab)]
        for one in labs:
            for cluster in one.clusters.values():
                for broker in cluster.brokers:
                    report.sections.append((f"log of {broker.name}", broker.log_tail()))
    return report
