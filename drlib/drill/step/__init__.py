"""What an action is, and what it is given: its arguments, its context, and where it keeps its output.

Primitives: `action.DrillAction`, `action.ReadOnlyAction` and `action.DrillProbe`; types of arguments in `argument_types`;
`context.DrillContext`. Modules: `flow_arguments` for actions on one flow, `step_output` for rows and scorecard parts,
`rto_clock` for moments of a run, `cluster_identity` for the ID of a cluster.
"""
