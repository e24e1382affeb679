"""What stands before a change: `tokens` (who may), `token_words` (what the page says of them), `form_stamps` (that a
form is ours), `actions` (what may be done)."""
