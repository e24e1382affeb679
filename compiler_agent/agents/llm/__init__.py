"""The llm agent: language models write kernels, judged and measured attempts teach them; no authority but the judge's.

In the order of the data: `history` reads the attempts into rounds → `plan` says what this round asks for, or why the
search stops → `model_choice` says of whom → `prompts` with `prompt_sections`, `diagnosis` and `quoting` write what is
asked → `round_calls` asks, in parallel and once again where an answer is of no use → `replies` takes the kernel out of
an answer, `duplicates` drops what was tried → `agent` proposes the rest. `collaborators` is all that it is given.
"""
