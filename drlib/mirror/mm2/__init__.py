"""MirrorMaker 2's records and stored state: written for its clients, read to take a flow over from it.

- `records`, `offset_syncs`, `writer`: what MM2 writes beside the copies, and when
- `connect_offsets`, `consumer_offsets`: formats of Connect's topics and of `__consumer_offsets`
- `takeover`, `takeover_rules`: where a flow continues that MM2 has copied so far
"""
