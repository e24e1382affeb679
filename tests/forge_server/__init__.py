"""A GitHub of the tests: its REST API as far as it is used, with a real git over HTTP behind it.

repository    a bare repository with a working history, and what people do to it
pulls         pull requests and their JSON, as GitHub's documentation has them
faults        what goes wrong, and when
server        HTTP: tokens, pages, rate limits, git
"""
