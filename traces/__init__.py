"""What production asked for. In data-flow order:

`sources` (what is new where production writes) → `formats` (a file becomes `requests`; `sample` is the project's own) →
`replay` (requests become engine steps) → `served_model` and `model_calls` (steps become forward passes of a real model)
→ `find_sites` with `regions` (places in it where a kernel could stand: `sites`) → `capture` (the calls that traffic
makes there, seen by `interpose`).
"""
