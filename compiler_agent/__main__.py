"""`python -m compiler_agent` is `compiler-agent`."""

from compiler_agent.main import main

main()
