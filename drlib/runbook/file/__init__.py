"""What a runbook's YAML file says: parsed, checked key by key, and refused with the place of what is wrong.

Modules: `model` is the whole file, `drill_section` its drill, `parameters` what a notebook takes, `schedule` and `calendar`
when it is due.
"""
