"""The web page and API over the ledger. Not part of this release: nothing is here yet."""
