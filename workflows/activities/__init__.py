"""Activities, in the order of a run: `survey` → `search` → `ship`, or `search` → `tune` for one task.

`heartbeat` keeps long ones alive.
"""
