"""Clients of language models, and what their calls cost.

`endpoints` (which servers there are) → `apis` (which client stands behind which API name) → `anthropic_messages`,
`openai_chat`, `openai_responses` (one call in one API's words, each a `completion.ModelClient`) → `usage` (which counts
are believed) → `retry`, `redaction` over `texts` (what every call goes through) → `metered` (reserve, call, store,
settle: what agents use), with `prices` and `budget` for the sums. The vendors' SDKs are imported by the three clients
alone, and only when one is opened.
"""
