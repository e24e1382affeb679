"""The table of settings in docs/operations.md: `python -m tests.compiler_agent.settings_table` writes it anew."""

from pathlib import Path

from compiler_agent.setting_keys import HOME_FOLDER, KEYS

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "operations.md"
HEAD = "| key | variable | default | what it is |\n|---|---|---|---|\n"


def table() -> str:
    rows = []
    for key in KEYS:
        name = f"*{key.name}* (no key: a secret)" if key.is_secret else f"`{key.name}`"
        default = f"`{key.default.replace(HOME_FOLDER, '…home')}`" if key.default else ""
        rows.append(f"| {name} | `{key.variable}` | {default} | {key.sentence} |\n")
    return HEAD + "".join(rows)


def documented() -> str:
    """The one that the document has now."""
    text = DOCUMENT.read_text()
    begin = text.index(HEAD)
    end = text.find("\n\n", begin)
    return text[begin : len(text) if end < 0 else end + 1]


if __name__ == "__main__":
    DOCUMENT.write_text(DOCUMENT.read_text().replace(documented(), table()))
