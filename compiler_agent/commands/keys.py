"""`compiler-agent keys`: the key that signs this home's builds, and its public half for serving processes to trust."""

import typer

from candidates.serving_build.runtime import TRUSTED_KEYS
from candidates.serving_build.signing import key_file, make_key, public_key
from compiler_agent.commands.options import JsonOption
from compiler_agent.outcome import ExitCode, UserFault, print_json, progress_console, result_console
from compiler_agent.settings import read_settings

app = typer.Typer(help="The key that signs builds: make it, show its public half.", no_args_is_help=True)


@app.command()
def new(json: JsonOption = False) -> ExitCode:
    """Makes the private key that builds are signed with from now on, a file that only you can read.

    It lies under $COMPILER_AGENT_HOME/keys, or where COMPILER_AGENT_SIGNING_KEY says. Earlier builds are signed by
    `builds sign`.

    Example: compiler-agent keys new
    """
    return _print(make_key(read_settings().home), json)


@app.command()
def show(json: JsonOption = False) -> ExitCode:
    """Prints the public key.

    Example: compiler-agent keys show
    """
    home = read_settings().home
    public = public_key(home)
    if public is None:
        raise UserFault(f"no key in {key_file(home)}: `compiler-agent keys new` makes one")
    return _print(public, json)


def _print(public: str, json: bool) -> ExitCode:
    if json:
        print_json({"public_key": public, "private_key_file": str(key_file(read_settings().home))})
    else:
        result_console.print(public, highlight=False)
        progress_console.print(f"Serving processes trust it by {TRUSTED_KEYS}.", highlight=False)
    return ExitCode.DONE
