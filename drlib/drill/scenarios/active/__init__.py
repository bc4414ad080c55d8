"""The active/active drill: every cluster has its own applications, and every topic is mirrored to every other cluster.

`actions` starts, joins and settles, `measurements` counts link bytes and pauses around a kill, `proof` judges, `testbed` names
the applications and their topics, and is the base of these steps.
"""
