"""The way back after a failover, and planned switchovers between two clusters that both serve.

Modules: `actions` verifies the flow back, waits for it and translates groups' positions; `unreplicated_actions` lists and
settles the records that only the former source has; `switchover` holds the applications and moves them; `precompute`
translates positions before they are held.
"""
