"""Make positions in what another replicator copied exact, by comparing both logs in the background.

Rules: the copy comes first; what the logs do not prove stays as rough as it was.
"""
