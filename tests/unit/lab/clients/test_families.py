"""Which families of clients run: by name, and by what the machine has."""

from __future__ import annotations

import pytest

from drlib.errors import UsageError
from drlib.lab.clients.families import ALL, FAMILIES, Machine, Runtime, chosen, missing, on_secured_lab

NAMES = [family.name for family in FAMILIES]


def runtimes(**absent: str) -> list[Runtime]:
    return [Runtime(name, "1.0", absent.get(name, "")) for name in NAMES]


def test_machine_that_has_everything_misses_nothing() -> None:
    assert [missing(name, Machine()) for name in NAMES] == [""] * len(NAMES)


@pytest.mark.parametrize(
    ("name", "machine", "why"),
    [
        ("java", Machine(compiler=False), "a JDK is needed"),
        ("java-3.9", Machine(compiler=False), "a JDK is needed"),
        ("streams", Machine(compiler=False), "a JDK is needed"),
        ("java-3.9", Machine(older_jars=False), "no kafka-clients 3.9"),
        ("streams", Machine(streams_jar=False), "no kafka-streams among the jars: python -m drlib.lab.jars"),
        ("kafkajs", Machine(node=False), "no node on this machine"),
        ("kafkajs", Machine(node=False, kafkajs=False), "no node on this machine"),
        ("kafkajs", Machine(kafkajs=False), "is not fetched: python -m drlib.lab.clients.runtimes"),
        ("franz-go", Machine(go=False, franz_go=False), "no go on this machine"),
        ("franz-go", Machine(franz_go=False), "is not built: python -m drlib.lab.clients.runtimes"),
    ],
)
def test_family_says_what_the_machine_lacks(name: str, machine: Machine, why: str) -> None:
    assert why in missing(name, machine)
    others = [other for other in NAMES if other != name and missing(other, machine)]
    assert others == ([n for n in ("java", "java-3.9", "streams") if n != name] if not machine.compiler else [])


def test_program_that_was_built_elsewhere_runs_without_go() -> None:
    assert not missing("franz-go", Machine(go=False))


def test_all_is_every_family_with_those_that_cannot_run() -> None:
    found = chosen([ALL], runtimes(kafkajs="no node on this machine"))
    assert [each.family for each in found] == NAMES
    assert [each.family for each in found if each.missing] == ["kafkajs"]


def test_families_by_name_come_once_each() -> None:
    assert [each.family for each in chosen(["librdkafka", "java", "java"], runtimes())] == ["java", "librdkafka"]
    assert chosen([], runtimes()) == ()


def test_family_that_was_named_and_cannot_run_is_refused() -> None:
    found = runtimes(kafkajs="no node on this machine")
    for names in (["kafkajs"], [ALL, "kafkajs"]):
        with pytest.raises(UsageError, match=r"clients: kafkajs: no node on this machine\. Leave it out"):
            chosen(names, found)


def test_families_that_cannot_log_in_are_not_run_on_a_secured_lab() -> None:
    found = on_secured_lab(runtimes(java="no JDK"))
    assert {each.family for each in found if not each.missing} == {"java-3.9", "streams", "console", "librdkafka"}
    assert {each.family: each.missing for each in found}["java"] == "no JDK"


def test_machine_that_can_run_no_family_is_refused() -> None:
    with pytest.raises(UsageError, match="no family can run on this machine"):
        chosen([ALL], runtimes(**dict.fromkeys(NAMES, "no")))
