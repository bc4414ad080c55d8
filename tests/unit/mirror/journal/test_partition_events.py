"""Events of partitions in words."""

from drlib.mirror.journal.partition_events import lost_text


def test_lost_text_of_a_repartition_topic_says_that_its_application_deletes_records() -> None:
    assert lost_text("orders", 3, 10) == "offsets 3 to 9 expired before they were read"
    assert lost_text("app-by-key-repartition", 3, 10).startswith(
        "offsets 3 to 9 expired before they were read: Kafka Streams"
    )
