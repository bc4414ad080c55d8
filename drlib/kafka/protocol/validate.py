"""Validate the batches of a fetched answer as a whole before any of them is used.

Rules: a checksum covers neither a batch's offset nor its length, so these are compared with their neighbours: offsets rise, no
batch lies beyond the high watermark, and bytes without any batch are an error (a length damaged upwards would otherwise stall
the partition silently). A broker reads the high watermark before the records (Kafka's `Partition.readRecords`), so records
appended in between lie beyond it: `BeyondEnd` alone is no proof of damage, and a later answer decides. Valid batches before
the damage are still returned; the next request begins at the damage and meets it again.
Not for: checksums, which are checked where a batch is used (`drlib.kafka.protocol.batch`).
"""

from drlib.kafka.protocol.batch import BatchHeader, CorruptBatch, iter_batches


class BeyondEnd(CorruptBatch):
    """A batch lies beyond the high watermark of its answer: appended later, or its offset is damaged."""


def sound_batches(records: memoryview, position: int, high_watermark: int) -> list[tuple[BatchHeader, memoryview]]:
    """Header and bytes of each whole batch of an answer to a request at `position` or before.

    Raises `CorruptBatch` when the first batch from `position` on is damaged. A high watermark of -1 is unknown.
    """
    batches: list[tuple[BatchHeader, memoryview]] = []
    end = 0
    try:
        for header, view in iter_batches(records):
            if header.magic >= 2:
                after = header.base_offset + header.last_offset_delta + 1
                if header.base_offset < end or after > high_watermark >= 0:
                    raise _misplaced(header, end, high_watermark)
                end = after
            batches.append((header, view))
    except CorruptBatch:
        if not _advances(batches, position):
            raise
    if not batches and len(records):
        raise CorruptBatch(
            f"the {len(records)} bytes at offset {position} hold no whole batch",
            "a broker never cuts the first batch of an answer, so its length is damaged",
        )
    return batches


def _misplaced(header: BatchHeader, end: int, high_watermark: int) -> CorruptBatch:
    if header.base_offset < end:
        return CorruptBatch(
            f"the batch at offset {header.base_offset} follows one that ends at {end}", "its offset is damaged"
        )
    return BeyondEnd(
        f"the batch at offsets {header.base_offset} to {header.last_offset} lies beyond the log's end",
        f"the high watermark is {high_watermark}, so its offset is damaged",
    )


def _advances(batches: list[tuple[BatchHeader, memoryview]], position: int) -> bool:
    return any(header.next_offset > position for header, _ in batches)
