"""A stand-in for vLLM: the names that our plugin uses, as vLLM 0.33 documents them. No line of it is vLLM's."""
