"""Activities, in the order of a run: `survey` → `search` → `live` → `ship` → `pull_requests`, or `search` → `tune` for
one task.

Around a night's run there are `nightly` before and `digest` after it. `heartbeat` keeps long ones alive.
"""
