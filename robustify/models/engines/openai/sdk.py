"""Client of the openai SDK that ignores settings in the environment."""

import openai


class OpenAI(openai.OpenAI):  # type: ignore[misc]
    """Client that sends no headers from the environment, because they may be invalid, or meant for another server."""

    @property
    def default_headers(self) -> dict[str, str]:
        """Headers of each request, without the API key."""
        return {
            "Accept": "application/json",
            "Content-Type": "application/json",
            "User-Agent": self.user_agent,
        }
