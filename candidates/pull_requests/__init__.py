"""Pull requests: from the wins of a run to changes that people merge, and from a merge to an approval.

win              a promoted kernel with all that is said of it; which wins go together; `ledger.wins` reads them
hostile_text     names, notes and sources of others, made fit for a pull request
kernel_check     the test that goes with a kernel, without its kernel; kernel_speed: its part that compares speeds
generated_test   both of them, with a kernel's task filled in
kernel_files     what is merged to be served: sources and dispatch entries
body             the text; draft: text, files and manifest together
facts            what was done with each; `ledger.pull_requests` keeps it
decide           whether to open, update or leave one: a pure function of what the ledger and the forge know
publish          carries that out on a `Forge`, repeatable after a kill anywhere; supersedes older ones
follow           what people did since: merged, closed; the merge that approves a build
desk             all of it together, as commands and workflows ask for it
"""
