"""Revisions of the ledger's schema: `candidates.ledger.schema` has Alembic run `env`, which runs `versions`."""
