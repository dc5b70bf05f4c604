"""Settings of the web demo; no TensorFlow is imported here."""

import dataclasses
import ipaddress
import pathlib
import re
import threading
from collections.abc import Mapping, Sequence

from electra_tf.util.errors import UserError

LOOPBACK = "127.0.0.1"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DemoConfig:
    """Models to show, and the address of the page.

    Attributes:
        discriminator, generator: export folders, whose latest version is served; or
            None.
        tasks: export folders of fine-tuned tasks, by task name.
        host: address to listen on.
        port: port to listen on; 0 picks a free one.
        allowed_hosts: names, besides `host`, under which browsers may request the page.
        max_characters: maximum length of each text in a request.
        request_seconds: time to send a request.

    Raises:
        UserError: a value is invalid.
    """

    discriminator: pathlib.Path | None = None
    generator: pathlib.Path | None = None
    tasks: Mapping[str, pathlib.Path] = dataclasses.field(default_factory=dict)
    host: str = LOOPBACK
    port: int = 8080
    allowed_hosts: Sequence[str] = ()
    max_characters: int = 2000
    request_seconds: float = 30.0

    def __post_init__(self) -> None:
        if not (self.discriminator or self.tasks):
            raise UserError(
                "Nothing to show: pass an exported model with --discriminator or --tasks (see "
                "export_saved_model.py)"
            )
        if self.generator and not self.discriminator:
            raise UserError("--generator requires --discriminator")
        if not self.host:  # the server would listen on all addresses
            raise UserError("--host is empty: pass an address, such as 127.0.0.1")
        if not 0 <= self.port < 2**16:
            raise UserError(f"--port must be in [0, 65535], not {self.port}")
        if self.max_characters < 1:
            raise UserError(f"--max_characters must be positive, not {self.max_characters}")
        if not 0 < self.request_seconds < threading.TIMEOUT_MAX:
            raise UserError(f"--request_seconds must be positive, not {self.request_seconds}")
        for name in self.allowed_hosts:
            if not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
                raise UserError(
                    f"--allowed_hosts must be host names without a port, not {name!r}"
                )

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the page."""
        return _is_loopback(self.host)

    def allows(self, host_header: str | None) -> bool:
        """Returns whether a Host header is allowed.

        A page of another site can resolve its own domain to this server and read its answers
        (DNS rebinding), but only under that name. So addresses are allowed, other names only
        if they are listed.
        """
        match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^:@/\[\]\s]+)(?::\d+)?", host_header or "")
        if not match:
            return False
        name = match[1].strip("[]").lower().removesuffix(".")
        if name in (self.host.lower(), *(allowed.lower() for allowed in self.allowed_hosts)):
            return True
        return _is_loopback(name) or (not self.is_local and _is_address(name))


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
