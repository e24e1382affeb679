"""Say: how a past's texts are written, as they are or with what an attacker would put in their place."""

from collections.abc import Callable, Sequence

from candidates.promotion import Gate

Say = Callable[[str], str]

PAYLOAD = (
    "<script>window.pwned=1</script>"
    "\"><img src=x onerror=window.pwned=1>'"
    "</textarea></title></pre><svg onload=window.pwned=1>"
    "{{7*7}}{% raw %}"
    "\u202egpj.exe"
    "]]>--><!--&lt;b&gt;"
)
"""In one string: a text that is not escaped once is found whichever way it is not."""
LINK = "javascript:window.pwned=1"
"""In place of an address."""


def as_it_is(text: str) -> str:
    return text


def hostile(text: str) -> str:
    return f"{text}{PAYLOAD}"


def briefly(say: Say, text: str) -> str:
    """As `say` would, where there is little room."""
    return text if say is as_it_is else f"{text}<img src=x onerror=window.pwned=1>"


def say_gates(say: Say, gates: Sequence[Gate]) -> tuple[Gate, ...]:
    """A gate's figure may be a text."""
    if say is as_it_is:
        return tuple(gates)
    return tuple(
        Gate(name=say(gate.name), figure=say(str(gate.figure)), bound=say(gate.bound), passed=gate.passed)
        for gate in gates
    )


def is_hostile(text: str) -> bool:
    return "window.pwned" in text
