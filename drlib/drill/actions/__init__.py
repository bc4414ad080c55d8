"""What steps of a drill do on real clusters: failover, failback and planned switchover, and hooks.

Packages: `failover` decides and drains, `applications` fences and moves the pointer, `groups` moves committed offsets,
`failback` settles what one side alone has and moves the applications back, `hooks` calls other programs. Module `probes` has
the probes of the steady-state hypothesis. `drlib.drill.run.registry` has all of them by name.
Not for: actions that only a lab has (`drlib.drill.scenarios`).
"""
