"""The feed: the newest wins and retractions as Atom (RFC 4287), by the page's ranking."""

from datetime import UTC, datetime
from xml.etree import ElementTree

from fastapi import APIRouter, Request
from fastapi.responses import Response

from candidates.ledger.find_standings import find_standings
from candidates.standing import Filters, Standing
from leaderboard import wording
from leaderboard.pages.render import board_of, link

router = APIRouter()

ENTRIES = 50
_ATOM = "http://www.w3.org/2005/Atom"


@router.get("/feed.atom")
def feed(request: Request) -> Response:
    board = board_of(request)
    wins = find_standings(board.ledger, Filters(), serving=board.serving(), limit=ENTRIES).standings
    base = (board.base_url or str(request.base_url)).rstrip("/")

    def absolute(path: str) -> str:
        return base + path.removeprefix(request.scope.get("root_path", ""))

    ElementTree.register_namespace("", _ATOM)
    root = ElementTree.Element(f"{{{_ATOM}}}feed")
    newest = max((standing.updated_at for standing in wins), default=datetime.fromtimestamp(0, UTC))
    _add(root, "id", absolute(link(request, "feed.atom")))
    _add(root, "title", "Kernel wins")
    _add(root, "updated", newest.isoformat())
    _add(root, "link", href=absolute(link(request, "feed.atom")), rel="self")
    _add(_add(root, "author"), "name", "Compiler Agent")
    for standing in wins:
        _add_entry(root, standing, absolute(link(request, "candidates", standing.candidate_id)))
    return Response(
        ElementTree.tostring(root, encoding="utf-8", xml_declaration=True), media_type="application/atom+xml"
    )


def _add_entry(root: ElementTree.Element, standing: Standing, address: str) -> None:
    entry = _add(root, "entry")
    # A kernel that is taken back is news again, so the state is part of what the entry is.
    _add(entry, "id", f"urn:compiler-agent:{standing.task_id}:{standing.candidate_id}:{standing.state}")
    _add(entry, "title", f"{standing.op}: {wording.speedup(standing.speedup)}, {standing.state}")
    _add(entry, "updated", standing.updated_at.isoformat())
    _add(entry, "link", href=address)
    figures = (
        f"{wording.speedup(standing.speedup)} ({wording.interval(standing.interval)}, n {standing.pairs}) over the "
        f"best baseline on {standing.device_id}, {wording.share(standing.share_of_floor)} of the roofline; "
        f"{wording.share(standing.share_of_time)} of the traffic's time. {standing.reason}"
    )
    _add(entry, "summary", figures.rstrip())


def _add(parent: ElementTree.Element, name: str, text: str = "", **attributes: str) -> ElementTree.Element:
    element = ElementTree.SubElement(parent, f"{{{_ATOM}}}{name}", attributes)
    element.text = _in_xml(text) or None
    return element


def _in_xml(text: str) -> str:
    """Without the characters that XML 1.0 cannot hold, however they are escaped."""
    return "".join(
        c for c in text if c in "\t\n\r" or " " <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" or c > "\uffff"
    )
