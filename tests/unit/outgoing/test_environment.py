"""A child process gets variables by name, and none that holds a secret by chance."""

from __future__ import annotations

import pytest

from drlib.outgoing.environment import NEEDED, child_environment, whole

SECRETS = (
    "KAFKA_PASSWORD", "KAFKA_OPTS", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "GITHUB_TOKEN", "CLIENT_SECRET", "API_KEY",
    "DATABASE_URL", "SLACK_WEBHOOK", "KUBECONFIG", "SSH_AUTH_SOCK", "PGPASSWORD", "VAULT_TOKEN", "JAVA_TOOL_OPTIONS",
    "PYSPARK_SUBMIT_ARGS", "http_proxy", "LC_SECRET", "PATH_SECRET", "drlib_secret", "XDRLIB_SECRET", "HOMES", "path",
)  # fmt: skip


def test_child_environment_has_what_programs_need_and_what_is_named() -> None:
    parent = {**dict.fromkeys(NEEDED, "needed"), **dict.fromkeys(SECRETS, "canary"), "DRLIB_RUNS": "ours"}
    made = child_environment({"TOKEN": "given"}, parent=parent)
    assert made == {**dict.fromkeys(NEEDED, "needed"), "DRLIB_RUNS": "ours", "TOKEN": "given"}


def test_child_environment_given_value_counts_before_the_parents() -> None:
    assert child_environment({"PATH": "/given"}, parent={"PATH": "/parent"}) == {"PATH": "/given"}


def test_whole_has_this_process_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRLIB_TEST_REFERENCE", "canary")
    assert whole({"PYTHONPATH": "x"})["DRLIB_TEST_REFERENCE"] == "canary"
    assert whole({"PYTHONPATH": "x"})["PYTHONPATH"] == "x"


@pytest.mark.parametrize("name", ["FORCE_COLOR", "CLICOLOR_FORCE"])
def test_whole_forces_no_colours_as_a_jupyter_kernel_does(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "1")
    assert name not in whole()
    assert whole({name: "1"})[name] == "1"
