"""GitHubServer: HTTP in front of pull requests and of `git http-backend`, on a free port of this machine."""

import base64
import gzip
import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

from tests.forge_server.faults import Fault
from tests.forge_server.pulls import Json, Pulls, Refusal
from tests.forge_server.repository import PeoplesRepository

TOKEN = "ghs_1234_a.token-of-no-fixed-length"
NAME = "owner/kernels"
API = "/api/v3"


class GitHubServer:
    """One repository, NAME; TOKEN may do everything unless `may_push` or `may_write` say otherwise."""

    def __init__(self, folder: Path) -> None:
        self.repository = PeoplesRepository(folder / f"{NAME}.git")
        self.root = folder
        self.faults: list[Fault] = []
        self.requests: list[tuple[str, str]] = []
        self.may_push = self.may_write = True
        self.most_per_page = 100
        self.over = threading.Event()
        self.lock = threading.RLock()
        server = self

        class Handler(_Handler):
            github = server

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        self.api_url = f"{self.url}{API}"
        self.pulls = Pulls(self.repository, NAME, self.api_url, self.url)

    def writes(self) -> list[tuple[str, str]]:
        """Requests that could change something, with pushes."""
        return [
            (method, path)
            for method, path in self.requests
            if (path.startswith(API) and method != "GET") or path.endswith("/git-receive-pack")
        ]

    def pushes(self) -> int:
        return sum(path.endswith("/git-receive-pack") for _, path in self.requests)


@contextmanager
def github_server(folder: Path) -> Iterator[GitHubServer]:
    server = GitHubServer(folder)
    thread = threading.Thread(target=server.http.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.http.shutdown()
        server.http.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    github: GitHubServer

    def log_message(self, format: str, *arguments: object) -> None:
        pass

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PATCH(self) -> None:
        self._serve()

    def _serve(self) -> None:
        content, path = self._content(), urlsplit(self.path).path
        self.github.requests.append((self.command, path))
        fault = next((fault for fault in self.github.faults if fault.meets(self.command, path)), None)
        if fault is not None:
            fault.times -= 1
            if fault.is_done:
                self._answer(path, content)
            fault.arrived.set()
            if fault.holds:
                self.github.over.wait()
                self.close_connection = True
                return
            self._send(fault.status, json.dumps(fault.body).encode(), fault.headers)
            return
        self._send(*self._answer(path, content))

    def _answer(self, path: str, content: bytes) -> tuple[int, bytes, dict[str, str]]:
        if not path.startswith(API):
            return self._git(path, content)
        with self.github.lock:
            try:
                return self._api(path.removeprefix(API), content)
            except Refusal as refusal:
                return refusal.status, json.dumps(refusal.body).encode(), {}

    def _api(self, path: str, content: bytes) -> tuple[int, bytes, dict[str, str]]:
        if self.headers.get("Authorization", "").split(" ")[-1] != TOKEN:
            raise Refusal(401, {"message": "Bad credentials", "documentation_url": "https://docs.github.com/rest"})
        pulls = self.github.pulls
        found = re.fullmatch(rf"/repos/{NAME}(/(pulls|issues)(/(\d+)(/(comments|labels))?)?)?", path)
        if found is None:
            raise Refusal(404, {"message": "Not Found"})
        kind, number, part = found[2], found[4], found[6]
        asked: Json = json.loads(content) if content else {}
        if self.command != "GET" and not self.github.may_write:
            raise Refusal(403, {"message": "Resource not accessible by integration"})
        match self.command, kind, part:
            case "GET", None, _:
                shown = {"full_name": NAME, "default_branch": "main", "url": pulls.url, "name": NAME.split("/")[1]}
                return _json(200, shown)
            case "GET", "pulls", None if number is None:
                return self._page([pulls.shown(each) for each in pulls.matching(self._query())])
            case "POST", "pulls", None if number is None:
                return _json(201, pulls.open(asked))
            case "GET", "pulls", None:
                return _json(200, pulls.shown(pulls.one(int(number))))
            case "PATCH", "pulls", None:
                return _json(200, pulls.edit(int(number), asked))
            case "GET", "issues", None:
                return _json(200, pulls.issue(pulls.one(int(number))))
            case "GET", "issues", "comments":
                pull = pulls.one(int(number))
                return self._page([pulls.comment(pull, place) for place in range(len(pull.comments))])
            case "POST", "issues", "comments":
                pull = pulls.one(int(number))
                pull.comments.append(str(asked["body"]))
                return _json(201, pulls.comment(pull, len(pull.comments) - 1))
            case "POST", "issues", "labels":
                pull = pulls.one(int(number))
                labels = asked["labels"] if isinstance(asked, dict) else asked
                pull.labels.extend(label for label in labels if label not in pull.labels)
                return _json(200, [{"name": label} for label in pull.labels])
            case _:
                raise Refusal(404, {"message": "Not Found"})

    def _page(self, found: list[Json]) -> tuple[int, bytes, dict[str, str]]:
        query = self._query()
        page, size = int(query.get("page", 1)), min(int(query.get("per_page", 30)), self.github.most_per_page)
        pages, headers = -(-len(found) // size), {}
        if page < pages:
            here = f"{self.github.url}{urlsplit(self.path).path}"
            links = [
                f'<{here}?{urlencode({**query, "page": number})}>; rel="{name}"'
                for name, number in (("next", page + 1), ("last", pages))
            ]
            headers["Link"] = ", ".join(links)
        return 200, json.dumps(found[(page - 1) * size : page * size]).encode(), headers

    def _query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.path).query))

    def _git(self, path: str, content: bytes) -> tuple[int, bytes, dict[str, str]]:
        given = self.headers.get("Authorization", "").removeprefix("Basic ")
        expected = base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()
        if given != expected:
            return 401, b"", {"WWW-Authenticate": 'Basic realm="GitHub"'}
        is_push = "git-receive-pack" in self.path
        if is_push and not self.github.may_push:
            return 403, b"remote: Permission to owner/kernels.git denied to compiler-agent.\n", {}
        environment = {
            **{name: os.environ[name] for name in ("PATH",)},
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_PROJECT_ROOT": str(self.github.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": urlsplit(self.path).query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(content)),
            "HTTP_GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REMOTE_USER": "compiler-agent",
            "REMOTE_ADDR": "127.0.0.1",
        }
        ran = subprocess.run(["git", "http-backend"], input=content, env=environment, capture_output=True, check=False)
        head, _, body = ran.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        return int(headers.pop("Status", "200").split()[0]), body, headers

    def _content(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            content = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                content += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return gzip.decompress(content) if self.headers.get("Content-Encoding") == "gzip" else content

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        headers = {"Content-Type": "application/json; charset=utf-8", **headers, "Content-Length": str(len(body))}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def _json(status: int, content: object) -> tuple[int, bytes, dict[str, str]]:
    return status, json.dumps(content).encode(), {}
