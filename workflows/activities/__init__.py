"""Activities, in the order of a run: `survey` → `search` → `live` → `ship` → `pull_requests`, or `search` → `tune` for
one task.

`heartbeat` keeps long ones alive.
"""
