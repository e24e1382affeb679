"""written_bytes: how long a text is at most as a page writes it: escaped for HTML, its controls shown."""


def written_bytes(text: str) -> int:
    """A quote becomes five bytes, an unprintable character ten."""
    marks = sum(map(text.count, "&<>\"'"))
    breaks = text.count("\n") + text.count("\t")
    plain = text.replace("\n", " ").replace("\t", " ")
    if plain.isprintable():
        return len(text.encode()) + 4 * marks
    odd = sum(not character.isprintable() for character in plain)
    return len(text.encode(errors="replace")) + 4 * marks + 10 * odd + breaks
