"""Inputs that the fuzzer makes: the same ones for a seed, mostly near the samples, never too large."""

from __future__ import annotations

import json
import tracemalloc
from random import Random

from fuzz.mutate import MOST_BYTES, _encoded, mutated

SAMPLES = ((b"key-1", b'{"a": [1, {"b": "text"}], "c": null}'), (b"key-2", b"\x00\x01" * 200))


def test_mutated_same_seed_gives_the_same_cases() -> None:
    first = [mutated(SAMPLES, Random(f"7 {number}")) for number in range(200)]
    assert first == [mutated(SAMPLES, Random(f"7 {number}")) for number in range(200)]
    assert first != [mutated(SAMPLES, Random(f"8 {number}")) for number in range(200)]


def test_mutated_keeps_the_number_of_parts_and_a_limit() -> None:
    cases = [mutated(SAMPLES, Random(number)) for number in range(3000)]
    assert {len(case) for case in cases} == {2}
    sizes = sorted(len(part) for case in cases for part in case)
    assert sizes[-1] <= MOST_BYTES
    assert sizes[len(sizes) // 2] < 500


def test_mutated_json_is_often_json_of_another_content() -> None:
    sample = ((json.dumps({"a": [1, 2, {"b": "x"}], "c": True}).encode(),),)
    read: list[object] = []
    for number in range(1000):
        (data,) = mutated(sample, Random(number))
        try:
            read.append(json.loads(data))
        except (ValueError, RecursionError):
            continue
    different = {repr(value) for value in read}
    assert len(read) > 200
    assert len(different) > 100


def test_encoded_repeated_items_of_repeated_items_take_no_more_memory_than_a_case() -> None:
    value: object = "a" * 20_000
    for _ in range(3):
        value = [value] * 50  # 2.5 GB of JSON
    tracemalloc.start()
    assert len(_encoded(value, ensure_ascii=True)) <= 2 * MOST_BYTES
    assert tracemalloc.get_traced_memory()[1] < 16 * MOST_BYTES
    tracemalloc.stop()
