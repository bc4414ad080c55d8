"""Applications that move in waves: each wave is served on the target before the next one is moved.

Modules: `rules` says which wave has which groups and topics, and `missed` what it is missing (both pure); `arguments` is what
the steps of one drill have in common; `move` moves the pointers of a wave in an emergency, `switchover` holds and moves a wave
while both clusters serve, `verify` observes that a wave is served.
"""
