"""Running untrusted programs: `sandbox` (the Protocol), `bubblewrap` (a sandbox), `arena` (memory shared with one).

In data-flow order: `scratch` holds the program's files, `bubblewrap_launch` starts it under `system_calls`' filter in a
group of `control_groups`, `process_tree` freezes and ends it, `ending` says how it ended and whose fault that was.
`arena` carries its inputs and outputs, `runners` are what goes inside, `leftovers` tells what a crash of ours left.
`python_environment` says how a Python gets to run inside.
"""
