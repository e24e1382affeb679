"""answer_faults: what readers are told when a request cannot be answered: a page, or JSON below /api/.

No answer holds what was asked for beside a name or the start of an id: JSON cannot hold all that a body can.
"""

import logging

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from candidates.ledger.ledger import LedgerError
from candidates.serving_build.runtime import BuildRefused
from leaderboard.filters import FiltersRefused
from leaderboard.pages.render import render

_LOG = logging.getLogger(__name__)

_UNREADABLE = "the ledger cannot be read at the moment: the log of the leaderboard says why"
_UNWRITABLE = "the ledger did not take this, and it may be done all the same: look at the page of what it was to change"
_NO_BUILDS = "the builds cannot be read at the moment: the log of the leaderboard says why"
_FAULT = "this cannot be shown, and the fault is ours: the log of the leaderboard says which it is"


def answer_faults(app: FastAPI) -> None:
    app.add_exception_handler(HTTPException, _http_fault)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(FiltersRefused, _refused)
    app.add_exception_handler(LedgerError, _missing)
    app.add_exception_handler(SQLAlchemyError, _unreadable)
    app.add_exception_handler(BuildRefused, _no_builds)
    # The server is told of it all the same, and logs it.
    app.add_exception_handler(Exception, _ours)


def _http_fault(request: Request, fault: Exception) -> Response:
    assert isinstance(fault, HTTPException)
    answer = _say(request, fault.status_code, fault.detail)
    answer.headers.update(fault.headers or {})
    return answer


def _invalid(request: Request, fault: Exception) -> Response:
    """Parameters, or a body, of another kind than is taken here."""
    assert isinstance(fault, RequestValidationError)
    first = fault.errors()[0]
    place = " ".join(map(str, first["loc"]))
    return _say(request, 422, f"{place[:80]}: {first['msg'][:200]}".encode(errors="replace").decode())


def _refused(request: Request, fault: Exception) -> Response:
    return _say(request, 400, str(fault))


def _missing(request: Request, fault: Exception) -> Response:
    """An id that is not in the ledger, or not unique."""
    return _say(request, 404, str(fault))


def _unreadable(request: Request, fault: Exception) -> Response:
    """The database is locked, gone, or of another release."""
    _LOG.error("the ledger cannot be used", exc_info=fault)
    return _say(request, 503, _UNWRITABLE if request.method == "POST" else _UNREADABLE)


def _no_builds(request: Request, fault: Exception) -> Response:
    """Somebody put something else where the link to the live build belongs."""
    _LOG.error("the builds cannot be read", exc_info=fault)
    return _say(request, 503, _NO_BUILDS)


def _ours(request: Request, fault: Exception) -> Response:
    return _say(request, 500, _FAULT)


def _say(request: Request, status_code: int, message: str) -> Response:
    if request.url.path.startswith(f"{request.scope.get('root_path', '')}/api/"):
        return JSONResponse({"detail": message}, status_code=status_code)
    page: HTMLResponse = render(request, "fault.html", status_code=status_code, status=status_code, message=message)
    return page
