"""Unmodified clients at one bootstrap address while their cluster is killed, and the pointer names another one."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from fix_engine import create_topic, read_all, wait_for
from testbed_bootstrap import Client, Process, Site, a_site, arrivals, records_to
from testbed_streams import sums_command

REQUIRED = (
    Client("java", "consume"),
    Client("java", "produce"),
    Client("confluent", "consume"),
    Client("confluent", "produce"),
)
BY_RESTART = (Client("kafka-python", "consume"), Client("kafka-python", "produce"))
OTHERS = (
    Client("java-3.9.1", "consume"),
    Client("java-3.9.1", "produce"),
    Client("java-3.9.1", "consume", ("metadata.recovery.strategy=rebootstrap",)),
    Client("java-3.9.1", "produce", ("metadata.recovery.strategy=rebootstrap",)),
    Client("aiokafka", "consume"),
    Client("aiokafka", "produce"),
)


def continued(
    site: Site, clients: tuple[Client, ...], deadline_s: float, needed: tuple[Client, ...]
) -> dict[str, float]:
    """Move the pointer to lyon; by client, seconds until its first record there. Waits for those `needed`."""
    after: dict[str, float] = {}
    with records_to(site, "lyon", clients), arrivals(site, "lyon", clients) as written:
        moved_at = site.move("lyon")
        until = time.monotonic() + deadline_s

        def all_continue() -> bool:
            for client in clients:
                at = site.read(client, "lyon-") if client.role == "consume" else next(iter(written(client)), None)
                if at is not None:
                    after[client.name] = round(at - moved_at, 1)
            return {each.name for each in needed} <= after.keys() and (
                len(after) == len(clients) or time.monotonic() > until
            )

        wait_for("they continue on lyon", all_continue, deadline_s + 30)
    return after


def test_clients_continue_on_the_next_cluster_when_theirs_was_killed(tmp_path: Path) -> None:
    clients = REQUIRED + BY_RESTART
    with a_site(tmp_path, clients) as site:
        site.lab.clusters["paris"].kill()
        wait_for("it is noticed", lambda: bool(site.notes("open")))
        after = continued(site, REQUIRED, 45, REQUIRED)  # the others do not, as the page says
        print(json.dumps(after, indent=1))
        (moved,) = site.notes("moved")
        assert moved["entity"] == "lyon"
        for client in BY_RESTART:
            site.restart(client)
        restarted = time.monotonic()
        with records_to(site, "lyon", clients), arrivals(site, "lyon", clients) as written:
            reader, writer = BY_RESTART
            wait_for("restarted, it reads", lambda: site.read(reader, "lyon-", restarted) is not None)
            wait_for("restarted, it writes", lambda: any(at > restarted for at in written(writer)))
        process = site.processes["bootstrap"].child
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        # No pointer can be read any more: it continues where it was.
        site.lab.clusters["lyon"].kill()
        site.start_address("--state", str(tmp_path / "state.json"))
        (_, again) = site.notes("listening")
        assert again["entity"] == "lyon"


def test_clients_of_a_living_cluster_stay_there_when_the_pointer_moves_and_new_ones_do_not(tmp_path: Path) -> None:
    reader = Client("confluent", "consume")
    with a_site(tmp_path, (reader,)) as site:
        site.move("lyon")
        wait_for("it moves", lambda: bool(site.notes("moved")))
        since = time.monotonic()
        with records_to(site, "paris", (reader,)):
            wait_for("it still reads paris", lambda: site.read(reader, "paris-", since) is not None)
        site.restart(reader)
        with records_to(site, "lyon", (reader,)):
            wait_for("restarted, it reads lyon", lambda: site.read(reader, "lyon-") is not None)


@pytest.mark.long
def test_clients_of_other_versions_continue_with_the_settings_of_the_page(tmp_path: Path) -> None:
    needed = (OTHERS[2], OTHERS[3])
    with a_site(tmp_path, OTHERS) as site:
        site.lab.clusters["paris"].kill()
        after = continued(site, OTHERS, 60, needed)
        print(json.dumps(after, indent=1))
        assert after.keys() == {each.name for each in needed}, "the page says that the others do not"


@pytest.mark.long
def test_streams_application_continues_on_the_next_cluster_when_its_own_was_killed(tmp_path: Path) -> None:
    with a_site(tmp_path, ()) as site:
        bootstrap = {alias: site.lab.clusters[alias].bootstrap for alias in site.lab.aliases}
        for topic in ("numbers", "totals"):
            for alias in site.lab.aliases:
                create_topic(bootstrap[alias], topic, 1)
        command = sums_command(site.address, "sums", tmp_path / "state", "numbers", "totals")
        site.processes["sums"] = Process(command, tmp_path / "sums.log")

        def total(alias: str, count: int) -> None:
            """Write the numbers below `count`, and wait for their sum."""
            producer = Producer({"bootstrap.servers": bootstrap[alias], "log_level": 0})
            for number in range(count):
                producer.produce("numbers", str(number), f"{number}/k")
            producer.flush(20)
            wanted = str(sum(range(count))).encode()
            wait_for(f"the sum of {alias}", lambda: wanted in totals(alias), 90)

        def totals(alias: str) -> list[bytes | None]:
            return [value for _, value, _, _ in read_all(bootstrap[alias], "totals", 1)[0]]

        total("paris", 30)
        site.lab.clusters["paris"].kill()
        wait_for("it is noticed", lambda: bool(site.notes("open")))
        site.move("lyon")
        moved = time.monotonic()
        total("lyon", 5)  # of lyon's numbers alone: the state is what lyon has of the changelog, which is nothing here
        print("Kafka Streams continued after", round(time.monotonic() - moved, 1), "s")
