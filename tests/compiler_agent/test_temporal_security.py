"""A Temporal server behind TLS that wants a certificate: a real one, with a proxy before it that ends TLS."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from compiler_agent.outcome import UserFault
from compiler_agent.settings import read_settings
from compiler_agent.temporal_security import read_temporal_security
from compiler_agent.temporal_server import TemporalUnavailable, temporal_server
from compiler_agent.worker import connect

PREFIX = "COMPILER_AGENT_TEMPORAL_"


@pytest.fixture(scope="module")
def pem(tmp_path_factory):
    """Files of an authority, and of a certificate of its own that serves both ends."""
    folder = tmp_path_factory.mktemp("pem")
    authority, ours = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    names = {key: x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for key, name in ((0, "ca"), (1, "us"))}

    def certificate(subject, key, *, is_authority):
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(names[subject])
            .issuer_name(names[0])
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
            .sign(authority, hashes.SHA256())
            .public_bytes(serialization.Encoding.PEM)
        )

    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "ca.pem").write_bytes(certificate(0, authority, is_authority=True))
    (folder / "us.pem").write_bytes(certificate(1, ours, is_authority=False))
    (folder / "key.pem").write_bytes(ours.private_bytes(*plain))
    return folder


@contextlib.asynccontextmanager
async def tls_before(address: str, pem) -> AsyncIterator[str]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=pem / "ca.pem")
    context.load_cert_chain(pem / "us.pem", pem / "key.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(["h2"])
    host, _, port = address.rpartition(":")

    async def copy(source, target):
        with contextlib.suppress(OSError):
            while content := await source.read(65536):
                target.write(content)
                await target.drain()
        target.close()

    async def forward(reader, writer):
        inner_reader, inner_writer = await asyncio.open_connection(host, int(port))
        await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer))

    server = await asyncio.start_server(forward, "127.0.0.1", 0, ssl=context)
    yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with temporal_server(read_settings({"COMPILER_AGENT_HOME": str(tmp_path_factory.mktemp("home"))})) as address:
        yield address


def test_a_server_that_wants_tls_and_a_certificate_gets_both(address, pem, monkeypatch):
    async def ask() -> None:
        async with tls_before(address, pem) as outside:
            monkeypatch.setenv("COMPILER_AGENT_TEMPORAL", outside)
            with pytest.raises(TemporalUnavailable, match="no Temporal server answers at"):
                await connect(outside, "default")
            monkeypatch.setenv(f"{PREFIX}TLS_CA_FILE", str(pem / "ca.pem"))
            with pytest.raises(TemporalUnavailable, match="answers over TLS at"):
                await connect(outside, "default")
            monkeypatch.setenv(f"{PREFIX}TLS_CERTIFICATE_FILE", str(pem / "us.pem"))
            monkeypatch.setenv(f"{PREFIX}TLS_KEY_FILE", str(pem / "key.pem"))
            client = await connect(outside, "default")
            assert await client.service_client.check_health()

    asyncio.run(ask())


def test_a_server_of_our_own_has_no_tls():
    with pytest.raises(UserFault, match="COMPILER_AGENT_TEMPORAL does not name"):
        read_temporal_security({f"{PREFIX}TLS": "1"})


def test_without_settings_nothing_is_secured():
    security = read_temporal_security({})
    assert (security.has_tls, security.api_key, security.ca) == (False, None, None)


def test_an_api_key_is_from_the_environment_or_a_file_and_goes_over_tls(tmp_path):
    (tmp_path / "key").write_text("from-file\n")
    given = {f"{PREFIX}API_KEY_FILE": str(tmp_path / "key"), "COMPILER_AGENT_TEMPORAL": "temporal:7233"}
    security = read_temporal_security(given)
    assert (security.has_tls, security.api_key) == (True, "from-file")
    assert read_temporal_security(given | {f"{PREFIX}API_KEY": "other"}).api_key == "other"


@pytest.mark.parametrize(
    "given",
    [{"TLS_CERTIFICATE_FILE": "pem"}, {"TLS_CA_FILE": "/nowhere"}, {"API_KEY_FILE": "empty"}],
)
def test_what_cannot_be_used_is_refused_by_name(tmp_path, given):
    (tmp_path / "pem").write_text("-")
    (tmp_path / "empty").write_text("\n")
    ((name, file),) = given.items()
    with pytest.raises(UserFault, match=f"{PREFIX}{name}"):
        read_temporal_security({f"{PREFIX}{name}": str(tmp_path / file)})
