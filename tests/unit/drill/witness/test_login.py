"""What a witness and those who ask it prove to each other, and where the token comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.decoding import Undecodable
from drlib.drill.witness.login import Question, decode, login_of, token_to_serve
from drlib.errors import UsageError

TOKEN = "a token of some letters"


def settings(tmp_path: Path, *lines: str) -> MirrorSettings:
    path = tmp_path / "mm2.properties"
    path.write_text("clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\n" + "\n".join(lines) + "\n")
    return load_mirror_settings(path)


def test_question_is_of_who_holds_the_token_and_its_answer_is_for_it_alone() -> None:
    first, second = Question.new(TOKEN), Question.new(TOKEN)
    assert first.number != second.number
    assert decode(first.header) == first
    assert first.holds(TOKEN)
    assert not first.holds("another of some letters")
    assert not Question(second.number, first.proof).holds(TOKEN)
    proof = first.answered(TOKEN, "said")
    assert first.proves(TOKEN, "said", proof)
    assert not first.proves(TOKEN, "other", proof)
    assert not second.proves(TOKEN, "said", proof)
    assert not first.proves(TOKEN, "", first.proof)  # a question is no answer
    assert TOKEN not in first.header


@pytest.mark.parametrize("header", ["", "DrlibWitness", "Bearer x", "DrlibWitness " + "0" * 32 + ":" + "0" * 63 + "G"])
def test_decode_any_other_header_is_none(header: str) -> None:
    with pytest.raises(Undecodable):
        decode(header)


def test_login_of_a_file_is_its_reference_where_it_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = settings(tmp_path, "drlib.witness.token = ${env:WITNESS_TOKEN}", "drlib.witness.ca = /etc/ca.pem")
    assert TOKEN not in repr(found)
    missing = login_of(found)
    assert (missing.token, missing.ca) == ("", Path("/etc/ca.pem"))
    assert "WITNESS_TOKEN" in missing.why
    with pytest.raises(UsageError, match="has no value"):
        token_to_serve(found)
    monkeypatch.setenv("WITNESS_TOKEN", f" {TOKEN}\n")
    assert login_of(found).token == token_to_serve(found) == TOKEN
    assert TOKEN not in repr(login_of(found))
    monkeypatch.setenv("WITNESS_TOKEN", "short")
    assert login_of(found).token == ""
    with pytest.raises(UsageError, match="fewer than 16 letters") as short:
        token_to_serve(found)
    assert "short" not in str(short.value)


def test_login_of_a_file_without_a_token_says_so(tmp_path: Path) -> None:
    found = settings(tmp_path)
    assert login_of(found).why == "drlib.witness.token is not set"
    assert token_to_serve(found) == ""


def test_token_that_is_written_out_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="written out") as refused:
        settings(tmp_path, f"drlib.witness.token = {TOKEN}")
    assert TOKEN not in str(refused.value)
