"""Errors of connections and requests, turned into `PullFailed` and `Retryable`. Knows no retries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpcore
import httpx

from localllm.errors import PullFailed
from localllm.registry.fetch.pacing import Retryable
from localllm.registry.fetch.sockets import LinkError, NoConnection, NotTrusted, ProxyFailed, Unresolved

_NO_RESPONSE = "Server disconnected without sending a response."
"""What httpcore reports if the connection is closed before a response."""


@contextmanager
def explained(url: httpx.URL) -> Iterator[None]:
    """Turns connection errors into ours."""
    host = url.host
    try:
        yield
    except (httpcore.LocalProtocolError, httpx.InvalidURL, UnicodeEncodeError) as error:
        raise PullFailed(f"this request cannot be sent to {host}: {error}") from error
    except ProxyFailed as error:
        raise Retryable(f"the proxy cannot connect to {host}: {error}", is_outage=True) from error
    except NotTrusted as error:
        raise PullFailed(
            f"the certificate of {host} is not trusted: {error}; "
            "if your network has its own CA, give its certificate as the CA file"
        ) from error
    except Unresolved as error:
        raise Retryable(f"no connection to {host}: {error}", is_outage=True, is_unresolved=True) from error
    except NoConnection as error:
        raise Retryable(f"no connection to {host}: {error}", is_outage=True) from error
    except httpcore.RemoteProtocolError as error:
        why = "the server closed the connection without a response" if str(error) == _NO_RESPONSE else error
        raise Retryable(f"the connection to {host} failed: {why}", is_outage=True) from error
    except (LinkError, httpcore.WriteError) as error:
        raise Retryable(f"the connection to {host} failed: {error}", is_outage=True) from error
