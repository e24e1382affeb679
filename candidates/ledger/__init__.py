"""The ledger: append-only facts of every run, and the blobs that they name.

`tables` (what is stored) → `ledger` (writing and reading facts as records) → `wins` (the one ranking query that page,
API and CLI share); `model_calls` reserves and settles what calls to language models cost; `blobs` holds what is too
big for a row, addressed by content. `run_report` and `exam_report` say what a run came to. `past_winners`,
`cards` and `proposals` are what later searches and people ask for.
"""
