"""The lab's applications: real producers and consumers, one process each, that follow the active-cluster pointer.

Rules: an application is a process (`python -m drlib.lab.apps.producer SPEC.json`), reads one small spec file,
keeps a history of what it saw, ends on SIGTERM with exit code 0, and never decides which cluster is active: the
pointer does.
Not for: judging (`drlib.lab.checker.failover`), mirroring, or moving the pointer.
"""
