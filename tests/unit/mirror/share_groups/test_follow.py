"""What an event about share groups that could not be read advises."""

from drlib.errors import Unreachable
from drlib.kafka.admin.errors import ClusterRefused
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.share_groups.names import STATE_TOPIC
from drlib.mirror.share_groups.follow import SILENT, unread

SOURCE = ClusterSettings("A", ("a:9092",))


def test_unread_silent_broker_is_no_missing_right() -> None:
    silent = Unreachable("describing group g", "it stayed silent.", "Look at it.")
    assert unread({"g": silent}, silent, SOURCE) == {
        "g": ("it stayed silent.", SILENT),
        STATE_TOPIC: ("which records share groups have acknowledged is not known: it stayed silent.", SILENT),
    }


def test_unread_refused_group_has_the_right_and_the_remedy_of_the_event() -> None:
    refused = ClusterRefused("describing group g", "A", "no", code="GROUP_AUTHORIZATION_FAILED")
    ((detail, remedy),) = unread({"g": refused}, None, SOURCE).values()
    assert "--operation Describe --group g" in detail
    assert remedy == ""
