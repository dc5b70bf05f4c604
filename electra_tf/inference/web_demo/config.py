"""Settings of the web demo; no TensorFlow is imported here."""

import dataclasses
import ipaddress
import pathlib
from collections.abc import Mapping

from electra_tf.util.errors import UserError

LOOPBACK = "127.0.0.1"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DemoConfig:
    """Models to show, and the address of the page.

    Attributes:
        discriminator, generator: export directories, whose latest version is served; or
            None.
        tasks: export directories of fine-tuned tasks, by task name.
        host: address to listen on.
        port: port to listen on; 0 picks a free one.
        max_characters: maximum length of each text in a request.

    Raises:
        UserError: a value is invalid.
    """

    discriminator: pathlib.Path | None = None
    generator: pathlib.Path | None = None
    tasks: Mapping[str, pathlib.Path] = dataclasses.field(default_factory=dict)
    host: str = LOOPBACK
    port: int = 8080
    max_characters: int = 2000

    def __post_init__(self) -> None:
        if not (self.discriminator or self.tasks):
            raise UserError(
                "Nothing to show: pass an exported model with --discriminator or --tasks (see "
                "export_saved_model.py)"
            )
        if self.generator and not self.discriminator:
            raise UserError("--generator requires --discriminator")
        if not 0 <= self.port < 2**16:
            raise UserError(f"--port must be in [0, 65535], not {self.port}")
        if self.max_characters < 1:
            raise UserError(f"--max_characters must be positive, not {self.max_characters}")

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the page."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False
