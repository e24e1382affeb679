"""The ledger: append-only facts of every run, and the blobs that they name.

`tables` (what is stored) → `database` (opening SQLite or PostgreSQL, with every table there) → `ledger` (writing and
reading facts as records), and beside it facts of one kind:
`evaluations`, `retractions`, `pull_requests`, `known_device`; `model_calls` reserves and settles what calls to language
models cost; `blobs` holds what is too big for a row, addressed by content.

What is read from them: `run_report` and `exam_report` say what a run came to, `wins` what it would propose as pull
requests, `promotions` which kernel of a task is the one to ship, `flaws` which may not serve any more. `past_winners`,
`waiting`, `cards` and `proposals` are what later searches and people ask for.
"""
