"""Offsets on both sides of a flow.

`map` builds the exact offset map from the journal, `comparison` extends it to what another replicator copied, `translation`
turns positions of groups and of applications that keep their own offsets into positions on the other cluster, `unreplicated`
finds and settles the records that only one side has.
"""
