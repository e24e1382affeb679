"""KEYS: every setting, by its name in `compiler-agent.toml` and by the variable that it stands for.

A new setting is a row here and a `read_…` function that parses its variable; the table parses no value.
"""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What the file may hold for a key; a variable holds text."""

    TEXT = "text"
    PATH = "path"
    """One that is relative in the file starts at the file's folder."""
    URL = "url"
    """A password in it belongs to the environment: the file is refused with one, and none is shown."""
    PLACE = "path or URL"
    """A URL, also of a SQLite file, or a path: one that is relative in the file starts at the file's folder."""
    WHOLE = "whole number"
    NUMBER = "number"
    SWITCH = "true or false"
    WORDS = "list of texts"
    """In the variable with commas between them."""
    ADDRESSES = "list of addresses"
    """In the variable with blanks between them. Shown without what stands behind the host: some are a secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    name: str
    """As the file has it, `table.key`."""
    variable: str
    sentence: str
    kind: Kind = Kind.TEXT
    default: str = ""
    """As the variable would have it; empty: nothing. `$HOME_FOLDER` stands for the key `home`."""
    is_secret: bool = False
    """It is refused in the file, and nothing shows it."""


def _key(
    name: str, variable: str, sentence: str, kind: Kind = Kind.TEXT, default: str = "", *, is_secret: bool = False
) -> Key:
    return Key(name=name, variable=variable, sentence=sentence, kind=kind, default=default, is_secret=is_secret)


HOME_FOLDER = "$HOME_FOLDER"

KEYS: tuple[Key, ...] = (
    _key("home", "COMPILER_AGENT_HOME", "Folder of ledger, blobs, models, builds and logs.", Kind.PATH, "var"),
    _key(
        "ledger.url",
        "COMPILER_AGENT_LEDGER",
        "SQLAlchemy URL of the ledger; without it SQLite in the home.",
        Kind.PLACE,
    ),
    _key(
        "ledger.url_file",
        "COMPILER_AGENT_LEDGER_FILE",
        "File that holds the ledger's URL, password included; read where `ledger.url` is not set.",
        Kind.PATH,
    ),
    _key(
        "blobs.place",
        "COMPILER_AGENT_BLOBS",
        "Folder or fsspec URL, such as s3://bucket/prefix, of the blobs; without it a folder of the home.",
        Kind.PLACE,
    ),
    _key(
        "retention.candidates_days",
        "COMPILER_AGENT_KEEP_CANDIDATES_DAYS",
        "Days that artifacts and dialogues of candidates that won nothing are kept.",
        Kind.WHOLE,
        "90",
    ),
    _key(
        "retention.progress_days",
        "COMPILER_AGENT_KEEP_PROGRESS_DAYS",
        "Days that progress lines of a run that has ended are kept.",
        Kind.WHOLE,
        "30",
    ),
    _key("retention.logs_days", "COMPILER_AGENT_KEEP_LOGS_DAYS", "Days that log files are kept.", Kind.WHOLE, "30"),
    _key("retention.builds", "COMPILER_AGENT_KEEP_BUILDS", "So many builds are kept.", Kind.WHOLE, "5"),
    _key("temporal.address", "COMPILER_AGENT_TEMPORAL", "host:port of a Temporal server; without it one is started."),
    _key("temporal.namespace", "COMPILER_AGENT_TEMPORAL_NAMESPACE", "Namespace on that server.", default="default"),
    _key("temporal.tls", "COMPILER_AGENT_TEMPORAL_TLS", "It is spoken to over TLS.", Kind.SWITCH, "0"),
    _key(
        "temporal.tls_ca_file",
        "COMPILER_AGENT_TEMPORAL_TLS_CA_FILE",
        "PEM file of the authority that vouches for it; else those that this machine trusts.",
        Kind.PATH,
    ),
    _key(
        "temporal.tls_certificate_file",
        "COMPILER_AGENT_TEMPORAL_TLS_CERTIFICATE_FILE",
        "PEM file of our certificate, where it wants one.",
        Kind.PATH,
    ),
    _key("temporal.tls_key_file", "COMPILER_AGENT_TEMPORAL_TLS_KEY_FILE", "PEM file of its key.", Kind.PATH),
    _key("temporal.api_key", "COMPILER_AGENT_TEMPORAL_API_KEY", "Key that it wants, over TLS.", is_secret=True),
    _key(
        "temporal.api_key_file",
        "COMPILER_AGENT_TEMPORAL_API_KEY_FILE",
        "File that holds it, where no variable does.",
        Kind.PATH,
    ),
    _key("sandbox.name", "COMPILER_AGENT_SANDBOX", "What holds untrusted programs.", default="bubblewrap"),
    _key("device.gpu", "COMPILER_AGENT_GPU", "UUID of the GPU, or part of one, that kernels are judged on."),
    _key(
        "device.usd_per_hour",
        "COMPILER_AGENT_DEVICE_USD_PER_HOUR",
        "What an hour of the device costs, for figures in dollars.",
        Kind.NUMBER,
    ),
    _key(
        "worker.allow_root",
        "COMPILER_AGENT_ALLOW_ROOT",
        "Lets workers and what listens beyond this machine run as root.",
        Kind.SWITCH,
        "0",
    ),
    _key("logs.format", "COMPILER_AGENT_LOG_FORMAT", "Of what serves for long: text or json.", default="text"),
    _key("logs.level", "COMPILER_AGENT_LOG_LEVEL", "DEBUG, INFO, WARNING or ERROR.", default="INFO"),
    _key(
        "metrics.address",
        "COMPILER_AGENT_METRICS",
        "Address and port where `compiler-agent metrics` serves; without it `up` starts none.",
    ),
    _key(
        "metrics.worker_address",
        "COMPILER_AGENT_WORKER_METRICS",
        "Address and port of a worker's own metrics; workers of `up` take ports from there on.",
    ),
    _key("leaderboard.host", "COMPILER_AGENT_LEADERBOARD_HOST", "Address that it listens at.", default="127.0.0.1"),
    _key("leaderboard.port", "COMPILER_AGENT_LEADERBOARD_PORT", "Port; 0: one that is free.", Kind.WHOLE, "8400"),
    _key("leaderboard.url", "COMPILER_AGENT_LEADERBOARD_URL", "What browsers call the page behind a proxy.", Kind.URL),
    _key(
        "leaderboard.counters",
        "COMPILER_AGENT_COUNTERS",
        "Folder where serving processes leave what they counted.",
        Kind.PATH,
        f"{HOME_FOLDER}/counters",
    ),
    _key(
        "webhook.urls",
        "COMPILER_AGENT_WEBHOOK_URL",
        "Addresses that promotions and changes of the live build are told to.",
        Kind.ADDRESSES,
    ),
    _key(
        "webhook.secrets",
        "COMPILER_AGENT_WEBHOOK_SECRET",
        "A secret for each of them, in the same order.",
        Kind.ADDRESSES,
        is_secret=True,
    ),
    _key("webhook.secret_file", "COMPILER_AGENT_WEBHOOK_SECRET_FILE", "File that holds those secrets.", Kind.PATH),
    _key(
        "digest.url",
        "COMPILER_AGENT_DIGEST_URL",
        "Incoming webhook that the digest of each night is posted to; who knows it may post there.",
        is_secret=True,
    ),
    _key("digest.url_file", "COMPILER_AGENT_DIGEST_URL_FILE", "File that holds that address.", Kind.PATH),
    _key("forge.name", "COMPILER_AGENT_FORGE", "Where pull requests are opened: local or github.", default="local"),
    _key("forge.repository", "COMPILER_AGENT_REPOSITORY", "A git folder, or owner/name; without it no pull requests."),
    _key("forge.base_branch", "COMPILER_AGENT_BASE_BRANCH", "Branch that they aim at; else the repository's own."),
    _key("forge.url", "COMPILER_AGENT_FORGE_URL", "API of GitHub Enterprise, https://HOST/api/v3.", Kind.URL),
    _key("forge.token", "GITHUB_TOKEN", "Token of the forge.", is_secret=True),
    _key(
        "forge.token_variable",
        "COMPILER_AGENT_TOKEN_VARIABLE",
        "Variable that holds the token instead.",
        default="GITHUB_TOKEN",
    ),
    _key("forge.token_file", "COMPILER_AGENT_TOKEN_FILE", "File that holds it, where no variable does.", Kind.PATH),
    _key(
        "pull_requests.per",
        "COMPILER_AGENT_PULL_REQUEST_PER",
        "What shares a pull request: promotion or op.",
        default="promotion",
    ),
    _key(
        "pull_requests.folder",
        "COMPILER_AGENT_PULL_REQUEST_FOLDER",
        "Folder in the repository.",
        default="compiler_agent_kernels",
    ),
    _key(
        "pull_requests.labels",
        "COMPILER_AGENT_PULL_REQUEST_LABELS",
        "Labels that they get.",
        Kind.WORDS,
        "compiler-agent",
    ),
    _key("pull_requests.draft", "COMPILER_AGENT_PULL_REQUEST_DRAFT", "They begin as drafts.", Kind.SWITCH, "0"),
    _key("pull_requests.limit", "COMPILER_AGENT_PULL_REQUEST_LIMIT", "How many may be open.", Kind.WHOLE, "3"),
    _key(
        "signing.key_file",
        "COMPILER_AGENT_SIGNING_KEY",
        "File of the private key that signs builds; without it keys/signing.pem in the home.",
        Kind.PATH,
    ),
    _key("signing.trusted_keys", "COMPILER_AGENT_TRUSTED_KEYS", "Public keys whose builds may go live.", Kind.WORDS),
    _key("openai.api_key", "OPENAI_API_KEY", "Key of OpenAI or a server that speaks its API.", is_secret=True),
    _key("openai.base_url", "OPENAI_BASE_URL", "That server; else OpenAI's own.", Kind.URL),
    _key("openai.model", "OPENAI_MODEL", "Model that it is asked for."),
    _key("anthropic.api_key", "ANTHROPIC_API_KEY", "Key of Anthropic or a server that speaks its API.", is_secret=True),
    _key("anthropic.base_url", "ANTHROPIC_BASE_URL", "That server; else Anthropic's own.", Kind.URL),
    _key("anthropic.model", "ANTHROPIC_MODEL", "Model that it is asked for."),
)

OTHERS_VARIABLES = (
    "COMPILER_AGENT_ALLOW_UNSIGNED",
    "COMPILER_AGENT_CONFIG",
    "COMPILER_AGENT_DISABLE",
    "COMPILER_AGENT_MODEL",
    "COMPILER_AGENT_SHADOW_ONE_IN",
)
"""They are no settings of the service: where the file is, and what the runtime of a build reads as it serves."""
