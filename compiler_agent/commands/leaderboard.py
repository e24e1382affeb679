"""`compiler-agent leaderboard`: the web page and API over the ledger, and the tokens that may act on it."""

import contextlib
import ipaddress
import logging
import os
import socket
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from candidates.ledger.ledger import Ledger
from candidates.serving_build.builds import BuildStore
from compiler_agent import readiness
from compiler_agent.blob_store import open_blobs
from compiler_agent.board_actions import BuildActions
from compiler_agent.board_settings import BoardSettings, read_board_settings
from compiler_agent.commands.options import JsonOption
from compiler_agent.log_lines import configure_logs
from compiler_agent.models.endpoints import known_secrets, read_endpoints
from compiler_agent.models.redaction import Redactor
from compiler_agent.ordinary_user import require_ordinary_user
from compiler_agent.outcome import ExitCode, UserFault, print_json, result_console
from compiler_agent.settings import Settings, read_settings
from compiler_agent.webhook_settings import read_webhook_targets
from leaderboard.access.tokens import TokenFile

if TYPE_CHECKING:
    import uvicorn

app = typer.Typer(help="The web page and API over the ledger.", invoke_without_command=True)
tokens = typer.Typer(help="Tokens with which people act on the page: new, list, remove.", no_args_is_help=True)
app.add_typer(tokens, name="token")

NameArgument = Annotated[str, typer.Argument(help="Who acts with it; recorded with what they do.")]


@app.callback()
def leaderboard(
    context: typer.Context,
    host: Annotated[
        str | None,
        typer.Option(
            help="Address to listen at, 127.0.0.1 by default. Whoever reaches it can read everything in the ledger."
        ),
    ] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="8400 by default; 0: one that is free.")] = None,
    allowed_host: Annotated[
        list[str] | None, typer.Option(help="A name that browsers may know the page by; may be given several times.")
    ] = None,
) -> ExitCode | None:
    """Serves the page until Ctrl-C. Reading needs no login; changing anything needs a token.

    Behind a proxy set COMPILER_AGENT_LEADERBOARD_URL to what browsers call the page.

    Example: compiler-agent leaderboard --port 8400
    """
    if context.invoked_subcommand is not None:
        return None
    settings = read_settings()
    board = read_board_settings(settings.home)
    host, port = host or board.host, board.port if port is None else port
    if not _is_this_machine(host):
        require_ordinary_user(settings, f"a leaderboard that others reach ({host})")
    return _serve(settings, board, host, port, allowed_host or ())


def _serve(settings: Settings, board: BoardSettings, host: str, port: int, allowed: Sequence[str]) -> ExitCode:
    try:
        import uvicorn

        from leaderboard.app import Site, make_app
        from leaderboard.board import Board
        from leaderboard.http.impatient import ImpatientProtocol
        from leaderboard.http.process import prepare_process
    except ModuleNotFoundError as error:
        raise UserFault(f"the leaderboard needs {error.name}: pip install 'compiler-agent[leaderboard]'") from error
    url = board.public_url
    site = Site(
        hosts=(*_own_names(host), *allowed, *((url.netloc,) if url is not None else ())),
        root_path=url.path if url is not None else "",
        public_origin=f"{url.scheme}://{url.netloc}" if url is not None else None,
    )
    shown = Board(
        ledger=Ledger(settings.ledger_url),
        blobs=open_blobs(settings),
        builds=BuildStore(settings.home),
        counters=board.counters,
        actions=BuildActions(settings),
        tokens=_token_file(settings),
        usd_per_device_hour=board.usd_per_device_hour,
        base_url=url.geturl() if url is not None else None,
        redact=Redactor(known_secrets(read_endpoints(settings.home, os.environ), os.environ)).redact,
    )
    try:
        application = make_app(shown, site, read_webhook_targets())
    except ValueError as error:  # a name that is none
        raise UserFault(str(error)) from error
    config = uvicorn.Config(
        application,
        http=ImpatientProtocol,
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=5,
        limit_concurrency=512,
    )
    configure_logs()
    prepare_process()
    with _listen(host, port) as listener:
        address = f"http://{_in_url(host)}:{listener.getsockname()[1]}{site.root_path}/"
        logging.getLogger(__name__).info("leaderboard at %s", address)
        readiness.tell(is_ready=True)  # it accepts from now on; who comes before the page is there waits
        _run_until_stopped(uvicorn.Server(config), listener)
    return ExitCode.DONE


def _run_until_stopped(server: "uvicorn.Server", listener: socket.socket) -> None:
    """Ctrl-C and TERM let requests end. In a thread: in the main one uvicorn raises the signal once more when it is
    done."""
    serving = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    serving.start()
    try:
        serving.join()
    except KeyboardInterrupt:
        server.should_exit = True
        serving.join()


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise UserFault(f"cannot listen at {host}:{port} ({error.strerror}): give another --host or --port") from error
    # Accepted sockets inherit it; asyncio sets it itself on those of its own making alone. Without it the body of an
    # answer waits 40 ms for the browser to acknowledge its head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _own_names(host: str) -> tuple[str, ...]:
    """What a browser on this machine, or one that is given the address, calls it."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return (host,)
    local = ("localhost", "127.0.0.1", "[::1]")
    return local if address.is_loopback or address.is_unspecified else (_in_url(host),)


def _is_this_machine(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _token_file(settings: Settings) -> TokenFile:
    return TokenFile(settings.home / "keys" / "leaderboard.json")


@tokens.command("new")
def new_token(name: NameArgument, json: JsonOption = False) -> ExitCode:
    """Makes a token and shows it, this once.

    Example: compiler-agent leaderboard token new ann
    """
    token = _token_file(read_settings()).create(name)
    if json:
        print_json({"name": name, "token": token})
    else:
        result_console.print(token, highlight=False)
    return ExitCode.DONE


@tokens.command("list")
def list_tokens(json: JsonOption = False) -> ExitCode:
    """Lists whose tokens there are.

    Example: compiler-agent leaderboard token list
    """
    names = _token_file(read_settings()).names()
    if json:
        print_json(list(names))
    else:
        result_console.print("\n".join(names) or "no tokens: nobody can act on the page", highlight=False)
    return ExitCode.DONE


@tokens.command("remove")
def remove_token(name: NameArgument, json: JsonOption = False) -> ExitCode:
    """Ends a token at once.

    Example: compiler-agent leaderboard token remove ann
    """
    _token_file(read_settings()).remove(name)
    if json:
        print_json({"removed": name})
    else:
        result_console.print(f"removed {name}", highlight=False)
    return ExitCode.DONE
