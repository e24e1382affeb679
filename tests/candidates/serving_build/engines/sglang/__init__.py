"""A stand-in for SGLang: the names that our plugin uses, as in SGLang 0.5.23. No line of it is SGLang's."""
