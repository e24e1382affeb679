"""open_client: which client stands behind which API name."""

from compiler_agent.models.completion import ModelClient
from compiler_agent.models.endpoints import ApiName, Endpoint
from compiler_agent.models.redaction import Redacting, Redactor
from compiler_agent.models.retry import Retrying, RetryPolicy
from compiler_agent.outcome import UserFault


def open_client(
    endpoint: Endpoint, key: str | None, redactor: Redactor, policy: RetryPolicy | None = None
) -> ModelClient:
    """A client that retries and holds keys back. Raises UserFault where the vendor's SDK is not installed."""
    return Retrying(Redacting(_open_bare(endpoint, key), redactor), policy)


def _open_bare(endpoint: Endpoint, key: str | None) -> ModelClient:
    # Imported here: a run without language models needs no SDK.
    try:
        match endpoint.api:
            case ApiName.ANTHROPIC_MESSAGES:
                from compiler_agent.models.anthropic_messages import AnthropicMessages

                return AnthropicMessages(endpoint, key)
            case ApiName.OPENAI_RESPONSES:
                from compiler_agent.models.openai_responses import OpenAIResponses

                return OpenAIResponses(endpoint, key)
            case ApiName.OPENAI_CHAT:
                from compiler_agent.models.openai_chat import OpenAIChat

                return OpenAIChat(endpoint, key)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("openai", "anthropic", "httpx2"):
            raise
        raise UserFault(
            f"endpoint {endpoint.name} needs the package {package}: pip install 'compiler-agent[llm]'"
        ) from error
