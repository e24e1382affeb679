"""Durable order of a run: `tuning_run` → a child `kernel_search` per hot op → `ship_winner`.

A schedule starts a `nightly_run`, which takes new traffic and has a `tuning_run` as its child. `promote_kernels` ships
what earlier runs found; `tune_task` runs one `kernel_search` for a task of the ledger, `model_exam` one after the other
for several. Workflows decide order, budgets and retries alone; what is done is in `activities/`, which read and write
the ledger. Payloads (`payloads`) carry ids. `queues` says which kind of worker does what.
"""
