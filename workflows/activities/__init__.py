"""Activities, in the order of a run: `traffic` → `survey` → `search` → `ship`; `heartbeat` keeps long ones alive."""
