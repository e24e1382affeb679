"""The web page and API over the ledger: what won last night, why it is trusted, and the little that may be changed.

`app` puts it together: `http` (what every request passes) → `pages` (HTML) and `api`, `feed` (JSON, CSV, Atom) →
`board` (what they read) over `candidates.ledger`. `filters` are the URL's side of the one ranking, `wording` how
figures read, `charts` the drawings. `access` stands before a change, `webhooks` tell others.

It needs no login to read, and takes every text that it shows for hostile.
"""
