import base64

import pytest

from leaderboard.webhooks.target import WebhookTarget
from tests.leaderboard.webhook_receiver import SECRET


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/hook?key=1",
        "http://localhost:80/",
        "http://127.1.2.3/hook",
        "http://[::1]:8080/h",
        "https://h",
    ],
)
def test_takes_https_and_this_machine(url: str) -> None:
    assert WebhookTarget(url=url, secret=SECRET).url == url


@pytest.mark.parametrize(
    "url",
    ["http://example.org/", "http://10.0.0.1/", "http://localhost.example.org/", "ftp://example.org/", "file:///etc/passwd",
     "https://", "https://user:word@example.org/", "https://example.org/#a", "https://example.org/ a", "https://ä.example/",
     "https://example.org:99999/", "https://[::1/", "example.org", ""],
)  # fmt: skip
def test_refuses_other_addresses(url: str) -> None:
    with pytest.raises(ValueError, match="an address") as fault:
        WebhookTarget(url=url, secret=SECRET)
    assert "example" not in str(fault.value)


@pytest.mark.parametrize(
    "secret", ["", "whsec_", SECRET[6:], "whsec_short", "whsec_" + base64.b64encode(b"x" * 65).decode(), SECRET + "!"]
)
def test_refuses_what_is_no_secret(secret: str) -> None:
    with pytest.raises(ValueError, match="24 to 64 bytes"):
        WebhookTarget(url="https://example.org/", secret=secret)


def test_a_secret_is_not_shown() -> None:
    assert SECRET not in repr(WebhookTarget(url="https://example.org/", secret=SECRET))
