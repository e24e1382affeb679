"""Where a repository on GitHub or GitHub Enterprise lies, without PyGithub: what only names one needs no more."""

from urllib.parse import urlsplit

from candidates.forge import ForgeRefused

API_URL = "https://api.github.com"


def repository_name(url: str) -> str:
    """Of its address for git, as reports name it."""
    return url.removesuffix(".git")


def git_url(api_url: str, name: str) -> tuple[str, str]:
    """Of the repository, and its protocol. Raises ForgeRefused for an address that would show the token to others."""
    try:
        address = urlsplit(api_url)
    except ValueError:  # its text has the address
        address = urlsplit("")
    is_this_machine = address.hostname in ("127.0.0.1", "::1", "localhost")
    if address.hostname is None or address.username is not None:
        raise ForgeRefused(
            "COMPILER_AGENT_FORGE_URL is no address of an API: set it to https://HOST/api/v3, without a user in it"
        )
    if address.scheme != "https" and not (address.scheme == "http" and is_this_machine):
        raise ForgeRefused("COMPILER_AGENT_FORGE_URL would show the token to everybody on the way: use https")
    host = "github.com" if address.hostname == "api.github.com" else address.netloc
    return f"{address.scheme}://{host}/{name}.git", address.scheme
