"""The network between the clusters of a lab: a TCP proxy whose toxics delay, throttle, blackhole or cut a link.

`remote.LinkProxy` controls the proxy process, `proxy` is that process, `link` one listener with its connections, `toxics`
the arithmetic of delay and bandwidth. `sizing` predicts what a mirror reaches over a link.
"""
