"""Decide what of a source's configurations, ACLs and committed offsets is copied to the target. Pure: no I/O, no clock."""
