"""The application: everything below, wired together and given a command line.

`main` (the command and its exit codes; `configuration` is the file beneath the environment) → `commands` (one module a
sub-command) → `choose_agents` (who writes, who may be paid, how much) → `local_run` (a run, in the place that
`run_place` finds: that of `up`, or a `temporal_server` and workers of its own), `local_service` (what `up` keeps going,
by its `supervisor`), `schedules` (nightly runs on a server that stays) → `worker` (serves task queues) →
`queue_services` (the activities of each) → `wiring` (which class stands behind which word) → `agents`, `models`
(language models and their budgets). `exam_tasks` are the problems that models are ranked by, `exam_tables` shows how
well they did. `settings` (`setting_keys` lists all), `machine`, `device` and `service_status` say where we are and how
it is; `outcome`, `user_faults` and `report` say how it ended; `backup` and `restore` keep a home.
"""
