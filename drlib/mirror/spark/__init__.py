"""Run the mirror's workers as tasks on a Spark cluster (`drlib mirror --spark`).

- `driver`: submits one Spark job a worker, restarts workers, stops all of them; `rules`: its decisions, pure.
- `task`: what a Spark task runs on an executor; `child_worker`: the worker process that it holds.
- `control_channel`: the driver's server for its tasks.
"""
