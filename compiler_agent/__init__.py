"""The application: everything below, wired together and given a command line.

`main` (the command and its exit codes) → `commands` (one module a sub-command) → `choose_agents` (who writes, who may
be paid, how much) → `local_run` (a run on this machine: `temporal_server`, workers as `child_processes`, `progress`) →
`worker` (serves task queues), `schedules` (nightly runs on a server that stays) → `wiring` (which class stands behind
which word) → `agents`, `models` (language models and their budgets). `exam_tasks` are the problems that models are
ranked by, `exam_tables` shows how well they did. `settings`, `machine` and `device` say where we are; `outcome`,
`user_faults` and `report` say how it ended.
"""
