"""The roles that need rights on clusters. Not for: which rights (`drlib.drill.readiness.required_rights`)."""

from enum import StrEnum


class Role(StrEnum):
    MIRROR = "mirror"
    DRILL = "drill"
    DOCTOR = "doctor"
    AUDIT = "audit"
