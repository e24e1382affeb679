"""Running untrusted programs: `sandbox` (the Protocol), `bubblewrap` and `docker_sandbox`, `arena` (shared memory).

In data-flow order: `scratch` holds the program's files, `bubblewrap_launch` starts it under `system_calls`' filter in a
group of `control_groups` with what `program_setting` gives every program, `process_tree` freezes and ends what was
`launched`, `ending` says how it ended and whose fault that was. `arena` carries its inputs and outputs, `runners` are
what goes inside, `python_environment` says how a Python gets to run there, `leftovers` tells what a crash of ours left.

For Docker: `docker_image` makes an image (of `images`, or of `machine_files`), `docker_engine` asks the engine for a
container as `docker_profile` has it, `docker_supervisor` speaks with its first process, `docker_container` holds both.
"""
