"""One page a module, each with a `router`; `render` fills the templates.

`home` (what last night won) → `op` → `candidate` → `compare`; `runs` (past and running) and `builds` (what is live).
"""
