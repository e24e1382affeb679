"""The search agent: graph -> program of loop nests -> C++ under a schedule -> a search over schedules."""
