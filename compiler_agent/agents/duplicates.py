"""Whether two candidates are one kernel: equal but for comments, white space, the order of flags, and macros that
nothing mentions."""

import re

from candidates.candidate import Candidate, LanguageName
from candidates.record import digest_of

# Each alternative also ends where nothing closes it: a hostile text must not be scanned again from every beginning.
_COMMENT_OR_LITERAL = re.compile(
    r'(?P<literal>R"(?P<mark>[^()\\\s"]{0,16})\(.*?(?:\)(?P=mark)"|\Z)|"(?:\\.|[^"\\\n])*"?|\'(?:\\.|[^\'\\\n])*\'?)'
    r"|//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z)",
    re.DOTALL,
)
_MACRO = re.compile(r"\bLAUNCH_(\w+)")
_SPACE_AT_PUNCTUATION = re.compile(r"\s+(?=[^\w\s])|(?<=[^\w\s])\s+")


def key_of(candidate: Candidate) -> str:
    """Equal for candidates that are one kernel."""
    source, parameters = candidate.source, candidate.launch_parameters
    if candidate.language is not LanguageName.TRITON:
        source = normalise(source)
        if "##" not in source:  # which would put names together
            mentioned = set(_MACRO.findall(source))
            parameters = {name: value for name, value in parameters.items() if name in mentioned}
    return digest_of(
        [
            candidate.language.value,
            source,
            candidate.entry,
            candidate.prepare,
            sorted(candidate.build_flags),
            parameters,
        ]
    )


def without_comments(source: str) -> str:
    """C++ or CUDA text with each comment replaced by a space; what looks like one in a string stays."""
    return _COMMENT_OR_LITERAL.sub(lambda found: found.group("literal") or " ", source)


def normalise(source: str) -> str:
    """C++ or CUDA text without comments and without the white space that separates no two words. It need not compile:
    line ends are gone, also where a preprocessor needs them."""
    return _SPACE_AT_PUNCTUATION.sub("", " ".join(without_comments(source).split()))
