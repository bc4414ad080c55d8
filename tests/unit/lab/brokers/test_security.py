"""What a secured lab writes: who logs in where, and that no file but one holds a password."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from drlib.client.pointer import Pointer
from drlib.kafka.java_formats.properties import read
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.apps import specs
from drlib.lab.brokers.security import ADMIN, BROKER, MODES, ROLES, Vault
from drlib.lab.connection import connection


@pytest.mark.parametrize("mode", sorted(MODES))
def test_vault_files_refer_to_passwords_that_one_private_file_holds(tmp_path: Path, mode: str) -> None:
    vault = Vault(tmp_path, MODES[mode])
    vault.prepare()
    words = [entry.value for entry in read(vault.passwords).effective().values()]
    files = [vault.client_file(user) for user in vault.security.users]
    written = [*(file.read_text() for file in files), str(vault.broker_properties())]
    assert len(words) == len(vault.security.users) + 1
    assert not [word for word in words for text in written if word in text]
    assert {stat.S_IMODE(file.stat().st_mode) for file in (vault.passwords, *files)} == {0o600}


def test_authorized_lab_has_no_super_user_but_admin_and_brokers() -> None:
    vault = Vault(Path("/nowhere"), MODES["scram"])
    assert {*vault.security.users} == {*ROLES, ADMIN}
    assert vault.default_user("LINK") == "mirror"
    assert vault.default_user("CLIENT") == ADMIN


def test_authorized_brokers_offer_the_chosen_mechanism_only(tmp_path: Path) -> None:
    vault = Vault(tmp_path, MODES["plain"])
    vault.prepare()
    made = vault.broker_properties()
    assert made["listener.name.client.sasl.enabled.mechanisms"] == "PLAIN"
    assert made["super.users"] == f"User:{BROKER};User:{ADMIN}"
    assert "allow.everyone.if.no.acl.found" not in made


def test_application_reaches_the_pointers_address_with_its_client_file(tmp_path: Path) -> None:
    vault = Vault(tmp_path, MODES["plain"])
    vault.prepare()
    spec = specs.ProducerSpec("p", "h", client=str(vault.client_file("application")))
    where = specs.where(spec, Pointer(1, "lyon", "a:1,b:2"))
    assert isinstance(where, ClusterSettings)
    assert where.bootstrap_servers == ("a:1", "b:2")
    made = connection(where)
    assert made["sasl.username"] == "application"
    assert made["sasl.password"] == read(vault.passwords).effective()["application"].value
    assert specs.where(specs.ProducerSpec("p", "h"), Pointer(1, "lyon", "a:1")) == "a:1"


def test_application_with_a_network_of_its_own_uses_it_for_the_clusters_that_have_one() -> None:
    spec = specs.ProducerSpec("p", "h", addresses={"lyon": "b:2"})
    assert [specs.where(spec, Pointer(1, alias, "a:1")) for alias in ("lyon", "paris")] == ["b:2", "a:1"]
