"""Running untrusted programs: `sandbox` (the Protocol), `bubblewrap` (a sandbox), `arena` (memory shared with one).

In data-flow order: `scratch` holds the program's files, `bubblewrap` starts it under `system_calls`' filter,
`process_tree` freezes and ends it, `arena` carries its inputs and outputs, `runners` are what goes inside.
"""
