"""The ledger: append-only facts of every run, and the blobs that they name.

`tables` (what is stored) → `schema` (a database's revision, and how `migrations` bring it to this version's) →
`database` (opening SQLite or PostgreSQL) → `ledger` (writing and reading facts as records), and beside it facts of one
kind: `evaluations`, `approvals`, `retractions`, `pull_requests`, `deliveries`, `known_device`, `nights`; `model_calls`
reserves and settles what calls to language models cost; `blobs` holds what is too big for a row, addressed by content.

`standings` keeps what is last known of each candidate on one indexed line, as facts come; `find_standings` is the one
ranking over those lines, `op_standings` what a page about one op asks for.

`copy_ledger` moves a ledger, `check` says whether it is whole, `prune` lets go of what was kept long enough;
`object_blobs` is where blobs lie off this machine, `faults` are the names of what passes.

What is read from facts: `run_states` says whether a run goes on, `run_report` and `exam_report` what it came to,
`attempt_counts` how its attempts went, `events` what others are told, `wins` what a run would propose as pull requests,
`promotions` which kernel of a task is the one to ship, `flaws` which may not serve any more. `past_winners`, `waiting`,
`cards` and `proposals` are what later searches and people ask for.
"""
